//! Errors of objects.

use serde_json::{Value, json};
use windlass_schema::field::{ErrorKind, FieldError, Path};

use super::super::{blocked_by, compile};
use super::{errors, rules, schema, spec};

#[test]
fn a_failed_rule_is_reported_with_its_message_or_text() {
    let of = |rule: Value| {
        errors(&spec(&json!({"type": "integer", "x-kubernetes-validations": [rule]})), &json!({"spec": 7}))
    };
    assert_eq!(of(json!({"rule": "self > 0"})), Vec::<String>::new());
    assert_eq!(of(json!({"rule": " self > 8 "})), ["spec: Invalid value: 7: failed rule: self > 8"]);
    assert_eq!(of(json!({"rule": "self > 8", "message": " larger "})), ["spec: Invalid value: 7: larger"]);
    assert_eq!(
        of(json!({"rule": "self % 2 == 0", "messageExpression": "'%d is odd'.format([self])"})),
        ["spec: Invalid value: 7: 7 is odd"]
    );
}

#[test]
fn a_failed_message_expression_falls_back_to_the_message() {
    for expression in ["string(1 / (self - 7))", "''", "' '", "'a\\nb'"] {
        let found = errors(
            &spec(&json!({"type": "integer", "x-kubernetes-validations": [
                {"rule": "false", "message": "fallback", "messageExpression": expression}]})),
            &json!({"spec": 7}),
        );
        assert_eq!(found, ["spec: Invalid value: 7: fallback"], "{expression}");
    }
}

#[test]
fn the_reason_determines_the_type_of_error() {
    let of = |kind: &str, reason: &str, value: Value| {
        let rule = json!([{"rule": "false", "message": "no", "reason": reason}]);
        errors(&spec(&json!({"type": kind, "x-kubernetes-validations": rule})), &json!({"spec": value}))
    };
    assert_eq!(of("string", "FieldValueForbidden", json!("x")), ["spec: Forbidden: no"]);
    assert_eq!(of("string", "FieldValueRequired", json!("x")), ["spec: Required value: no"]);
    assert_eq!(of("string", "FieldValueDuplicate", json!("x")), ["spec: Duplicate value: \"x\""]);
    assert_eq!(of("string", "FieldValueInvalid", json!("x")), ["spec: Invalid value: \"x\": no"]);
    assert_eq!(of("object", "FieldValueInvalid", json!({})), ["spec: Invalid value: no"]);
    assert_eq!(of("object", "FieldValueDuplicate", json!({})), ["spec: Duplicate value"]);
}

#[test]
fn the_reported_field_is_relative_to_the_rule() {
    let found = errors(
        &spec(&json!({"type": "object",
            "properties": {"a": {"type": "object", "additionalProperties": {"type": "string"}}},
            "x-kubernetes-validations": [{"rule": "false", "message": "no", "fieldPath": ".a['b.c']"}]})),
        &json!({"spec": {"a": {}}}),
    );
    assert_eq!(found, ["spec.a[b.c]: Invalid value: no"]);
}

#[test]
fn lists_and_maps_are_validated_and_nulls_skipped() {
    let text = json!({"type": "string", "nullable": true, "x-kubernetes-validations": [
        {"rule": "self.startsWith('v')", "message": "must start with v"}]});
    let of = |container: Value, value: Value| errors(&spec(&container), &json!({"spec": value}));
    assert_eq!(
        of(json!({"type": "array", "items": text.clone()}), json!(["v1", null, "w"])),
        ["spec[2]: Invalid value: \"w\": must start with v"]
    );
    assert_eq!(
        of(json!({"type": "object", "additionalProperties": text}), json!({"a": "v", "b.c": "w", "d": null})),
        ["spec[b.c]: Invalid value: \"w\": must start with v"]
    );
}

#[test]
fn a_rule_that_cannot_be_evaluated_is_reported_with_the_type() {
    let found = errors(
        &spec(
            &json!({"type": "object", "properties": {"m": {"type": "object", "additionalProperties": {"type": "integer"}}},
            "x-kubernetes-validations": [{"rule": "self.m['k'] > 1"}, {"rule": "self.m['k'] > 2", "message": "two"}]}),
        ),
        &json!({"spec": {"m": {}}}),
    );
    assert_eq!(
        found,
        [
            "spec: Invalid value: \"object\": no such key: k evaluating rule: self.m['k'] > 1",
            "spec: Invalid value: \"object\": no such key: k evaluating rule: two",
        ]
    );
}

#[test]
fn the_root_always_has_its_name() {
    let found = errors(
        &json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.metadata.name == 'a'"}]}),
        &json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "b", "labels": {}}}),
    );
    assert_eq!(found, ["<nil>: Invalid value: failed rule: self.metadata.name == 'a'"]);
}

#[test]
fn rules_in_all_of_apply_to_the_same_value() {
    let found = errors(
        &spec(&json!({"type": "object", "properties": {"a": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "true"}],
            "allOf": [{"x-kubernetes-validations": [{"rule": "self.a > 1"}]},
                      {"properties": {"a": {"x-kubernetes-validations": [{"rule": "self > 2"}]}}}]})),
        &json!({"spec": {"a": 1}}),
    );
    assert_eq!(
        found,
        ["spec: Invalid value: failed rule: self.a > 1", "spec.a: Invalid value: 1: failed rule: self > 2"]
    );
}

#[test]
fn a_schema_without_rules_costs_nothing() {
    assert!(compile(&schema(&spec(&json!({"type": "string"}))), true).is_none());
}

#[test]
fn the_budget_of_an_object_is_limited() {
    let rules = rules(&spec(&json!({"type": "array", "items": {"type": "integer",
        "x-kubernetes-validations": [{"rule": "self > 0"}]}})));
    let mut budget = 5;
    let outcome = rules.validate(&Path::root(), &json!({"spec": [0, 0, 0, 0, 0]}), None, &mut budget);
    let found: Vec<_> = outcome.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "spec[0]: Invalid value: 0: failed rule: self > 0",
            "spec[1]: Invalid value: 0: failed rule: self > 0",
            "spec[2]: Invalid value: \"integer\": validation failed due to running out of cost budget, no further validation rules will be run",
        ]
    );
    assert_eq!(budget, -1);
}

#[test]
fn the_cost_of_one_evaluation_is_limited() {
    let numbers: Vec<u32> = (0..2000).collect();
    let found = errors(
        &spec(&json!({"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [
            {"rule": "self.all(x, self.all(y, x + y >= 0))"}, {"rule": "false"}]})),
        &json!({"spec": numbers}),
    );
    assert_eq!(
        found,
        [
            "spec: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.all(x, self.all(y, x + y >= 0))"
        ]
    );
}

#[test]
fn rules_do_not_run_on_an_object_with_type_errors() {
    let path = Path::new("spec");
    assert!(blocked_by(&[FieldError::invalid(&path, &json!(1), "")]).is_none());
    let error = blocked_by(&[FieldError::required(&path, "")]).expect("a missing field blocks");
    assert_eq!((error.kind, error.field.as_str()), (ErrorKind::Invalid, "<nil>"));
    assert!(error.body().starts_with("Invalid value: null: some validation rules were not checked"));
}
