//! Admission policies.

mod audited;
mod matching;
mod mutating;
mod parameters;
mod type_checking;
mod validating;

use serde_json::{Value, json};

use crate::client::Client;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// Rules for ConfigMaps.
fn config_maps() -> Value {
    json!({"resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]},
    ]})
}

fn merged(mut base: Value, more: &Value) -> Value {
    for (field, value) in more.as_object().into_iter().flatten() {
        base[field] = value.clone();
    }
    base
}

/// Creates a validating policy for ConfigMaps.
async fn validating(client: &Client, name: &str, more: &Value) {
    let spec = merged(json!({"matchConstraints": config_maps()}), more);
    let policy = json!({"metadata": {"name": name}, "spec": spec});
    client.post(&format!("{GROUP}/validatingadmissionpolicies"), &policy).await.expect(201);
}

/// Binds a validating policy; it denies requests unless the binding has other actions.
async fn bind(client: &Client, policy: &str, more: &Value) {
    let spec = merged(json!({"policyName": policy, "validationActions": ["Deny"]}), more);
    let binding = json!({"metadata": {"name": format!("bind-{policy}")}, "spec": spec});
    client.post(&format!("{GROUP}/validatingadmissionpolicybindings"), &binding).await.expect(201);
}

/// Creates a mutating policy for ConfigMaps, which does not run again, and binds it.
async fn mutating(client: &Client, name: &str, mutations: Value, more: &Value) {
    let base = json!({
        "matchConstraints": config_maps(), "reinvocationPolicy": "Never", "mutations": mutations,
    });
    let policy = json!({"metadata": {"name": name}, "spec": merged(base, more)});
    client.post(&format!("{GROUP}/mutatingadmissionpolicies"), &policy).await.expect(201);
    let binding = json!({"metadata": {"name": format!("bind-{name}")}, "spec": {"policyName": name}});
    client.post(&format!("{GROUP}/mutatingadmissionpolicybindings"), &binding).await.expect(201);
}

fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn json_patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}
