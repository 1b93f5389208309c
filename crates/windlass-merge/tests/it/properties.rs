//! Properties that hold for any input.

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_merge::{decode, json_patch, merge_patch, strategic};

use crate::{model, types};

/// Generates any operation, mostly on paths that may exist.
fn operation() -> impl Strategy<Value = Value> {
    let path = || {
        prop::collection::vec(model::name(), 0..4)
            .prop_map(|names| names.iter().map(|name| format!("/{name}")).collect::<String>())
    };
    let op = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "frob"]);
    (op, path(), path(), prop::option::of(model::document())).prop_map(|(op, path, from, value)| match value {
        Some(value) => json!({"op": op, "path": path, "from": from, "value": value}),
        None => json!({"op": op, "path": path, "from": from}),
    })
}

/// Generates patches as a well-behaved client writes them: the items of merging lists have their keys, without duplicates.
fn tidy_patch() -> impl Strategy<Value = Value> {
    let names = || prop::collection::btree_set(prop::sample::select(vec!["a", "b", "c", "d", "e"]), 0..4);
    let shuffled = move || names().prop_map(|set| set.into_iter().collect::<Vec<_>>()).prop_shuffle();
    (shuffled(), shuffled(), shuffled(), shuffled(), any::<bool>()).prop_map(|(secrets, finalizers, labels, env, gone)| {
        let named = |names: &[&str]| names.iter().map(|name| json!({"name": name, "value": "x"})).collect::<Vec<_>>();
        let mut secrets = named(&secrets);
        if gone {
            secrets.push(json!({"name": "z", "$patch": "delete"}));
        }
        let labels: serde_json::Map<_, _> = labels.iter().map(|name| ((*name).to_owned(), json!(name))).collect();
        json!({
            "metadata": {"finalizers": finalizers, "labels": labels},
            "spec": {"secrets": secrets, "containers": [{"name": "c", "env": named(&env)}], "tolerations": named(&env)},
        })
    })
}

proptest! {
    #[test]
    fn merge_patch_agrees_with_the_model(doc in model::document(), patch in model::document()) {
        let mut merged = doc.clone();
        merge_patch::apply(&mut merged, patch.clone());
        prop_assert_eq!(merged, model::merge(&doc, &patch));
    }

    #[test]
    fn a_json_patch_of_the_difference_gives_the_target(
        from in prop::collection::vec(model::document(), 0..4).prop_map(Value::Array),
        to in model::document().prop_filter("a root is a container", |to| to.is_object() || to.is_array()),
    ) {
        let patch = Value::Array(model::diff(&from, &to)).to_string();
        prop_assert_eq!(json_patch::apply(from, patch.as_bytes()), Ok(to));
    }

    #[test]
    fn json_patches_never_panic(
        doc in model::document(),
        operations in prop::collection::vec(operation(), 0..8),
    ) {
        let patch = Value::Array(operations).to_string();
        if let Err(error) = json_patch::apply(doc, patch.as_bytes()) {
            prop_assert_eq!(error.status(), 422);
        }
    }

    #[test]
    fn strategic_merge_is_idempotent(doc in tidy_patch(), patch in tidy_patch()) {
        let table = types::table();
        let apply = |doc| strategic::apply(doc, patch.clone(), types::OBJECT, &table);
        let start = strategic::apply(json!({}), doc, types::OBJECT, &table).expect("a tidy patch must apply");
        let once = apply(start).expect("a tidy patch must apply");
        prop_assert_eq!(apply(once.clone()), Ok(once));
    }

    #[test]
    fn strategic_merge_never_panics(doc in model::document(), patch in model::document()) {
        let table = types::table();
        let wrap = |value: Value| json!({"spec": {"secrets": value, "raw": 1}, "metadata": value});
        for (doc, patch) in [(doc.clone(), patch.clone()), (wrap(doc), wrap(patch))] {
            if let Err(error) = strategic::apply(doc, patch, types::OBJECT, &table) {
                prop_assert!([400, 422, 500].contains(&error.status()));
            }
        }
    }

    #[test]
    fn any_bytes_decode_or_return_an_error(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Err(text) = decode::decode(&bytes) {
            prop_assert!(!text.is_empty());
        }
    }

    #[test]
    fn json_with_a_byte_changed_decodes_as_serde_decodes_it(
        doc in model::document(),
        position in any::<prop::sample::Index>(),
        byte in prop::sample::select(b"{}[]\",:0e-.\\u tfn".to_vec()),
    ) {
        let mut bytes = doc.to_string().into_bytes();
        let position = position.index(bytes.len());
        bytes[position] = byte;
        let expected = serde_json::from_slice::<Value>(&bytes);
        let found = decode::decode(&bytes);
        prop_assert_eq!(found.is_ok(), expected.is_ok());
        // Go parses a negative zero as an integer, serde_json as a float.
        if let Ok(found) = found
            && !bytes.windows(2).any(|pair| pair == b"-0")
        {
            prop_assert_eq!(found.value, expected.expect("both must agree"));
        }
    }
}
