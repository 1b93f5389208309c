use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;
use windlass_merge::json_patch::{self, Checks};

use super::*;

fn apply(document: &Value, patch: &Patch) -> Value {
    let body = serde_json::to_vec(patch).unwrap();
    json_patch::Patch::decode(&body, Checks::Strict).unwrap().apply(document.clone()).unwrap()
}

#[track_caller]
fn check(received: Value, before: Value, after: Value, expected: Expect) {
    let target = transfer(&received, &before, &after);
    let patch = diff(&received, &target);
    assert_eq!(apply(&received, &patch), target);
    let lines: Vec<String> = patch.0.iter().map(|change| serde_json::to_string(change).unwrap()).collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn only_fields_that_the_handler_changed_are_patched() {
    check(
        json!({"spec": {"image": "a", "unknown": {"x": 1}}, "status": {"y": 2}}),
        json!({"spec": {"image": "a"}}),
        json!({"spec": {"image": "b", "replicas": 1}}),
        expect![[r#"
            {"op":"replace","path":"/spec/image","value":"b"}
            {"op":"add","path":"/spec/replicas","value":1}"#]],
    );
}

#[test]
fn zero_values_that_the_type_leaves_out_stay() {
    check(
        json!({"spec": {"replicas": 0, "paused": null, "image": "a"}}),
        json!({"spec": {"image": "a"}}),
        json!({"spec": {"image": "b"}}),
        expect![[r#"{"op":"replace","path":"/spec/image","value":"b"}"#]],
    );
}

#[test]
fn values_that_the_type_makes_up_are_not_added() {
    check(
        json!({"spec": {"image": "a"}}),
        json!({"spec": {"image": "a", "replicas": 1, "note": null}}),
        json!({"spec": {"image": "b", "replicas": 1, "note": null}}),
        expect![[r#"{"op":"replace","path":"/spec/image","value":"b"}"#]],
    );
}

#[test]
fn a_made_up_value_that_the_handler_changed_is_added() {
    check(
        json!({"spec": {}}),
        json!({"spec": {"replicas": 0, "template": {"image": "", "port": 80}}}),
        json!({"spec": {"replicas": 3, "template": {"image": "x", "port": 80}}}),
        expect![[r#"
            {"op":"add","path":"/spec/replicas","value":3}
            {"op":"add","path":"/spec/template","value":{"image":"x","port":80}}"#]],
    );
}

#[test]
fn a_cleared_field_is_removed_and_a_left_out_one_set_to_zero_value_is_not() {
    check(
        json!({"spec": {"image": "a", "extra": 1, "zero": 0}}),
        json!({"spec": {"image": "a"}}),
        json!({"spec": {}}),
        expect![[r#"{"op":"remove","path":"/spec/image"}"#]],
    );
}

#[test]
fn equivalent_values_in_another_notation_are_not_patched() {
    check(
        json!({"spec": {"cpu": "1000m", "time": "2026-01-01T00:00:00.000Z"}}),
        json!({"spec": {"cpu": "1", "time": "2026-01-01T00:00:00Z"}}),
        json!({"spec": {"cpu": "1", "time": "2026-01-01T00:00:00Z", "n": 1}}),
        expect![[r#"{"op":"add","path":"/spec/n","value":1}"#]],
    );
}

#[test]
fn unknown_fields_of_list_elements_stay_with_their_element() {
    check(
        json!({"c": [{"name": "a", "u": 1}, {"name": "b", "u": 2}, {"name": "c", "u": 3}]}),
        json!({"c": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}),
        json!({"c": [{"name": "new"}, {"name": "b", "image": "x"}, {"name": "c"}]}),
        expect![[r#"
            {"op":"add","path":"/c/0","value":{"name":"new"}}
            {"op":"remove","path":"/c/1"}
            {"op":"add","path":"/c/1/image","value":"x"}"#]],
    );
}

#[test]
fn keys_are_escaped() {
    check(
        json!({"metadata": {"annotations": {"a/b~c": "1"}}}),
        json!({"metadata": {"annotations": {"a/b~c": "1"}}}),
        json!({"metadata": {"annotations": {"a/b~c": "2"}}}),
        expect![[r#"{"op":"replace","path":"/metadata/annotations/a~1b~0c","value":"2"}"#]],
    );
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..3).prop_map(Value::from),
        "[ab/~]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[ab/~]{0,2}|name", inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Objects only: the root of an API object is never replaced.
fn object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-c]", value(), 0..5).prop_map(|map| Value::Object(map.into_iter().collect()))
}

/// Returns a value as a type with fewer fields serializes it.
fn without_unknown(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let known = map.iter().filter(|(key, _)| !key.starts_with('b'));
            Value::Object(known.map(|(key, value)| (key.clone(), without_unknown(value))).collect())
        }
        Value::Array(list) => list.iter().map(without_unknown).collect(),
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn a_patch_makes_one_document_of_another(from in object(), to in object()) {
        let patch = diff(&from, &to);
        prop_assert_eq!(patch.is_empty(), from == to);
        prop_assert_eq!(apply(&from, &patch), to);
    }

    #[test]
    fn a_handler_that_changes_nothing_patches_nothing(received in object(), seen in object()) {
        prop_assert_eq!(transfer(&received, &seen, &seen), received);
    }

    #[test]
    fn a_type_that_knows_all_fields_gets_its_changes(before in object(), after in object()) {
        prop_assert_eq!(transfer(&before, &before, &after), after);
    }

    #[test]
    fn the_patched_object_is_what_the_handler_returned(received in object(), after in object()) {
        let after = without_unknown(&after);
        let result = transfer(&received, &without_unknown(&received), &after);
        prop_assert_eq!(without_unknown(&result), after);
    }
}
