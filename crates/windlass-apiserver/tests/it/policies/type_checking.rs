//! Type checking of policies, in their status.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_apiserver::Server;
use windlass_store::memory::MemoryStore;

use super::{GROUP, merged, validating};
use crate::client::Client;

/// Returns a client of a server that checks types.
async fn checking() -> Client {
    Client::of(Server::builder(Arc::new(MemoryStore::new())).policy_type_checking(true).build().await.unwrap())
}

/// Creates a policy and returns its status once it is checked.
async fn status(client: &Client, spec: &Value) -> Value {
    let mut events = client.watch(&format!("{GROUP}/validatingadmissionpolicies?watch=1")).await;
    validating(client, "p", spec).await;
    loop {
        let event = events.next().await.unwrap();
        let policy = &event["object"];
        if policy["status"]["observedGeneration"] == policy["metadata"]["generation"] {
            return policy["status"].clone();
        }
    }
}

fn deployments(more: &Value) -> Value {
    let rules = json!({"resourceRules": [
        {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments", "deployments/scale"]},
    ]});
    merged(json!({"matchConstraints": rules}), more)
}

#[tokio::test]
async fn a_policy_without_errors_has_an_empty_result() {
    let client = checking().await;
    let spec = deployments(&json!({
        "variables": [{"name": "containers", "expression": "object.spec.template.spec.containers"}],
        "validations": [
            {"expression": "object.spec.replicas <= 5 && object.metadata.namespace != 'x'"},
            {"expression": "variables.containers.all(c, c.image.startsWith('a') && c.resources.limits['cpu'] != '')"},
            {"expression": "object.metadata.labels['a'] == 'b' && object.spec.strategy.rollingUpdate.maxSurge == 1"},
            {"expression": "oldObject == null || oldObject.metadata.creationTimestamp < timestamp('2020-01-01T00:00:00Z')"},
        ],
    }));
    assert_eq!(status(&client, &spec).await, json!({"observedGeneration": 1, "typeChecking": {}}));
}

#[tokio::test]
async fn errors_are_warnings_with_their_kind_and_field() {
    let client = checking().await;
    let spec = deployments(&json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [
            {"expression": "object.spec.replica > 1", "messageExpression": "'got ' + object.spec.replicas"},
            {"expression": "params.data.max == 5"},
            {"expression": "true"},
        ],
    }));
    let status = status(&client, &spec).await;
    let warnings = &status["typeChecking"]["expressionWarnings"];
    let expected = json!([
        {
            "fieldRef": "spec.validations[0].expression",
            "warning": "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replica'\n \
                        | object.spec.replica > 1\n | ...........^\n",
        },
        {
            "fieldRef": "spec.validations[0].messageExpression",
            "warning": "apps/v1, Kind=Deployment: ERROR: <input>:1:8: found no matching overload for '_+_' applied to \
                        '(string, int)'\n | 'got ' + object.spec.replicas\n | .......^\n",
        },
        {
            "fieldRef": "spec.validations[1].expression",
            "warning": "apps/v1, Kind=Deployment: ERROR: <input>:1:17: found no matching overload for '_==_' applied to \
                        '(string, int)'\n | params.data.max == 5\n | ................^\n",
        },
    ]);
    assert_eq!(*warnings, expected);
}

#[tokio::test]
async fn what_the_type_checker_of_kubernetes_does_not_know_is_unknown() {
    let client = checking().await;
    let spec = deployments(&json!({"validations": [
        {"expression": "object.spec.template.spec.containers.all(c, c.resources.limits['cpu'] == '1')"},
        {"expression": "object.metadata.managedFields[0].fieldsV1.x == 1"},
        {"expression": "authorizer.requestResource.check('get').allowed()"},
        {"expression": "authorizer.path('/x').check('get').allowed()"},
    ]}));
    let status = status(&client, &spec).await;
    let warnings = status["typeChecking"]["expressionWarnings"].as_array().unwrap();
    let firsts: Vec<&str> =
        warnings.iter().map(|warning| warning["warning"].as_str().unwrap().lines().next().unwrap()).collect();
    assert_eq!(
        firsts,
        [
            "apps/v1, Kind=Deployment: ERROR: <input>:1:56: undefined field 'limits'",
            "apps/v1, Kind=Deployment: ERROR: <input>:1:42: undefined field 'x'",
            "apps/v1, Kind=Deployment: ERROR: <input>:1:11: unexpected failed resolution of \
             'kubernetes.authorization.Authorizer'",
        ]
    );
}

#[tokio::test]
async fn a_changed_policy_is_checked_again() {
    let client = checking().await;
    let spec = deployments(&json!({"validations": [{"expression": "object.nothing == 1"}]}));
    assert!(status(&client, &spec).await["typeChecking"]["expressionWarnings"].is_array());
    let mut events = client.watch(&format!("{GROUP}/validatingadmissionpolicies?watch=1")).await;
    let fixed = json!({"spec": {"validations": [{"expression": "object.kind == 'Deployment'"}]}});
    client.merge(&format!("{GROUP}/validatingadmissionpolicies/p"), &fixed).await.expect(200);
    loop {
        let event = events.next().await.unwrap();
        if event["object"]["status"]["observedGeneration"] == 2 {
            // An apply that removes the last field of an object removes the object too.
            assert_eq!(event["object"]["status"], json!({"observedGeneration": 2}));
            return;
        }
    }
}

#[tokio::test]
async fn custom_resources_are_checked_against_their_schema() {
    let client = checking().await;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "tags": {"type": "array", "items": {"type": "string"}},
    }}}});
    let definition = json!({"metadata": {"name": "lamps.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "lamps", "singular": "lamp", "kind": "Lamp", "listKind": "LampList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
    }});
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.expect(201);
    let rules = json!({"resourceRules": [
        {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["lamps"]},
    ]});
    let spec = json!({"matchConstraints": rules, "validations": [
        {"expression": "object.spec.tags.exists(t, t == 'a') && object.metadata.labels['x'] == 'y'"},
        {"expression": "object.spec.tags.exists(t, t == 1)"},
    ]});
    let status = status(&client, &spec).await;
    let warnings = status["typeChecking"]["expressionWarnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let warning = warnings[0]["warning"].as_str().unwrap();
    assert!(
        warning.starts_with("example.com/v1, Kind=Lamp: ERROR: <input>:1:30: found no matching overload"),
        "{warning}"
    );
}
