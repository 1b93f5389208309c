//! Malformed managed fields: writes and applies succeed regardless of their contents.

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Map, Value, json};

use super::{Story, kinds::GROUP};

/// Generates the key of a node in a field set: well-formed, nearly so, or not at all.
fn key() -> impl Strategy<Value = String> {
    let known = select(vec![
        ".",
        "f:spec",
        "f:a",
        "f:ports",
        "f:m",
        "f:others",
        "f:metadata",
        "f:labels",
        "f:",
        "k:{\"port\":80}",
        "k:{\"port\":80,\"protocol\":\"TCP\"}",
        "k:{}",
        "k:{",
        "k:[]",
        "v:1",
        "v:\"a\"",
        "v:{\"a\":[1]}",
        "v:",
        "i:0",
        "i:-1",
        "i:99999999999999999999",
        "i:x",
        "x:y",
        "",
    ]);
    prop_oneof![4 => known.prop_map(str::to_owned), 1 => "[fkvi.]:?.{0,6}"]
}

fn fields() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![4 => Just(json!({})), 1 => Just(Value::Null), 1 => Just(json!(1)), 1 => Just(json!(["x"]))];
    leaf.prop_recursive(5, 30, 4, |inner| {
        vec((key(), inner), 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>()))
    })
}

fn entry() -> impl Strategy<Value = Value> {
    let versions =
        vec![format!("{GROUP}/v1"), format!("{GROUP}/v2"), "v1".to_owned(), "a/b/c".to_owned(), String::new()];
    let times = vec![json!("2020-01-01T00:00:00Z"), json!("yesterday"), Value::Null, json!(7)];
    (
        select(vec!["alpha", "beta", "", "\u{0}"]),
        select(vec!["Apply", "Update", "", "apply"]),
        select(versions),
        select(vec!["FieldsV1", "FieldsV2", ""]),
        select(vec!["", "status", "scale"]),
        select(times),
        fields(),
    )
        .prop_map(|(manager, operation, version, kind, subresource, time, fields)| {
            json!({
                "manager": manager, "operation": operation, "apiVersion": version, "fieldsType": kind,
                "subresource": subresource, "time": time, "fieldsV1": fields,
            })
        })
}

fn spec() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(json!(1)), Just(json!("a")), Just(Value::Null), Just(json!(80)), Just(json!([1, "a"]))];
    leaf.prop_recursive(4, 20, 4, |inner| {
        let name = select(vec!["a", "b", "ports", "port", "protocol", "m", "others", "obj", "x"]);
        prop_oneof![
            vec((name.prop_map(str::to_owned), inner.clone()), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
            vec(inner, 0..4).prop_map(Value::from),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn malformed_managed_fields_do_not_break_writes(entries in vec(entry(), 0..4), first in spec(), second in spec(), force in any::<bool>()) {
        let mut story = Story::new();
        story.write("w", "", |object, _| {
            object["spec"] = first.clone();
            object["metadata"]["managedFields"] = entries.clone().into();
        });
        // As another server may have stored them, unchecked by this one.
        if let Some(live) = &mut story.live {
            live["metadata"]["managedFields"] = entries.clone().into();
        }
        let _ = story.apply("alpha", json!({"spec": second.clone()}));
        story.write("beta", "status", |object, _| object["status"] = second.clone());
        let _ = story.apply_with("alpha", force, json!({"spec": first.clone(), "metadata": {"labels": second.clone()}}));
        let _ = story.apply_with("beta", force, json!({"spec": {}, "metadata": {"managedFields": entries.clone()}}));
    }
}
