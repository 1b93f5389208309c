use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::Map;

use super::*;
use crate::apply::path::{ItemValue, Path, PathElement};

fn text() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "d"]).prop_map(str::to_owned)
}

/// Generates an object with some of these fields, at least one.
fn fields(parts: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let strategies: Vec<_> = parts
        .into_iter()
        .map(|(name, value)| prop::option::of(value.prop_map(move |value| (name.to_owned(), value))))
        .collect();
    strategies
        .prop_map(|fields| fields.into_iter().flatten().collect::<Map<_, _>>())
        .prop_filter_map("an object has a field", |map| (!map.is_empty()).then_some(Value::Object(map)))
        .boxed()
}

fn unique<K: Ord + std::fmt::Debug + 'static>(
    key: impl Strategy<Value = K> + 'static,
    value: impl Strategy<Value = Value> + 'static,
    item: fn(K, Value) -> Value,
) -> BoxedStrategy<Value> {
    let items = btree_map(key, value, 1..4)
        .prop_map(move |items| items.into_iter().map(|(key, value)| item(key, value)).collect());
    items.prop_flat_map(|items: Vec<Value>| Just(items).prop_shuffle()).prop_map(Value::Array).boxed()
}

fn with(mut value: Value, fields: &[(&str, Value)]) -> Value {
    for (name, field) in fields {
        value[*name] = field.clone();
    }
    value
}

/// Generates valid objects without nulls, empty containers, duplicates and deduced types, so that each path is either
/// present or absent.
fn valid() -> impl Strategy<Value = Value> {
    let string = || text().prop_map(Value::from).boxed();
    let int = || (0..3).prop_map(Value::from).boxed();
    let strings = || btree_map(text(), string(), 1..3).prop_map(|map| Value::Object(map.into_iter().collect())).boxed();
    let set = || unique(text(), Just(Value::Null), |text, _| Value::from(text));
    let item = fields(vec![("value", int()), ("sub", fields(vec![("a", string()), ("b", string())])), ("tags", set())]);
    let port = prop_oneof![Just(json!({})), string().prop_map(|note| json!({"note": note}))];
    fields(vec![(
        "spec",
        fields(vec![
            ("n", int()),
            ("s", string()),
            ("set", set()),
            ("atomic", vec(string(), 1..3).prop_map(Value::Array).boxed()),
            ("items", unique(text(), item, |name, item| with(item, &[("name", name.into())]))),
            (
                "ports",
                unique((0i64..3, text()), port, |(port, proto), item| {
                    with(item, &[("port", port.into()), ("proto", proto.into())])
                }),
            ),
            ("map", strings()),
            ("amap", strings()),
        ]),
    )])
}

/// Generates objects that may be invalid in any way.
fn any_object() -> impl Strategy<Value = Value> {
    let names =
        vec!["spec", "metadata", "n", "set", "atomic", "items", "ports", "map", "amap", "any", "name", "port", "x"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3).prop_map(Value::from),
        text().prop_map(Value::from)
    ];
    let document = leaf.prop_recursive(5, 40, 5, move |inner| {
        let name = prop::sample::select(names.clone()).prop_map(str::to_owned);
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            btree_map(name, inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    prop_oneof![document.clone(), document.prop_map(|spec| json!({"spec": spec}))]
}

/// Returns every path of a valid object, with its value if it is a leaf.
fn nodes(value: &Value) -> BTreeMap<Path, Option<Value>> {
    let mut nodes = BTreeMap::new();
    collect(value, &mut Vec::new(), &mut nodes);
    nodes
}

fn collect(value: &Value, path: &mut Vec<PathElement>, nodes: &mut BTreeMap<Path, Option<Value>>) {
    let name = path.last().and_then(PathElement::as_field).map(str::to_owned);
    let children: Vec<(PathElement, &Value)> = match (name.as_deref(), value) {
        (Some("atomic" | "amap"), _) => Vec::new(),
        (_, Value::Object(map)) => map.iter().map(|(name, value)| (PathElement::field(name), value)).collect(),
        (name, Value::Array(items)) => {
            let keys: &[&str] = match name {
                Some("items") => &["name"],
                Some("ports") => &["port", "proto"],
                _ => &[],
            };
            let element = |item: &Value| match keys {
                [] => PathElement::Value(ItemValue::new(item)),
                keys => PathElement::key(keys.iter().map(|key| (*key, ItemValue::new(&item[*key])))),
            };
            items.iter().map(|item| (element(item), item)).collect()
        }
        _ => Vec::new(),
    };
    if !path.is_empty() {
        let leaf = children.is_empty().then(|| value.clone());
        nodes.insert(Path::from(path.clone()), leaf);
    }
    for (element, child) in children {
        path.push(element);
        collect(child, path, nodes);
        path.pop();
    }
}

proptest! {
    #[test]
    fn a_comparison_matches_the_paths(old in valid(), new in valid()) {
        let fixture = Fixture::new();
        let (before, after) = (nodes(&old), nodes(&new));
        let only = |left: &BTreeMap<Path, _>, right: &BTreeMap<Path, _>| -> Set {
            left.keys().filter(|path| !right.contains_key(*path)).cloned().collect()
        };
        let expected = Comparison {
            removed: only(&before, &after),
            modified: before.iter().filter(|(path, leaf)| after.get(*path).is_some_and(|other| other != *leaf)).map(|(path, _)| path.clone()).collect(),
            added: only(&after, &before),
        };
        prop_assert_eq!(compare(&old, &new, fixture.ty()), Ok(expected));
    }

    #[test]
    fn merging_unites_the_paths_and_prefers_new_values(old in valid(), new in valid()) {
        let fixture = Fixture::new();
        let merged = merge(&old, &new, fixture.ty()).expect("the values are valid");
        let mut expected = nodes(&old);
        expected.extend(nodes(&new));
        prop_assert_eq!(nodes(&merged), expected);
        prop_assert_eq!(merge(&merged, &new, fixture.ty()), Ok(merged));
    }

    #[test]
    fn a_value_merged_with_itself_is_unchanged(value in valid()) {
        let fixture = Fixture::new();
        prop_assert_eq!(merge(&value, &value, fixture.ty()), Ok(value.clone()));
        prop_assert!(compare(&value, &value, fixture.ty()).is_ok_and(|comparison| comparison.is_same()));
        prop_assert_eq!(validate(&value, fixture.ty(), ValidateOptions::default()), Ok(()));
    }

    #[test]
    fn extracting_all_leaves_of_a_value_and_merging_them_back_changes_nothing(value in valid()) {
        let fixture = Fixture::new();
        let leaves = to_field_set(&value, fixture.ty()).expect("the value is valid").leaves();
        let extracted = extract_items(&value, fixture.ty(), &leaves, ExtractOptions::default());
        prop_assert_eq!(merge(&value, &extracted, fixture.ty()), Ok(value.clone()));
    }

    #[test]
    fn removing_nothing_changes_nothing_and_removing_all_leaves_nothing(value in valid()) {
        fn is_blank(value: &Value) -> bool {
            match value {
                Value::Null => true,
                Value::Object(map) => map.values().all(is_blank),
                _ => false,
            }
        }
        let fixture = Fixture::new();
        prop_assert_eq!(remove_items(&value, fixture.ty(), &Set::new()), value.clone());
        let owned = to_field_set(&value, fixture.ty()).expect("the value is valid");
        let rest = remove_items(&value, fixture.ty(), &owned);
        prop_assert!(is_blank(&rest), "{}", rest);
    }

    #[test]
    fn nothing_panics_on_any_value(old in any_object(), new in any_object()) {
        let fixture = Fixture::new();
        for ty in [fixture.ty(), TypeRef::DEDUCED, TypeRef::UNTYPED, TypeRef::NOTHING] {
            for allow_duplicates in [false, true] {
                let _ = validate(&old, ty, ValidateOptions { allow_duplicates });
            }
            let _ = compare(&old, &new, ty);
            let _ = merge(&old, &new, ty);
            if let Ok(owned) = to_field_set(&new, ty) {
                let _ = remove_items(&old, ty, &owned);
                let _ = extract_items(&old, ty, &owned, ExtractOptions { key_fields: true });
                let _ = reconcile_field_set(&owned, ty);
                let _ = owned.ensure_named_fields_are_members(ty);
            }
        }
    }

    #[test]
    fn deduced_values_compare_the_same_from_both_sides(old in any_object(), new in any_object()) {
        let there = compare(&old, &new, TypeRef::DEDUCED).expect("a deduced type must accept any value");
        let back = compare(&new, &old, TypeRef::DEDUCED).expect("a deduced type must accept any value");
        prop_assert_eq!(there, Comparison { removed: back.added, modified: back.modified, added: back.removed });
    }
}
