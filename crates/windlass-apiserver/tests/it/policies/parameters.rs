//! Parameters of policies.

use http::Method;
use serde_json::{Value, json};

use super::{GROUP, bind, validating};
use crate::client::{CONFIG_MAPS, Client, config_map};

const KINDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn limits(name: &str, max: &str, label: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"limits": label}}, "data": {"max": max}})
}

/// A policy whose ConfigMaps are limited by ConfigMaps; the limits themselves are not.
fn limited() -> Value {
    json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConditions": [{"name": "no-limits", "expression": "object == null || !('max' in object.data)"}],
        "validations": [{
            "expression": "int(object.data.a) <= int(params.data.max)",
            "messageExpression": "'more than ' + params.data.max + ' of ' + params.metadata.name",
        }],
    })
}

fn numbered(name: &str, number: &str) -> Value {
    let mut object = config_map(name);
    object["data"]["a"] = number.into();
    object
}

#[tokio::test]
async fn a_binding_names_the_parameters() {
    let client = Client::new().await;
    validating(&client, "p", &limited()).await;
    bind(&client, "p", &json!({"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}})).await;
    let denied = client.post(CONFIG_MAPS, &numbered("x", "3")).await;
    assert_eq!(
        denied.message(),
        "configmaps \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'bind-p' denied request: failed to \
         configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    );
    // Parameters take effect before their write is acknowledged. They are themselves subject to the policy.
    client
        .merge(
            &format!("{GROUP}/validatingadmissionpolicybindings/bind-p"),
            &json!({"spec": {"paramRef": {
                "parameterNotFoundAction": "Allow",
            }}}),
        )
        .await
        .expect(200);
    client.post(CONFIG_MAPS, &numbered("allowed", "3")).await.expect(201);
    client.post(CONFIG_MAPS, &limits("limits", "2", "x")).await.expect(201);
    for round in 0..10 {
        let denied = client.post(CONFIG_MAPS, &numbered("x", &(round + 3).to_string())).await;
        let message = format!("denied request: more than {} of limits", round + 2);
        assert!(denied.message().ends_with(&message), "{}", denied.message());
        let more = json!({"data": {"max": (round + 3).to_string()}});
        client.merge(&format!("{CONFIG_MAPS}/limits"), &more).await.expect(200);
        client.post(&format!("{CONFIG_MAPS}?dryRun=All"), &numbered("x", &(round + 3).to_string())).await.expect(201);
    }
}

#[tokio::test]
async fn a_selector_runs_the_policy_for_every_object() {
    let client = Client::new().await;
    for (name, max, label) in [("a", "5", "yes"), ("b", "3", "yes"), ("c", "1", "no")] {
        client.post(CONFIG_MAPS, &limits(name, max, label)).await.expect(201);
    }
    validating(&client, "p", &limited()).await;
    let reference = json!({"selector": {"matchLabels": {"limits": "yes"}}, "parameterNotFoundAction": "Deny"});
    bind(&client, "p", &json!({"paramRef": reference})).await;
    client.post(CONFIG_MAPS, &numbered("x", "3")).await.expect(201);
    let denied = client.post(CONFIG_MAPS, &numbered("y", "4")).await;
    assert!(denied.message().ends_with("more than 3 of b"), "{}", denied.message());
}

#[tokio::test]
async fn parameters_can_be_in_another_namespace() {
    let client = Client::new().await;
    client.post("/api/v1/namespaces", &json!({"metadata": {"name": "other"}})).await.expect(201);
    client.post("/api/v1/namespaces/other/configmaps", &limits("l", "2", "x")).await.expect(201);
    validating(&client, "p", &limited()).await;
    let reference = json!({"name": "l", "namespace": "other", "parameterNotFoundAction": "Deny"});
    bind(&client, "p", &json!({"paramRef": reference})).await;
    client.post(CONFIG_MAPS, &numbered("x", "2")).await.expect(201);
    client.post(CONFIG_MAPS, &numbered("y", "3")).await.expect(422);
}

#[tokio::test]
async fn a_binding_without_parameters_sees_null() {
    let client = Client::new().await;
    let policy = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "params != null", "message": "no params"}],
    });
    validating(&client, "p", &policy).await;
    bind(&client, "p", &json!({})).await;
    let denied = client.post(CONFIG_MAPS, &config_map("x")).await;
    assert!(denied.message().ends_with("denied request: no params"), "{}", denied.message());
}

#[tokio::test]
async fn parameters_can_be_custom_resources_of_either_scope() {
    let client = Client::new().await;
    let policy = json!({
        "paramKind": {"apiVersion": "rules.example.com/v1", "kind": "Limit"},
        "validations": [{"expression": "size(object.data) <= params.spec.max"}],
    });
    validating(&client, "p", &policy).await;
    bind(&client, "p", &json!({"paramRef": {"name": "l", "parameterNotFoundAction": "Deny"}})).await;
    let denied = client.post(CONFIG_MAPS, &config_map("x")).await;
    assert_eq!(
        denied.message(),
        "configmaps \"x\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed \
         to find resource referenced by paramKind: 'rules.example.com/v1, Kind=Limit'"
    );
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"max": {"type": "integer"}}}}});
    let definition = json!({"metadata": {"name": "limits.rules.example.com"}, "spec": {
        "group": "rules.example.com", "scope": "Cluster",
        "names": {"plural": "limits", "singular": "limit", "kind": "Limit", "listKind": "LimitList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
    }});
    client.post(KINDS, &definition).await.expect(201);
    let limit =
        json!({"apiVersion": "rules.example.com/v1", "kind": "Limit", "metadata": {"name": "l"}, "spec": {"max": 1}});
    client.post("/apis/rules.example.com/v1/limits", &limit).await.expect(201);
    client.post(CONFIG_MAPS, &config_map("x")).await.expect(201);
    let mut larger = config_map("y");
    larger["data"]["b"] = "2".into();
    client.post(CONFIG_MAPS, &larger).await.expect(422);

    let namespaced = json!({"spec": {"paramRef": {"namespace": "default"}}});
    client.merge(&format!("{GROUP}/validatingadmissionpolicybindings/bind-p"), &namespaced).await.expect(200);
    let denied = client.post(CONFIG_MAPS, &config_map("z")).await;
    let why = "failed to configure binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
    assert!(denied.message().ends_with(why), "{}", denied.message());
}

#[tokio::test]
async fn a_cluster_scoped_object_has_no_namespaced_parameters() {
    let client = Client::new().await;
    let rules = json!({"resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nodes"]},
    ]});
    let policy = json!({
        "matchConstraints": rules, "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "true"}],
    });
    validating(&client, "p", &policy).await;
    bind(&client, "p", &json!({"paramRef": {"name": "l", "parameterNotFoundAction": "Allow"}})).await;
    let denied = client.post("/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await;
    let why = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
    assert!(denied.message().ends_with(why), "{}", denied.message());
}

#[tokio::test]
async fn authors_must_be_able_to_read_the_parameters() {
    let client = Client::new().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([{"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]}]);
    client
        .post(&format!("{rbac}/clusterroles"), &json!({"metadata": {"name": "author"}, "rules": rules}))
        .await
        .expect(201);
    let binding = json!({
        "metadata": {"name": "author"}, "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "ClusterRole", "name": "author", "apiGroup": "rbac.authorization.k8s.io"},
    });
    client.post(&format!("{rbac}/clusterrolebindings"), &binding).await.expect(201);
    let spec = super::merged(json!({"matchConstraints": super::config_maps()}), &limited());
    let policy = json!({"metadata": {"name": "p"}, "spec": spec});
    let policies = format!("{GROUP}/validatingadmissionpolicies");
    let denied = client.send_as("jane", Method::POST, &policies, &policy).await;
    assert_eq!(
        denied.expect(422)["message"],
        "ValidatingAdmissionPolicy.admissionregistration.k8s.io \"p\" is invalid: spec.paramKind: Forbidden: user \
         &{jane  [system:authenticated] map[]} must have \"get\" permission on all objects of the referenced paramKind \
         (kind=ConfigMap, apiVersion=v1)"
    );
    client.post(&policies, &policy).await.expect(201);
    // What is not changed needs no permission.
    let change = json!({"spec": {"failurePolicy": "Ignore"}});
    client.send_as("jane", Method::PATCH, &format!("{policies}/p"), &change).await.expect(200);
    let binding = json!({"metadata": {"name": "b"}, "spec": {
        "policyName": "p", "validationActions": ["Deny"],
        "paramRef": {"name": "l", "namespace": "default", "parameterNotFoundAction": "Deny"},
    }});
    let bindings = format!("{GROUP}/validatingadmissionpolicybindings");
    let denied = client.send_as("jane", Method::POST, &bindings, &binding).await;
    assert_eq!(
        denied.expect(422)["message"],
        "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io \"b\" is invalid: spec.paramRef: Forbidden: user \
         &{jane  [system:authenticated] map[]} does not have \"get\" permission on the object referenced by paramRef"
    );
}
