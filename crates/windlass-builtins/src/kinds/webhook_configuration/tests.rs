use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::WebhookConfiguration;
use crate::kinds::tests::expectations::{check_create, check_update};
use crate::strategy::Strategy;

fn configuration(change: impl FnOnce(&mut Value)) -> Value {
    let mut webhook = json!({
        "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://hooks.example.com/x"},
        "rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}],
    });
    change(&mut webhook);
    json!({"metadata": {"name": "c"}, "webhooks": [webhook]})
}

fn check(change: impl FnOnce(&mut Value), expected: Expect) {
    check_create(&WebhookConfiguration::MUTATING, configuration(change), expected);
}

#[test]
fn webhooks_get_their_defaults() {
    let mut object = configuration(|webhook| {
        webhook["clientConfig"] = json!({"service": {"name": "s", "namespace": "n"}});
    });
    WebhookConfiguration::MUTATING.default(&mut object);
    let webhook = &object["webhooks"][0];
    assert_eq!(webhook["clientConfig"]["service"]["port"], 443);
    assert_eq!(webhook["rules"][0]["scope"], "*");
    assert_eq!(webhook["failurePolicy"], "Fail");
    assert_eq!(webhook["matchPolicy"], "Equivalent");
    assert_eq!(webhook["timeoutSeconds"], 10);
    assert_eq!(webhook["reinvocationPolicy"], "Never");
    assert_eq!(WebhookConfiguration::MUTATING.validate(&object), []);

    let mut object = configuration(|_| {});
    WebhookConfiguration::VALIDATING.default(&mut object);
    assert_eq!(object["webhooks"][0].get("reinvocationPolicy"), None);
}

#[test]
fn webhook_rules_are_validated() {
    check(
        |webhook| {
            let rule = |operations: Value, resources: Value| json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": resources});
            webhook["rules"] = json!([
                rule(json!(["*", "CREATE"]), json!(["things"])),
                rule(json!(["GET"]), json!(["*", "things"])),
                rule(json!(["CREATE"]), json!(["things/*", "things/status", ""])),
            ]);
        },
        expect![[r#"
            webhooks[0].rules[0].operations: Invalid value: ["*","CREATE"]: if '*' is present, must not specify other operations
            webhooks[0].rules[1].operations[0]: Unsupported value: "GET": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"
            webhooks[0].rules[1].resources: Invalid value: ["*","things"]: if '*' is present, must not specify other resources without subresources
            webhooks[0].rules[2].resources[1]: Invalid value: "things/status": if 'things/*' is present, must not specify things/status
            webhooks[0].rules[2].resources[2]: Required value
        "#]],
    );
}

#[test]
fn conditions_must_be_of_type_bool() {
    check(
        |webhook| {
            webhook["matchConditions"] =
                json!([{"name": "a", "expression": "'text'"}, {"name": "a", "expression": "true"}])
        },
        expect![[r#"
            webhooks[0].matchConditions[0].expression: Invalid value: "'text'": must evaluate to bool but got string
            webhooks[0].matchConditions[1].name: Duplicate value: "a"
        "#]],
    );
}

#[test]
fn values_that_were_already_invalid_may_stay() {
    let old = configuration(|webhook| webhook["sideEffects"] = "Unknown".into());
    let both = |object: Value, expected: Expect| {
        check_update(&WebhookConfiguration::VALIDATING, object, old.clone(), expected);
    };
    both(old.clone(), expect![""]);
    both(
        configuration(|webhook| webhook["sideEffects"] = "Perhaps".into()),
        expect![[r#"
            webhooks[0].sideEffects: Unsupported value: "Perhaps": supported values: "None", "NoneOnDryRun", "Some", "Unknown"
        "#]],
    );
    check(
        |webhook| webhook["sideEffects"] = "Unknown".into(),
        expect![[r#"
            webhooks[0].sideEffects: Unsupported value: "Unknown": supported values: "None", "NoneOnDryRun"
        "#]],
    );
}
