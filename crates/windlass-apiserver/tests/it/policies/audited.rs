//! What policies add to audit events.

use http::Method;
use serde_json::{Value, json};

use super::{bind, merged, validating};
use crate::{
    audit::Audited,
    client::{CONFIG_MAPS, config_map},
};

/// Creates a ConfigMap; returns the annotations of its audit event that policies made.
async fn annotations_of(audited: &Audited, name: &str) -> Value {
    let body = config_map(name).to_string();
    let events = audited.events_of(Method::POST, CONFIG_MAPS, "application/json", body).await;
    let mut annotations = events.last().unwrap()["annotations"].clone();
    for own in ["authorization.k8s.io/decision", "authorization.k8s.io/reason"] {
        annotations.as_object_mut().unwrap().remove(own);
    }
    annotations
}

#[tokio::test]
async fn a_failed_validation_can_be_recorded() {
    let audited = Audited::new("rules: [{level: Metadata}]").await;
    let validations = json!([{"expression": "true"}, {"expression": "object.data.a > '1'", "message": "a > \"1\""}]);
    validating(&audited.client, "p", &json!({"validations": validations})).await;
    bind(&audited.client, "p", &json!({"validationActions": ["Audit", "Warn"]})).await;
    let recorded = r#"[{"message":"a \u003e \"1\"","policy":"p","binding":"bind-p","expressionIndex":1,"validationActions":["Audit","Warn"]}]"#;
    let expected = json!({"validation.policy.admission.k8s.io/validation_failure": recorded});
    assert_eq!(annotations_of(&audited, "x").await, expected);
}

#[tokio::test]
async fn a_policy_can_annotate_audit_events() {
    let audited = Audited::new("rules: [{level: Metadata}]").await;
    let annotations = json!([
        {"key": "name", "valueExpression": "' ' + object.metadata.name + ' '"},
        {"key": "none", "valueExpression": "null"},
        {"key": "empty", "valueExpression": "''"},
    ]);
    validating(&audited.client, "p", &json!({"auditAnnotations": annotations})).await;
    bind(&audited.client, "p", &json!({})).await;
    assert_eq!(annotations_of(&audited, "x").await, json!({"p/name": "x"}));
}

#[tokio::test]
async fn a_failed_annotation_follows_the_failure_policy() {
    let audited = Audited::new("rules: [{level: Metadata}]").await;
    let annotations = json!({"auditAnnotations": [{"key": "k", "valueExpression": "object.data.missing"}]});
    let string = json!({"auditAnnotations": [{"key": "k", "valueExpression": "string(object.data.missing)"}]});
    // The type of a field is unknown, so it cannot be an annotation.
    let spec = merged(json!({"matchConstraints": super::config_maps()}), &annotations);
    let policies = format!("{}/validatingadmissionpolicies", super::GROUP);
    let rejected = audited.client.post(&policies, &json!({"metadata": {"name": "p"}, "spec": spec})).await;
    assert!(rejected.message().ends_with("must evaluate to one of [string null_type] but got dyn"));

    validating(&audited.client, "p", &merged(string.clone(), &json!({"failurePolicy": "Ignore"}))).await;
    bind(&audited.client, "p", &json!({})).await;
    assert_eq!(annotations_of(&audited, "x").await, json!({}));
    validating(&audited.client, "q", &string).await;
    // Warnings alone do not keep a failed annotation from denying the request.
    bind(&audited.client, "q", &json!({"validationActions": ["Warn"]})).await;
    let denied = audited.client.post(CONFIG_MAPS, &config_map("y")).await;
    let why = "denied request: expression 'string(object.data.missing)' resulted in error: no such key: missing";
    assert!(denied.message().ends_with(why), "{}", denied.message());
}

#[tokio::test]
async fn values_of_several_parameters_are_joined() {
    let audited = Audited::new("rules: [{level: Metadata}]").await;
    for name in ["a", "b"] {
        let mut params = config_map(name);
        params["metadata"]["labels"] = json!({"params": "yes"});
        audited.client.post(CONFIG_MAPS, &params).await.expect(201);
    }
    let policy = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "auditAnnotations": [
            {"key": "each", "valueExpression": "'from ' + string(params.metadata.name)"},
            {"key": "same", "valueExpression": "'always'"},
        ],
    });
    validating(&audited.client, "p", &policy).await;
    let reference = json!({"selector": {"matchLabels": {"params": "yes"}}, "parameterNotFoundAction": "Deny"});
    bind(&audited.client, "p", &json!({"paramRef": reference})).await;
    assert_eq!(annotations_of(&audited, "x").await, json!({"p/each": "from a, from b", "p/same": "always"}));
}
