//! Errors in the rules of CustomResourceDefinitions.

use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, FieldError, Path};

use super::super::{CrdRulesOptions, validate_crd_rules};
use super::{schema, spec};

fn check(definition: &Value) -> Vec<String> {
    let errors = check_with(definition, CrdRulesOptions::default());
    errors.iter().map(ToString::to_string).collect()
}

fn check_with(definition: &Value, options: CrdRulesOptions<'_>) -> ErrorList {
    validate_crd_rules(&schema(definition), &Path::new("schema"), options)
}

const ADVICE: &str = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";

#[test]
fn expressions_must_compile_to_a_boolean() {
    let found = check(&spec(&json!({"type": "object", "properties": {"n": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.n + 1"}, {"rule": "self.m <= 1"}, {"rule": "self.n > 0"}]})));
    let shown = |rule: &str| {
        format!(
            r#"{{"Rule":"{rule}","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}}"#
        )
    };
    assert_eq!(
        found,
        [
            format!(
                "schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {}: cel expression must evaluate to a bool",
                shown("self.n + 1")
            ),
            format!(
                "schema.properties[spec].x-kubernetes-validations[1].rule: Invalid value: {}: compilation failed: ERROR: <input>:1:5: undefined field 'm'\n | self.m <= 1\n | ....^",
                shown("self.m \\u003c= 1")
            ),
        ]
    );
}

#[test]
fn message_expressions_must_compile_to_a_string() {
    let found = check(&spec(&json!({"type": "integer", "x-kubernetes-validations": [
        {"rule": "self > 0", "messageExpression": "self"},
        {"rule": "self > 1", "messageExpression": "'n is ' + slef"},
        {"rule": "self > 2", "messageExpression": "string(self)"}]})));
    assert_eq!(found.len(), 2);
    assert!(
        found[0].starts_with("schema.properties[spec].x-kubernetes-validations[0].messageExpression: Invalid value:")
    );
    assert!(found[0].ends_with("messageExpression must evaluate to a string"), "{}", found[0]);
    assert!(
        found[1].contains("messageExpression compilation failed: ERROR: <input>:1:11: undeclared reference to 'slef'")
    );
}

#[test]
fn rules_that_cost_too_much_are_rejected_alone_and_in_total() {
    let list = json!({"type": "array", "items": {"type": "string"},
        "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x == y))"}]});
    let at = "schema.properties[spec].x-kubernetes-validations[0].rule";
    assert_eq!(
        check(&spec(&list)),
        [
            format!("{at}: Forbidden: estimated rule cost exceeds budget by factor of more than 100x {ADVICE}"),
            format!(
                "{at}: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            ),
            format!(
                "schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x {ADVICE}"
            ),
        ]
    );
    let lenient = CrdRulesOptions { allow_expensive_rules: true, ..CrdRulesOptions::default() };
    assert_eq!(check_with(&spec(&list), lenient).len(), 2, "the total counts whatever changed");
}

#[test]
fn bounds_above_a_rule_multiply_its_cost() {
    let of = |bounds: Value| {
        let mut list = json!({"type": "array", "items": {"type": "string", "x-kubernetes-validations": [
            {"rule": "self.matches('^[a-z]+$')"}]}});
        list.as_object_mut()
            .expect("the value must be an object")
            .extend(bounds.as_object().expect("an object").clone());
        check(&spec(&list))
    };
    assert_eq!(of(json!({"maxItems": 10})), Vec::<String>::new());
    let found = of(json!({"maxItems": 20}));
    assert_eq!(
        found,
        [format!(
            "schema.properties[spec].items.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of 1.258294x {ADVICE}"
        )]
    );
}

#[test]
fn old_values_must_be_correlatable() {
    let list = |kind: Value| {
        let mut list = json!({"type": "array", "maxItems": 5, "items": {"type": "object", "required": ["k"],
            "properties": {"k": {"type": "string", "maxLength": 5}},
            "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}});
        list.as_object_mut().expect("the value must be an object").extend(kind.as_object().expect("an object").clone());
        check(&spec(&list))
    };
    assert_eq!(
        list(json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]})),
        Vec::<String>::new()
    );
    assert_eq!(
        list(json!({})),
        [
            "schema.properties[spec].items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within schema.properties[spec]"
        ]
    );
}

#[test]
fn an_optional_old_value_must_be_used() {
    let found = check(&spec(&json!({"type": "integer", "x-kubernetes-validations": [
        {"rule": "self > 0", "optionalOldSelf": true}, {"rule": "oldSelf.hasValue()", "optionalOldSelf": true}]})));
    assert_eq!(
        found,
        [
            "schema.properties[spec].x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"
        ]
    );
}

#[test]
fn rules_on_untyped_data_are_an_internal_error() {
    let found = check(&spec(&json!({"x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-validations": [{"rule": "true"}]})));
    assert_eq!(
        found,
        [
            "schema.properties[spec].x-kubernetes-validations: Internal error: internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations"
        ]
    );
}

#[test]
fn rules_above_a_schema_error_are_skipped() {
    let definition = json!({"type": "object", "x-kubernetes-validations": [{"rule": "1"}], "properties": {
        "a": {"type": "string", "x-kubernetes-validations": [{"rule": "2"}]},
        "ab": {"type": "string", "x-kubernetes-validations": [{"rule": "3"}]}}});
    let error = FieldError::forbidden(&Path::new("schema").child("properties").key("a").child("x"), "no");
    let options = CrdRulesOptions { schema_errors: &[error], ..CrdRulesOptions::default() };
    let fields: Vec<_> = check_with(&definition, options).into_iter().map(|error| error.field).collect();
    assert_eq!(fields, ["schema.properties[ab].x-kubernetes-validations[0].rule"]);
}
