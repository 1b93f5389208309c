use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{MutatingAdmissionPolicy, PolicyBinding, ValidatingAdmissionPolicy};
use crate::kinds::tests::expectations::{check_create, check_status, check_update};
use crate::strategy::Strategy;

fn object(spec: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": spec})
}

/// A policy for Deployments.
fn policy(more: &Value) -> Value {
    let mut spec = json!({
        "matchConstraints": {"resourceRules": [
            {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]},
        ]},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    object(spec)
}

fn check_validating(more: &Value, expected: Expect) {
    check_create(&ValidatingAdmissionPolicy, policy(more), expected);
}

fn check_mutating(more: &Value, expected: Expect) {
    check_create(&MutatingAdmissionPolicy, policy(more), expected);
}

#[test]
fn match_resources_get_their_defaults() {
    let mut policy = policy(&json!({"validations": [{"expression": "true"}]}));
    ValidatingAdmissionPolicy.default(&mut policy);
    assert_eq!(policy["spec"]["failurePolicy"], "Fail");
    let constraints = &policy["spec"]["matchConstraints"];
    assert_eq!(constraints["matchPolicy"], "Equivalent");
    assert_eq!((&constraints["namespaceSelector"], &constraints["objectSelector"]), (&json!({}), &json!({})));
    assert_eq!(constraints["resourceRules"][0]["scope"], "*");
    assert_eq!(ValidatingAdmissionPolicy.validate(&policy), []);

    let mut binding = object(json!({"policyName": "p"}));
    PolicyBinding::VALIDATING.default(&mut binding);
    assert_eq!(binding, object(json!({"policyName": "p"})));
}

#[test]
fn a_policy_needs_rules_and_something_to_do() {
    check_create(
        &ValidatingAdmissionPolicy,
        object(json!({"matchConstraints": {}})),
        expect![[r#"
            spec.matchConstraints.resourceRules: Required value
            spec.validations: Required value: validations or auditAnnotations must contain at least one item
            spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item
        "#]],
    );
}

#[test]
fn rules_of_policies_can_name_objects() {
    let mut policy = policy(&json!({"validations": [{"expression": "true"}]}));
    let rules = &mut policy["spec"]["matchConstraints"];
    rules["excludeResourceRules"] = rules["resourceRules"].clone();
    rules["resourceRules"][0]["resourceNames"] = json!(["a", "b/c", "a"]);
    rules["excludeResourceRules"][0]["operations"] = json!(["EXPLODE"]);
    check_create(
        &ValidatingAdmissionPolicy,
        policy,
        expect![[r#"
            spec.matchConstraints.resourceRules[0].resourceNames[1]: Invalid value: "b/c": may not contain '/'
            spec.matchConstraints.resourceRules[0].resourceNames[2]: Duplicate value: "a"
            spec.matchConstraints.excludeResourceRules[0].operations[0]: Unsupported value: "EXPLODE": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"
        "#]],
    );
}

#[test]
fn expressions_can_use_only_what_they_have() {
    check_validating(
        &json!({
            "matchConditions": [{"name": "c", "expression": "variables.a == 1"}, {"name": "c", "expression": "params.x == 1"}],
            "variables": [{"name": "a", "expression": "1"}],
            "validations": [
                {"expression": "variables.a == 1", "messageExpression": "authorizer.path('/').check('get').reason()"},
            ],
        }),
        expect![[r#"
            spec.matchConditions[0].expression: Invalid value: "variables.a == 1": compilation failed: ERROR: <input>:1:1: undeclared reference to 'variables' (in container '')
             | variables.a == 1
             | ^
            spec.matchConditions[1].expression: Invalid value: "params.x == 1": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')
             | params.x == 1
             | ^
            spec.matchConditions[1].name: Duplicate value: "c"
            spec.validations[0].messageExpression: Invalid value: "authorizer.path('/').check('get').reason()": compilation failed: ERROR: <input>:1:1: undeclared reference to 'authorizer' (in container '')
             | authorizer.path('/').check('get').reason()
             | ^
        "#]],
    );
}

#[test]
fn an_invalid_regular_expression_is_rejected() {
    check_validating(
        &json!({"validations": [{"expression": "'a'.matches('(')"}]}),
        expect![[r#"
            spec.validations[0].expression: Invalid value: "'a'.matches('(')": compilation failed: ERROR: <input>:1:13: invalid matches argument
             | 'a'.matches('(')
             | ............^
        "#]],
    );
}

#[test]
fn kinds_of_params_are_group_versions_and_kinds() {
    for (kind, expected) in [
        (
            json!({"apiVersion": "Bad/v1", "kind": "a b"}),
            expect![[r#"
                spec.paramKind.apiVersion: Invalid value: "Bad": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                spec.paramKind.kind: Invalid value: "a b": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            "#]],
        ),
        (
            json!({"apiVersion": "example.com/", "kind": "A"}),
            expect![[r#"
                spec.paramKind.apiVersion: Invalid value: "example.com/": version must be specified
            "#]],
        ),
        (
            json!({}),
            expect![[r#"
                spec.paramKind.apiVersion: Required value
                spec.paramKind.kind: Required value
            "#]],
        ),
    ] {
        check_validating(&json!({"paramKind": kind, "validations": [{"expression": "params != null"}]}), expected);
    }
}

#[test]
fn there_are_at_most_20_audit_annotations() {
    let annotations = |count: usize| {
        let one = |index: usize| json!({"key": format!("k{index}"), "valueExpression": "'v'"});
        json!({"auditAnnotations": (0..count).map(one).collect::<Vec<_>>()})
    };
    check_validating(&annotations(20), expect![""]);
    let mut object = policy(&annotations(21));
    ValidatingAdmissionPolicy.default(&mut object);
    let errors = ValidatingAdmissionPolicy.validate(&object);
    let text = errors[0].to_string();
    assert!(
        text.starts_with(r#"spec.auditAnnotations: Invalid value: [{"Key":"k0","ValueExpression":"'v'"},"#),
        "{text}"
    );
    assert!(text.ends_with("must not have more than 20 auditAnnotations"), "{text}");
}

#[test]
fn an_update_that_keeps_the_conditions_does_not_check_them() {
    let old = policy(&json!({
        "matchConditions": [{"name": "c", "expression": "nothing"}], "validations": [{"expression": "true"}],
    }));
    let mut new = old.clone();
    new["spec"]["validations"][0]["message"] = "m".into();
    check_update(&ValidatingAdmissionPolicy, new.clone(), old.clone(), expect![""]);
    new["spec"]["matchConditions"][0]["name"] = "d".into();
    check_update(
        &ValidatingAdmissionPolicy,
        new,
        old,
        expect![[r#"
            spec.matchConditions[0].expression: Invalid value: "nothing": compilation failed: ERROR: <input>:1:1: undeclared reference to 'nothing' (in container '')
             | nothing
             | ^
        "#]],
    );
}

#[test]
fn warnings_of_type_checking_name_a_field() {
    let old = policy(&json!({"validations": [{"expression": "true"}]}));
    let mut new = old.clone();
    new["status"] = json!({"typeChecking": {"expressionWarnings": [
        {"fieldRef": "spec.validations[0].expression", "warning": "w"}, {"fieldRef": " "},
    ]}});
    check_status(
        &ValidatingAdmissionPolicy,
        new,
        old,
        expect![[r#"
            status.typeChecking.expressionWarnings[1].warning: Required value
            status.typeChecking.expressionWarnings[1].fieldRef: Required value
        "#]],
    );
}

#[test]
fn mutating_policies_do_not_match_deletions() {
    let mut object = policy(&json!({
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}],
    }));
    object["spec"]["matchConstraints"]["resourceRules"][0]["operations"] = json!(["CREATE", "DELETE"]);
    check_create(
        &MutatingAdmissionPolicy,
        object,
        expect![[r#"
            spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"
        "#]],
    );
}

#[test]
fn a_mutation_has_the_patch_of_its_type() {
    check_mutating(
        &json!({"mutations": [
            {"patchType": ""},
            {"patchType": "Smart"},
            {"patchType": "JSONPatch", "applyConfiguration": {"expression": "Object{}"}},
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": " "}},
            {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/a', value: variables.x}]"}},
        ]}),
        expect![[r#"
            spec.mutations[0].patchType: Required value
            spec.mutations[1].patchType: Unsupported value: "Smart": supported values: "ApplyConfiguration", "JSONPatch"
            spec.mutations[2].jsonPatch: Required value: must be specified when patchType is JSONPatch
            spec.mutations[2].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified when patchType is JSONPatch
            spec.mutations[3].applyConfiguration.expression: Required value
            spec.mutations[4].jsonPatch.expression: Invalid value: "[JSONPatch{op: 'add', path: '/a', value: variables.x}]": compilation failed: ERROR: <input>:1:51: undefined field 'x'
             | [JSONPatch{op: 'add', path: '/a', value: variables.x}]
             | ..................................................^
            spec.reinvocationPolicy: Required value
        "#]],
    );
}

#[test]
fn bindings_name_a_policy_and_its_params() {
    check_create(
        &PolicyBinding::VALIDATING,
        object(json!({"paramRef": {"parameterNotFoundAction": "Explode"}, "validationActions": ["Deny", "Warn"]})),
        expect![[r#"
            spec.policyName: Required value
            spec.paramRef: Required value: one of name or selector must be specified
            spec.paramRef.parameterNotFoundAction: Unsupported value: "Explode": supported values: "Deny", "Allow"
            spec.validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)
        "#]],
    );
    check_create(
        &PolicyBinding::MUTATING,
        object(json!({
            "policyName": "p", "matchResources": {"matchPolicy": "Fuzzy", "resourceRules": [
                {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["deployments"]},
            ]},
        })),
        expect![[r#"
            spec.matchResources.matchPolicy: Unsupported value: "Fuzzy": supported values: "Equivalent", "Exact"
            spec.matchResources.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"
        "#]],
    );
}
