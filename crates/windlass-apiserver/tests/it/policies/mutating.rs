//! Mutations: apply configurations, JSON patches, their order, reinvocation and failures.

use serde_json::{Value, json};

use super::{GROUP, apply, json_patch, mutating};
use crate::{
    client::{CONFIG_MAPS, Client, config_map},
    webhook_server::{WebhookServer, patched},
};

/// A mutation that appends a letter to `data.a`.
fn append(letter: &str) -> Value {
    json!([json_patch(&format!("[JSONPatch{{op: 'replace', path: '/data/a', value: object.data.a + '{letter}'}}]"))])
}

#[tokio::test]
async fn an_apply_configuration_is_merged_without_an_owner() {
    let client = Client::new().await;
    let merge = "Object{metadata: Object.metadata{labels: {'team': 'x'}}, data: {'b': object.data.a + '!'}}";
    mutating(&client, "p", json!([apply(merge)]), &json!({})).await;
    let mut object = config_map("one");
    object["metadata"]["labels"] = json!({"own": "1"});
    let made = client.post(CONFIG_MAPS, &object).await.expect(201);
    assert_eq!(made["metadata"]["labels"], json!({"own": "1", "team": "x"}));
    assert_eq!(made["data"], json!({"a": "1", "b": "1!"}));
    let owned = &made["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(owned["f:data"], json!({".": {}, "f:a": {}}));
    let changed = client.merge(&format!("{CONFIG_MAPS}/one"), &json!({"data": {"a": "2"}})).await.expect(200);
    assert_eq!(changed["data"], json!({"a": "2", "b": "2!"}));
}

#[tokio::test]
async fn lists_are_merged_by_key_and_defaults_are_applied() {
    let client = Client::new().await;
    let rules = json!({"resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
    ]});
    let sidecar = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 'proxy', \
                   ports: [Object.spec.containers.ports{containerPort: 80}]}]}}";
    mutating(&client, "p", json!([apply(sidecar)]), &json!({"matchConstraints": rules})).await;
    let pod = json!({"metadata": {"name": "w"}, "spec": {"containers": [{"name": "main", "image": "i"}]}});
    let made = client.post("/api/v1/namespaces/default/pods", &pod).await.expect(201);
    let containers = made["spec"]["containers"].as_array().unwrap();
    let names: Vec<&Value> = containers.iter().map(|container| &container["name"]).collect();
    assert_eq!(names, [&json!("main"), &json!("side")]);
    assert_eq!(containers[1]["ports"], json!([{"containerPort": 80, "protocol": "TCP"}]));
    assert_eq!(containers[1]["imagePullPolicy"], "Always");
}

#[tokio::test]
async fn atomic_values_cannot_be_merged() {
    let client = Client::new().await;
    let rules = json!({"resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
    ]});
    let command = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'main', args: ['x']}]}}";
    mutating(&client, "p", json!([apply(command)]), &json!({"matchConstraints": rules})).await;
    let pod = json!({"metadata": {"name": "w"}, "spec": {"containers": [{"name": "main", "image": "i"}]}});
    let status = client.post("/api/v1/namespaces/default/pods", &pod).await.expect(403);
    let message = "policy 'p' with binding 'bind-p' denied request: error applying patch: invalid ApplyConfiguration: \
                   may not mutate atomic arrays, maps or structs: .spec.containers[0].args";
    assert_eq!((&status["message"], &status["reason"]), (&json!(message), &json!("Invalid")));
    assert_eq!(status["details"], json!({"name": "w", "kind": "pods", "causes": [{"message": message}]}));
}

#[tokio::test]
async fn a_json_patch_is_applied_in_order_unless_a_test_fails() {
    let client = Client::new().await;
    let patch = "[JSONPatch{op: 'test', path: '/data/a', value: '1'}, \
                 JSONPatch{op: 'add', path: '/metadata/labels', value: {}}, \
                 JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('x/y'), value: 'z'}]";
    mutating(&client, "p", json!([json_patch(patch)]), &json!({})).await;
    let made = client.post(CONFIG_MAPS, &config_map("one")).await.expect(201);
    assert_eq!(made["metadata"]["labels"], json!({"x/y": "z"}));
    let mut other = config_map("two");
    other["data"]["a"] = "2".into();
    let made = client.post(CONFIG_MAPS, &other).await.expect(201);
    assert_eq!(made["metadata"].get("labels"), None);
}

#[tokio::test]
async fn mutations_see_the_result_of_those_before_them() {
    let client = Client::new().await;
    let mutations = json!([append("x")[0], append("y")[0]]);
    mutating(&client, "b", mutations, &json!({})).await;
    mutating(&client, "a", append("z"), &json!({})).await;
    let made = client.post(CONFIG_MAPS, &config_map("one")).await.expect(201);
    assert_eq!(made["data"]["a"], "1zxy");
}

#[tokio::test]
async fn policies_run_again_if_needed() {
    let client = Client::new().await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    mutating(&client, "a", append("a"), &again).await;
    mutating(&client, "b", append("b"), &json!({})).await;
    mutating(&client, "c", append("c"), &again).await;
    // Every change counts, including the policy's own.
    let made = client.post(CONFIG_MAPS, &config_map("one")).await.expect(201);
    assert_eq!(made["data"]["a"], "1abcac");
}

#[tokio::test]
async fn policies_run_before_webhooks_and_again_after_a_change_by_them() {
    let client = Client::new().await;
    let server = WebhookServer::start(&[], |_, review| {
        let had = review["request"]["object"]["data"]["a"].as_str().unwrap_or_default();
        patched(review, &json!([{"op": "replace", "path": "/data/a", "value": format!("{had}w")}]))
    });
    let server = server.await;
    mutating(&client, "n", append("n"), &json!({})).await;
    mutating(&client, "p", append("p"), &json!({"reinvocationPolicy": "IfNeeded"})).await;
    let webhook = json!({
        "name": "a.example.com", "clientConfig": server.at("/"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
    });
    let hooks = json!({"metadata": {"name": "w"}, "webhooks": [webhook]});
    client.post(&format!("{GROUP}/mutatingwebhookconfigurations"), &hooks).await.expect(201);
    let made = client.post(CONFIG_MAPS, &config_map("one")).await.expect(201);
    assert_eq!(made["data"]["a"], "1npwp");
}

#[tokio::test]
async fn a_failed_mutation_follows_the_failure_policy() {
    let client = Client::new().await;
    let broken = json!([apply("Object{data: {'b': object.data.missing}}")]);
    mutating(&client, "ignored", broken.clone(), &json!({"failurePolicy": "Ignore"})).await;
    client.post(CONFIG_MAPS, &config_map("one")).await.expect(201);
    mutating(&client, "p", broken, &json!({})).await;
    mutating(&client, "q", json!([json_patch("[JSONPatch{op: 'remove', path: '/data/none'}]")]), &json!({})).await;
    let status = client.post(CONFIG_MAPS, &config_map("two")).await.expect(403);
    let causes = [
        "policy 'p' with binding 'bind-p' denied request: expression 'Object{data: {'b': object.data.missing}}' resulted \
         in error: no such key: missing",
        "policy 'q' with binding 'bind-q' denied request: JSON Patch: Unable to remove nonexistent key: none: missing \
         value",
    ];
    assert_eq!((&status["message"], &status["reason"]), (&json!(causes[0]), &json!("Invalid")));
    assert_eq!(status["details"]["causes"], json!([{"message": causes[0]}, {"message": causes[1]}]));
}

#[tokio::test]
async fn a_misconfigured_policy_is_forbidden_without_naming_a_binding() {
    let client = Client::new().await;
    let kind = json!({"paramKind": {"apiVersion": "example.com/v1", "kind": "Missing"}});
    mutating(&client, "p", append("x"), &kind).await;
    let status = client.post(CONFIG_MAPS, &config_map("one")).await.expect(403);
    let message = "policy \"p\" denied request: failed to configure policy: failed to find resource referenced by \
                   paramKind: 'example.com/v1, Kind=Missing'";
    assert_eq!((&status["message"], &status["reason"]), (&json!(message), &json!("Forbidden")));
}

#[tokio::test]
async fn fields_that_do_not_exist_are_rejected() {
    let client = Client::new().await;
    mutating(&client, "p", json!([apply("Object{nothing: 1}")]), &json!({})).await;
    let message = client.post(CONFIG_MAPS, &config_map("one")).await.message();
    let why = "denied request: error applying patch: failed to convert patch object to typed object: .nothing: field not \
               declared in schema";
    assert!(message.ends_with(why), "{message}");
    client.delete(&format!("{GROUP}/mutatingadmissionpolicies/p")).await.expect(200);
    mutating(&client, "q", json!([json_patch("[JSONPatch{op: 'add', path: '/nothing', value: 1}]")]), &json!({})).await;
    let failed = client.post(CONFIG_MAPS, &config_map("one")).await;
    let why = "Internal error occurred: strict decoding error: unknown field \"nothing\"";
    assert_eq!((failed.code, failed.message()), (500, why.to_owned()));
}

#[tokio::test]
async fn custom_resources_are_merged_by_their_schema() {
    let client = Client::new().await;
    let item = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}});
    let items = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item});
    let spec = json!({"type": "object", "properties": {"items": items, "mode": {"type": "string", "default": "eco"}}});
    let definition = json!({"metadata": {"name": "lamps.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "lamps", "singular": "lamp", "kind": "Lamp", "listKind": "LampList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
            {"type": "object", "properties": {"spec": spec}}}}],
    }});
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.expect(201);
    let rules = json!({"resourceRules": [
        {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["lamps"]},
    ]});
    let merge = "Object{spec: Object.spec{items: [Object.spec.items{name: 'b', n: 2}]}}";
    mutating(&client, "p", json!([apply(merge)]), &json!({"matchConstraints": rules})).await;
    let lamp = json!({"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": "l"},
        "spec": {"items": [{"name": "a", "n": 1}, {"name": "b", "n": 1}]}});
    let made = client.post("/apis/example.com/v1/namespaces/default/lamps", &lamp).await.expect(201);
    let expected = json!({"items": [{"name": "a", "n": 1}, {"name": "b", "n": 2}], "mode": "eco"});
    assert_eq!(made["spec"], expected);
}

#[tokio::test]
async fn mutations_are_counted() {
    let client = Client::new().await;
    mutating(&client, "p", append("x"), &json!({})).await;
    client.post(CONFIG_MAPS, &config_map("one")).await.expect(201);
    let metrics = String::from_utf8(client.get("/metrics").await.raw.to_vec()).unwrap();
    let line = "apiserver_mutating_admission_policy_check_total{error_type=\"no_error\",policy=\"p\",\
                policy_binding=\"bind-p\"} 1";
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn a_mutating_policy_has_taken_effect_when_its_write_is_acknowledged() {
    let client = Client::new().await;
    for round in 0..10 {
        let name = format!("p{round}");
        mutating(&client, &name, append("x"), &json!({})).await;
        let made = client.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("one")).await.expect(201);
        assert_eq!(made["data"]["a"], "1x");
        client.delete(&format!("{GROUP}/mutatingadmissionpolicies/{name}")).await.expect(200);
        let made = client.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("one")).await.expect(201);
        assert_eq!(made["data"]["a"], "1");
    }
}

#[tokio::test]
async fn a_mutation_that_costs_too_much_fails_as_its_policy_says() {
    let client = Client::new().await;
    let list = "[0,1,2,3,4,5,6,7,8,9]";
    let costly = (0..6).fold("true".to_owned(), |text, level| format!("{list}.all(v{level}, {text})"));
    let patch = format!("{costly} ? [JSONPatch{{op: 'remove', path: '/data'}}] : []");
    mutating(&client, "p", json!([json_patch(&patch)]), &json!({"failurePolicy": "Ignore"})).await;
    let made = client.post(CONFIG_MAPS, &config_map("one")).await.expect(201);
    assert_eq!(made["data"], json!({"a": "1"}));
    mutating(&client, "q", json!([json_patch(&patch)]), &json!({})).await;
    let status = client.post(CONFIG_MAPS, &config_map("two")).await.expect(403);
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("policy 'q' with binding 'bind-q' denied request: expression '"), "{message}");
    assert!(message.ends_with("resulted in error: operation cancelled: actual cost limit exceeded"), "{message}");
}

#[tokio::test]
async fn a_connection_can_be_mutated() {
    let client = Client::new().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "w"}, "spec": {"containers": [{"name": "main", "image": "i"}]}});
    client.post(pods, &pod).await.expect(201);
    let rules = json!({"matchConstraints": {"resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": ["pods/exec"]},
    ]}});
    let replace = |container: &str| {
        let patch = format!("[JSONPatch{{op: 'replace', path: '/container', value: '{container}'}}]");
        json!([json_patch(&patch)])
    };
    let exec = format!("{pods}/w/exec?command=ls&container=other");
    assert_eq!(client.get(&exec).await.message(), "container other is not valid for pod w");
    mutating(&client, "p", replace("main"), &rules).await;
    assert_eq!(client.get(&exec).await.message(), "pod w does not have a host assigned");
    mutating(&client, "q", json!([json_patch("[JSONPatch{op: 'add', path: '/nowhere', value: 1}]")]), &rules).await;
    let message = client.get(&exec).await.message();
    assert_eq!(message, "Internal error occurred: strict decoding error: unknown field \"nowhere\"");
}
