//! CustomResourceDefinitions: served when acknowledged, changed while in use, deleted with their objects.

use serde_json::{Value, json};

use crate::client::{Client, names};

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Returns a CustomResourceDefinition of `widgets.example.com` with the given versions.
pub(crate) fn definition(versions: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wg"], "categories": ["all"]},
            "versions": versions,
        },
    })
}

/// Returns a version with the schema of its `spec`.
pub(crate) fn version(name: &str, storage: bool, spec: &Value) -> Value {
    json!({
        "name": name, "served": true, "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": spec, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}},
        "subresources": {"status": {}},
    })
}

pub(crate) fn widget(version: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec,
    })
}

pub(crate) fn widgets(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/widgets")
}

fn size() -> Value {
    json!({"type": "object", "properties": {"size": {"type": "integer"}}})
}

#[tokio::test]
async fn a_dry_run_of_a_definition_is_answered_after_other_writes() {
    let client = Client::new().await;
    client.post("/api/v1/namespaces", &json!({"metadata": {"name": "newer"}})).await.expect(201);
    let definition = definition(&json!([version("v1", true, &size())]));
    client.post(&format!("{DEFINITIONS}?dryRun=All"), &definition).await.expect(201);
    assert_eq!(client.get(&widgets("v1")).await.code, 404);
}

#[tokio::test]
async fn a_definition_is_effective_when_its_write_is_acknowledged() {
    let client = Client::new().await;
    assert_eq!(client.get(&widgets("v1")).await.code, 404);
    client.post(DEFINITIONS, &definition(&json!([version("v1", true, &size())]))).await.expect(201);
    client.post(&widgets("v1"), &widget("v1", "a", &json!({"size": 1}))).await.expect(201);
    let stored = client.get(&format!("{DEFINITIONS}/widgets.example.com")).await.expect(200);
    let conditions = stored["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().all(|condition| condition["status"] == "True"), "{conditions:?}");
    assert_eq!(stored["status"]["acceptedNames"]["listKind"], "WidgetList");
    let resources = client.get("/apis/example.com/v1").await.expect(200);
    assert_eq!(resources["resources"][0]["shortNames"], json!(["wg"]));

    let more = json!([version("v1", true, &size()), version("v2", false, &size())]);
    client.merge(&format!("{DEFINITIONS}/widgets.example.com"), &json!({"spec": {"versions": more}})).await.expect(200);
    let seen = client.get(&format!("{}/a", widgets("v2"))).await.expect(200);
    assert_eq!((&seen["apiVersion"], &seen["spec"]), (&json!("example.com/v2"), &json!({"size": 1})));
}

#[tokio::test]
async fn a_definition_is_removed_after_its_objects_and_its_watches_end() {
    let client = Client::new().await;
    client.post(DEFINITIONS, &definition(&json!([version("v1", true, &size())]))).await.expect(201);
    let mut held = widget("v1", "held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    client.post(&widgets("v1"), &held).await.expect(201);
    client.post(&widgets("v1"), &widget("v1", "free", &json!({}))).await.expect(201);
    let mut events = client.watch(&format!("{}?watch=1", widgets("v1"))).await;
    assert_eq!([events.brief().await, events.brief().await], ["ADDED free", "ADDED held"]);

    let one = format!("{DEFINITIONS}/widgets.example.com");
    let deleted = client.delete(&one).await.expect(200);
    assert_eq!(deleted["status"]["conditions"][2]["reason"], "InstanceDeletionPending");
    assert_eq!([events.brief().await, events.brief().await], ["DELETED free", "MODIFIED held"]);
    let late = client.post(&widgets("v1"), &widget("v1", "late", &json!({}))).await;
    assert_eq!(late.code, 403, "{}", late.message());
    let again = client.post(DEFINITIONS, &definition(&json!([version("v1", true, &size())]))).await;
    assert!(again.message().starts_with("object is being deleted: "), "{}", again.message());

    client.merge(&format!("{}/held", widgets("v1")), &json!({"metadata": {"finalizers": null}})).await.expect(200);
    assert_eq!(events.brief().await, "DELETED held");
    assert_eq!(events.next().await, None, "the watch ends with the resource");
    client.gone(&one).await;
    client.gone(&widgets("v1")).await;
    client.post(DEFINITIONS, &definition(&json!([version("v1", true, &size())]))).await.expect(201);
    let list = client.get(&widgets("v1")).await.expect(200);
    assert_eq!(names(&list), Vec::<String>::new());
}

#[tokio::test]
async fn names_belong_to_the_definition_that_had_them_first() {
    let client = Client::new().await;
    client.post(DEFINITIONS, &definition(&json!([version("v1", true, &size())]))).await.expect(201);
    let mut second = definition(&json!([version("v1", true, &size())]));
    second["metadata"]["name"] = json!("gadgets.example.com");
    second["spec"]["names"] = json!({"plural": "gadgets", "kind": "Widget", "shortNames": ["wg"]});
    client.post(DEFINITIONS, &second).await.expect(201);
    let path = format!("{DEFINITIONS}/gadgets.example.com");
    let rejected = client.get(&path).await.expect(200);
    assert_eq!(rejected["status"]["conditions"][0]["reason"], "ListKindConflict", "{rejected}");
    assert_eq!(client.get("/apis/example.com/v1/gadgets").await.code, 404);

    client.delete(&format!("{DEFINITIONS}/widgets.example.com")).await.expect(200);
    let mut served = false;
    for _ in 0..1000 {
        served = client.get("/apis/example.com/v1/gadgets").await.code == 200;
        if served {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert!(served, "the names are free now");
}

#[tokio::test]
async fn reads_follow_a_changed_schema() {
    let client = Client::new().await;
    client.post(DEFINITIONS, &definition(&json!([version("v1", true, &size())]))).await.expect(201);
    client.post(&widgets("v1"), &widget("v1", "old", &json!({"size": 7}))).await.expect(201);
    let mut events = client.watch(&format!("{}?watch=1", widgets("v1"))).await;
    assert_eq!(events.brief().await, "ADDED old");

    let color = json!({"type": "object", "properties": {"color": {"type": "string", "default": "red"}}});
    let versions = json!([version("v1", true, &color)]);
    let one = format!("{DEFINITIONS}/widgets.example.com");
    client.merge(&one, &json!({"spec": {"versions": versions}})).await.expect(200);
    assert_eq!(events.next().await, None, "watches of the old schema end");
    // The stored object has a size and no color: reads prune the one and default the other.
    let want = json!({"color": "red"});
    assert_eq!(client.get(&format!("{}/old", widgets("v1"))).await.expect(200)["spec"], want);
    assert_eq!(client.get(&widgets("v1")).await.expect(200)["items"][0]["spec"], want);
    let mut events = client.watch(&format!("{}?watch=1", widgets("v1"))).await;
    assert_eq!(events.next().await.unwrap()["object"]["spec"], want);
    client.post(&widgets("v1"), &widget("v1", "new", &json!({}))).await.expect(201);
    assert_eq!(events.next().await.unwrap()["object"]["spec"], want);
}

#[tokio::test]
async fn definitions_and_objects_survive_a_restart() {
    let client = Client::new().await;
    let widths = json!({"type": "object", "properties": {"size": {"type": "integer", "default": 3}}});
    client.post(DEFINITIONS, &definition(&json!([version("v1", true, &widths)]))).await.expect(201);
    client.post(&widgets("v1"), &widget("v1", "a", &json!({}))).await.expect(201);
    let before = client.get(&widgets("v1")).await;
    let after = client.restarted().await.get(&widgets("v1")).await;
    assert_eq!(after.expect(200)["items"], before.expect(200)["items"]);
}

#[tokio::test]
async fn the_cleanup_of_a_definition_leaves_its_successor_alone() {
    let client = Client::new().await;
    let versions = json!([version("v1", true, &size())]);
    client.post(DEFINITIONS, &definition(&versions)).await.expect(201);
    let mut held = widget("v1", "held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    client.post(&widgets("v1"), &held).await.expect(201);
    let one = format!("{DEFINITIONS}/widgets.example.com");
    client.delete(&one).await.expect(200);
    client.merge(&one, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    client.post(DEFINITIONS, &definition(&versions)).await.expect(201);
    client.post(&widgets("v1"), &widget("v1", "mine", &json!({}))).await.expect(201);
    let mut events = client.watch(&format!("{}?watch=1", widgets("v1"))).await;
    assert_eq!([events.brief().await, events.brief().await], ["ADDED held", "ADDED mine"]);
    client.merge(&format!("{}/mine", widgets("v1")), &json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    assert_eq!(events.brief().await, "MODIFIED mine", "it is not deleted");
}

#[tokio::test]
async fn a_definition_of_a_built_in_resource_serves_and_removes_nothing() {
    let client = Client::new().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": [],
    });
    client.post(roles, &role).await.expect(201);
    let mut bad = definition(&json!([version("v7", true, &size())]));
    bad["metadata"] = json!({
        "name": "roles.rbac.authorization.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
    });
    bad["spec"]["group"] = json!("rbac.authorization.k8s.io");
    bad["spec"]["names"] = json!({"plural": "roles", "kind": "Rolle"});
    client.post(DEFINITIONS, &bad).await.expect(201);
    assert_eq!(client.get("/apis/rbac.authorization.k8s.io/v7/roles").await.code, 404);
    let one = format!("{DEFINITIONS}/roles.rbac.authorization.k8s.io");
    client.delete(&one).await.expect(200);
    client.gone(&one).await;
    assert_eq!(client.get(&format!("{roles}/r")).await.code, 200);
}
