//! Errors of updates.

use serde_json::{Value, json};
use windlass_schema::field::Path;

use super::super::compile;
use super::{rules, run, spec};

/// Returns the errors and warnings of an update from one `spec` to another.
fn change(of: &Value, old: Value, new: Value) -> (Vec<String>, Vec<String>) {
    let outcome = run(&rules(&spec(of)), &json!({"spec": new}), Some(&json!({"spec": old})));
    (outcome.errors.iter().map(ToString::to_string).collect(), outcome.warnings)
}

fn fine() -> (Vec<String>, Vec<String>) {
    (Vec::new(), Vec::new())
}

#[test]
fn rules_compare_with_the_old_value_if_there_is_one() {
    let immutable = json!({"type": "object", "properties": {"a": {"type": "string", "x-kubernetes-validations": [
        {"rule": "self == oldSelf", "message": "immutable"}]}}});
    assert_eq!(change(&immutable, json!({"a": "x"}), json!({"a": "x"})), fine());
    assert_eq!(change(&immutable, json!({}), json!({"a": "x"})), fine());
    assert_eq!(
        change(&immutable, json!({"a": "x"}), json!({"a": "y"})),
        (vec!["spec.a: Invalid value: \"y\": immutable".to_owned()], vec![])
    );
}

#[test]
fn an_optional_old_value_may_be_absent() {
    let schema = spec(&json!({"type": "string", "x-kubernetes-validations": [
        {"rule": "oldSelf.hasValue() || self == 'start'", "optionalOldSelf": true, "message": "start first"}]}));
    let rules = rules(&schema);
    assert_eq!(run(&rules, &json!({"spec": "other"}), None).errors.len(), 1);
    assert_eq!(run(&rules, &json!({"spec": "start"}), None).errors.len(), 0);
    assert_eq!(run(&rules, &json!({"spec": "other"}), Some(&json!({"spec": "start"}))).errors.len(), 0);
    assert_eq!(run(&rules, &json!({"spec": "other"}), Some(&json!({}))).errors.len(), 1);
}

#[test]
fn an_optional_old_value_is_not_optional_in_messages() {
    let message = |expression: &str| {
        let schema = spec(&json!({"type": "string", "x-kubernetes-validations": [
            {"rule": "oldSelf.orValue('') == self", "optionalOldSelf": true, "messageExpression": expression}]}));
        run(&rules(&schema), &json!({"spec": "b"}), Some(&json!({"spec": "a"}))).errors[0].to_string()
    };
    assert_eq!(message("self + ' is new'"), "spec: Invalid value: \"b\": b is new");
    assert_eq!(
        message("oldSelf.hasValue() ? 'changed' : 'new'"),
        "spec: Invalid value: \"b\": failed rule: oldSelf.orValue('') == self"
    );
}

#[test]
fn elements_with_keys_are_correlated_after_moving() {
    let list = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "n"],
        "items": {"type": "object", "required": ["k", "n"], "properties": {"k": {"type": "string"}, "n": {"type": "integer"},
            "v": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "up"}]}}}});
    let old = json!([{"k": "a", "n": 1, "v": 1}, {"k": "b", "n": 1, "v": 5}]);
    assert_eq!(
        change(&list, old.clone(), json!([{"k": "b", "n": 1, "v": 4}, {"k": "a", "n": 1, "v": 2}])).0,
        ["spec[0].v: Invalid value: 4: up"]
    );
    assert_eq!(change(&list, old, json!([{"k": "b", "n": 2, "v": 4}, {"k": "a", "n": 1, "v": 1}])), fine());
}

#[test]
fn an_error_in_an_unchanged_value_is_a_warning() {
    let object = json!({"type": "object", "properties": {
        "obj": {"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-validations": [
            {"rule": "self.a == 'y'", "message": "a must be y"}]},
        "other": {"type": "string"}}});
    let warning = "spec.obj: Invalid value: a must be y".to_owned();
    assert_eq!(
        change(&object, json!({"obj": {"a": "x"}}), json!({"obj": {"a": "x"}, "other": "z"})),
        (vec![], vec![warning.clone()])
    );
    assert_eq!(change(&object, json!({"obj": {"a": "x"}}), json!({"obj": {"a": "z"}})), (vec![warning], vec![]));
}

#[test]
fn elements_without_keys_change_with_their_list() {
    let list = json!({"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]}},
        "other": {"type": "string"}}});
    let text = "spec.list[0]: Invalid value: 0: failed rule: self > 0".to_owned();
    assert_eq!(change(&list, json!({"list": [0]}), json!({"list": [0], "other": "x"})), (vec![], vec![text.clone()]));
    assert_eq!(change(&list, json!({"list": [0]}), json!({"list": [0, 1]})), (vec![text], vec![]));
}

#[test]
fn errors_of_transition_rules_are_never_warnings() {
    let schema = json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self > oldSelf"}]});
    assert_eq!(change(&schema, json!(1), json!(1)).0, ["spec: Invalid value: 1: failed rule: self > oldSelf"]);
}

#[test]
fn data_that_is_not_in_the_schema_counts_as_changed() {
    let object = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-validations": [{"rule": "false", "message": "no"}]});
    assert_eq!(change(&object, json!({"x": 1}), json!({"x": 1})).0, ["spec: Invalid value: no"]);
    assert_eq!(change(&object, json!({}), json!({})).1, ["spec: Invalid value: no"]);
}

#[test]
fn a_default_must_satisfy_the_rules_on_create_and_update() {
    let of = |rule: Value| {
        let schema = super::schema(&json!({"type": "integer", "x-kubernetes-validations": [rule]}));
        let rules = compile(&schema, false).expect("the schema must have rules");
        let mut budget = 100;
        let errors = rules.validate_default(&Path::new("d"), &json!(1), &mut budget);
        (errors.len(), 100 - budget)
    };
    assert_eq!(of(json!({"rule": "self == 1"})), (0, 2));
    assert_eq!(of(json!({"rule": "self == 2"})), (1, 2));
    assert_eq!(of(json!({"rule": "self > oldSelf"})), (1, 3));
    assert_eq!(of(json!({"rule": "oldSelf.hasValue()", "optionalOldSelf": true})), (1, 2));
}
