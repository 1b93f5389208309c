//! Naive models to compare the implementation with, and generators.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Generates small JSON documents over few names, so that patches hit existing fields.
pub(crate) fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-2i64..3).prop_map(Value::from),
        name().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(name(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Generates names that occur in documents, paths and directives.
pub(crate) fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "a",
        "b",
        "name",
        "spec",
        "metadata",
        "containers",
        "secrets",
        "finalizers",
        "env",
        "~x/y",
        "0",
        "-1",
        "-",
        "",
        "$patch",
        "$retainKeys",
        "$setElementOrder/secrets",
        "$deleteFromPrimitiveList/finalizers",
        "delete",
        "replace",
    ])
    .prop_map(str::to_owned)
}

/// RFC 7386 to the letter, by copying, with kube-apiserver's only deviation.
pub(crate) fn merge(doc: &Value, patch: &Value) -> Value {
    let (Some(doc_map), Some(patch_map)) = (doc.as_object(), patch.as_object()) else {
        return if doc.is_object() { patch.clone() } else { without_nulls(patch) };
    };
    let mut out = Map::new();
    for (key, value) in doc_map {
        match patch_map.get(key) {
            None => drop(out.insert(key.clone(), value.clone())),
            Some(Value::Null) => {}
            Some(change) => drop(out.insert(key.clone(), merge(value, change))),
        }
    }
    for (key, change) in patch_map.iter().filter(|(key, change)| !doc_map.contains_key(*key) && !change.is_null()) {
        out.insert(key.clone(), without_nulls(change));
    }
    Value::Object(out)
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, item)| !item.is_null())
                .map(|(key, item)| (key.clone(), without_nulls(item)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}

/// Returns a JSON patch that turns one document into another.
pub(crate) fn diff(from: &Value, to: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    if from.is_object() != to.is_object() || from.is_array() != to.is_array() {
        return vec![json!({"op": "replace", "path": "", "value": to})];
    }
    walk(String::new(), from, to, &mut operations);
    operations
}

fn walk(path: String, from: &Value, to: &Value, out: &mut Vec<Value>) {
    let child = |key: &str| format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            for key in from.keys().filter(|key| !to.contains_key(*key)) {
                out.push(json!({"op": "remove", "path": child(key)}));
            }
            for (key, value) in to {
                match from.get(key) {
                    Some(old) => walk(child(key), old, value, out),
                    None => out.push(json!({"op": "add", "path": child(key), "value": value})),
                }
            }
        }
        (Value::Array(from), Value::Array(to)) => {
            let common = from.len().min(to.len());
            for _ in common..from.len() {
                out.push(json!({"op": "remove", "path": child("-1")}));
            }
            for (index, (old, new)) in from.iter().zip(to).enumerate() {
                walk(child(&index.to_string()), old, new, out);
            }
            for value in &to[common..] {
                out.push(json!({"op": "add", "path": child("-"), "value": value}));
            }
        }
        (from, to) if from == to => {}
        (_, to) => out.push(json!({"op": "replace", "path": path, "value": to})),
    }
}
