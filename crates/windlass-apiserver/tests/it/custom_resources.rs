//! Custom resources: pruned, defaulted, validated, and served through every version.

use http::Method;
use serde_json::{Value, json};

use crate::{
    client::{Client, names},
    definitions::{DEFINITIONS, definition, version, widget, widgets},
};

fn schema() -> Value {
    json!({
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1},
            "replicas": {"type": "integer", "default": 2},
            "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        },
        "x-kubernetes-validations": [
            {"rule": "self.replicas <= self.size", "message": "too many replicas"},
            {"rule": "self.color == oldSelf.color", "message": "the color stays"},
        ],
    })
}

async fn with_widgets() -> Client {
    let client = Client::new().await;
    let mut v1 = version("v1", true, &schema());
    v1["subresources"]["scale"] =
        json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    v1["additionalPrinterColumns"] = json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]);
    v1["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
    client.post(DEFINITIONS, &definition(&json!([v1]))).await.expect(201);
    client
}

#[tokio::test]
async fn bodies_are_pruned_and_defaulted_with_warnings() {
    let client = with_widgets().await;
    let created = client.post(&widgets("v1"), &widget("v1", "a", &json!({"size": 5, "extra": 1}))).await;
    let warning = created.headers["warning"].to_str().unwrap().to_owned();
    assert_eq!(warning, r#"299 - "unknown field \"spec.extra\"""#);
    let created = created.expect(201);
    assert_eq!(created["spec"], json!({"size": 5, "replicas": 2, "color": "red"}));
    assert_eq!(created["metadata"]["generation"], 1);
    let strict = format!("{}?fieldValidation=Strict", widgets("v1"));
    let rejected = client.post(&strict, &widget("v1", "b", &json!({"size": 5, "extra": 1}))).await;
    assert!(
        rejected.message().contains(r#"strict decoding error: unknown field "spec.extra""#),
        "{}",
        rejected.message()
    );
}

#[tokio::test]
async fn schema_and_rules_are_enforced() {
    let client = with_widgets().await;
    let post = |spec: Value| {
        let client = &client;
        async move { client.post(&widgets("v1"), &widget("v1", "a", &spec)).await }
    };
    let rejected = post(json!({"size": 0, "color": "green"})).await;
    assert_eq!(rejected.code, 422);
    let causes = rejected.json()["details"]["causes"].as_array().unwrap().clone();
    let fields: Vec<&str> = causes.iter().filter_map(|cause| cause["field"].as_str()).collect();
    assert_eq!(fields, ["spec.color", "spec.size", "<nil>"], "rules skip values of the wrong type");
    let rejected = post(json!({"size": 1})).await;
    assert!(rejected.message().contains("spec: Invalid value: too many replicas"), "{}", rejected.message());
    post(json!({"size": 9})).await.expect(201);
    let path = format!("{}/a", widgets("v1"));
    let rejected = client.merge(&path, &json!({"spec": {"color": "blue"}})).await;
    assert!(rejected.message().contains("the color stays"), "{}", rejected.message());
    assert_eq!(client.merge(&path, &json!({"spec": {"size": 8}})).await.expect(200)["metadata"]["generation"], 2);
    let rejected = client.merge(&path, &json!({"apiVersion": "example.com/v9"})).await;
    assert_eq!(rejected.code, 422);
    assert!(rejected.message().contains("apiVersion: Invalid value: \"example.com/v9\": must be "));
    let list = [("accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")];
    let answer = client.ask(Method::GET, &path, &list, "").await;
    assert_eq!(answer.expect(500)["message"], "content is not a list");
}

#[tokio::test]
async fn status_and_scale_are_written_apart() {
    let client = with_widgets().await;
    client.post(&widgets("v1"), &widget("v1", "a", &json!({"size": 9}))).await.expect(201);
    let path = format!("{}/a", widgets("v1"));
    let body = json!({"spec": {"size": 1}, "status": {"replicas": 4}});
    let answer = client.merge(&format!("{path}/status"), &body).await.expect(200);
    assert_eq!((&answer["spec"]["size"], &answer["status"]["replicas"]), (&json!(9), &json!(4)));
    assert_eq!(answer["metadata"]["generation"], 1, "a status does not count");
    let answer = client.merge(&path, &json!({"status": {"replicas": 0}})).await.expect(200);
    assert_eq!(answer["status"]["replicas"], 4);
    let scale = client.merge(&format!("{path}/scale"), &json!({"spec": {"replicas": 6}})).await.expect(200);
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&json!(6), &json!(4)));
    assert_eq!(client.get(&path).await.expect(200)["spec"]["replicas"], 6);
    let rejected = client.merge(&format!("{path}/scale"), &json!({"spec": {"replicas": 10}})).await;
    assert!(rejected.message().contains("too many replicas"), "{}", rejected.message());
}

#[tokio::test]
async fn columns_and_selectable_fields_come_from_the_definition() {
    let client = with_widgets().await;
    for (name, color) in [("a", "red"), ("b", "blue")] {
        client.post(&widgets("v1"), &widget("v1", name, &json!({"size": 5, "color": color}))).await.expect(201);
    }
    let blue = client.get(&format!("{}?fieldSelector=spec.color%3Dblue", widgets("v1"))).await.expect(200);
    assert_eq!(names(&blue), ["b"]);
    let unknown = client.get(&format!("{}?fieldSelector=spec.size%3D5", widgets("v1"))).await;
    assert_eq!(unknown.message(), "field label not supported: spec.size");
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let table = client.ask(Method::GET, &widgets("v1"), &table, "").await.expect(200);
    assert_eq!(table["columnDefinitions"][1]["name"], "Size");
    assert_eq!(table["rows"][0]["cells"], json!(["a", 5]));
}

#[tokio::test]
async fn the_schema_is_published() {
    let client = with_widgets().await;
    let document = client.get("/openapi/v3/apis/example.com/v1").await.expect(200);
    let widget = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(widget["properties"]["spec"]["properties"]["size"]["minimum"], 1);
    let document = client.get("/openapi/v2").await.expect(200);
    assert!(document["definitions"]["com.example.v1.Widget"].is_object());
    assert!(document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}/scale"].is_object());
    let index = client.get("/openapi/v3").await.expect(200);
    assert!(index["paths"]["apis/example.com/v1"]["serverRelativeURL"].is_string());
}

#[tokio::test]
async fn a_write_through_another_version_is_stored_complete() {
    let client = Client::new().await;
    let old = json!({"type": "object", "properties": {"a": {"type": "integer", "default": 1}}});
    let new = json!({"type": "object", "properties": {"b": {"type": "integer"}}});
    let versions = json!([version("v1", true, &old), version("v2", false, &new)]);
    client.post(DEFINITIONS, &definition(&versions)).await.expect(201);
    let created = client.post(&widgets("v2"), &widget("v2", "w", &json!({"b": 5}))).await.expect(201);
    assert_eq!(created["apiVersion"], "example.com/v2");
    // Fields that the storage version does not have are not stored; its defaults are.
    assert_eq!(client.get(&widgets("v1")).await.expect(200)["items"][0]["spec"], json!({"a": 1}));
    assert_eq!(client.get(&widgets("v2")).await.expect(200)["items"][0]["spec"], json!({}));
}

#[tokio::test]
async fn a_changed_storage_version_is_served_at_once() {
    let client = with_widgets().await;
    client.post(&widgets("v1"), &widget("v1", "old", &json!({"size": 5}))).await.expect(201);
    let versions = json!([version("v1", false, &schema()), version("v2", true, &schema())]);
    let one = format!("{DEFINITIONS}/widgets.example.com");
    let changed = client.merge(&one, &json!({"spec": {"versions": versions}})).await.expect(200);
    assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v2"]));
    client.post(&widgets("v1"), &widget("v1", "new", &json!({"size": 5}))).await.expect(201);
    for served in ["v1", "v2"] {
        let list = client.get(&widgets(served)).await.expect(200);
        let versions: Vec<_> =
            list["items"].as_array().unwrap().iter().map(|item| item["apiVersion"].clone()).collect();
        assert_eq!(versions, [format!("example.com/{served}"), format!("example.com/{served}")]);
    }
}
