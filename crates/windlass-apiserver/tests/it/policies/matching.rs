//! Which requests a policy matches.

use serde_json::{Value, json};

use super::{bind, merged, validating};
use crate::client::{CONFIG_MAPS, Client, config_map, labelled};

/// Creates a policy that denies what it matches, bound with these match resources.
async fn deny(client: &Client, constraints: &Value, binding: &Value) {
    let base = merged(super::config_maps(), constraints);
    validating(client, "p", &json!({"matchConstraints": base, "validations": [{"expression": "false"}]})).await;
    bind(client, "p", &merged(json!({}), binding)).await;
}

async fn is_denied(client: &Client, path: &str, object: &Value) -> bool {
    match client.post(&format!("{path}?dryRun=All"), object).await.code {
        201 => false,
        422 => true,
        code => panic!("unexpected code {code}"),
    }
}

#[tokio::test]
async fn rules_can_be_excluded_and_can_name_objects() {
    let client = Client::new().await;
    let rule = |names: &[&str]| {
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
                "resourceNames": names}])
    };
    deny(&client, &json!({"resourceRules": rule(&["a", "b"]), "excludeResourceRules": rule(&["b"])}), &json!({})).await;
    assert!(is_denied(&client, CONFIG_MAPS, &config_map("a")).await);
    assert!(!is_denied(&client, CONFIG_MAPS, &config_map("b")).await);
    assert!(!is_denied(&client, CONFIG_MAPS, &config_map("c")).await);
}

#[tokio::test]
async fn selectors_of_policy_and_binding_both_count() {
    let client = Client::new().await;
    for (name, label) in [("one", "1"), ("two", "2")] {
        let namespace = json!({"metadata": {"name": name, "labels": {"n": label}}});
        client.post("/api/v1/namespaces", &namespace).await.expect(201);
    }
    deny(
        &client,
        &json!({"namespaceSelector": {"matchLabels": {"n": "1"}}}),
        &json!({"matchResources": {"objectSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}}),
    )
    .await;
    let path = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    assert!(is_denied(&client, &path("one"), &labelled("a", "x", "y")).await);
    assert!(!is_denied(&client, &path("one"), &config_map("a")).await);
    assert!(!is_denied(&client, &path("two"), &labelled("a", "x", "y")).await);
    // The labels before and after an update count.
    client.post(&path("one"), &config_map("u")).await.expect(201);
    client.merge(&format!("{}/u", path("one")), &json!({"metadata": {"labels": {"x": "y"}}})).await.expect(422);
}

#[tokio::test]
async fn a_binding_narrows_the_rules_of_its_policy() {
    let client = Client::new().await;
    let updates = json!({"resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["*"]},
    ]});
    deny(&client, &json!({}), &json!({"matchResources": updates})).await;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    client.merge(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"a": "2"}})).await.expect(422);
}

#[tokio::test]
async fn a_binding_can_exclude_rules_of_its_policy() {
    let client = Client::new().await;
    let updates = json!({"excludeResourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]},
    ]});
    deny(&client, &json!({}), &json!({"matchResources": updates})).await;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    client.merge(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"a": "2"}})).await.expect(422);
}

#[tokio::test]
async fn equivalent_versions_match_unless_the_policy_is_exact() {
    let scaler = json!({
        "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}},
    });
    let rules = json!([
        {"apiGroups": ["autoscaling"], "apiVersions": ["v1"], "operations": ["CREATE"],
         "resources": ["horizontalpodautoscalers"]},
    ]);
    for (policy, denied) in [("Equivalent", true), ("Exact", false)] {
        let client = Client::new().await;
        // The object is seen in the version of the rule.
        let validation = json!({
            "expression": "object.apiVersion != 'autoscaling/v1' || request.resource.version != 'v1' || \
                           request.requestResource.version != 'v2'",
        });
        let constraints = json!({"matchPolicy": policy, "resourceRules": rules});
        validating(&client, "p", &json!({"matchConstraints": constraints, "validations": [validation]})).await;
        bind(&client, "p", &json!({})).await;
        let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
        assert_eq!(is_denied(&client, path, &scaler).await, denied, "{policy}");
    }
}

#[tokio::test]
async fn subresources_are_matched_by_name() {
    let client = Client::new().await;
    let rules = json!([
        {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["deployments/scale"]},
    ]);
    let validation =
        json!({"expression": "object.spec.replicas < 5", "messageExpression": "object.kind + ' is too large'"});
    validating(&client, "p", &json!({"matchConstraints": {"resourceRules": rules}, "validations": [validation]})).await;
    bind(&client, "p", &json!({})).await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({"metadata": {"name": "d"}, "spec": {
        "replicas": 9, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    client.post(deployments, &deployment).await.expect(201);
    let scale = format!("{deployments}/d/scale");
    client.merge(&scale, &json!({"spec": {"replicas": 4}})).await.expect(200);
    let denied = client.merge(&scale, &json!({"spec": {"replicas": 6}})).await;
    assert!(denied.message().ends_with("denied request: Scale is too large"), "{}", denied.message());
    let stored = client.get(&format!("{deployments}/d")).await.expect(200);
    assert_eq!(stored["spec"]["replicas"], 4);
}
