//! Server-side apply through the server: managed fields and conflicts.

use http::Method;
use serde_json::{Value, json};

use crate::{
    client::{Answer, Client},
    definitions::{DEFINITIONS, definition, version, widgets},
};

async fn with_widgets() -> Client {
    let client = Client::new().await;
    let spec = json!({"type": "object", "properties": {
        "a": {"type": "string"}, "b": {"type": "string"},
        "ports": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
            "items": {"type": "object", "required": ["port"], "properties": {
                "port": {"type": "integer"}, "name": {"type": "string"},
            }},
        },
    }});
    client.post(DEFINITIONS, &definition(&json!([version("v1", true, &spec)]))).await.expect(201);
    client
}

async fn apply(client: &Client, manager: &str, spec: &Value, force: bool) -> Answer {
    let body = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec,
    });
    let path = format!("{}/w?fieldManager={manager}&force={force}", widgets("v1"));
    client.ask(Method::PATCH, &path, &[("content-type", "application/apply-patch+yaml")], body.to_string()).await
}

fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    entries.iter().map(|entry| format!("{} {}", entry["manager"].as_str().unwrap(), entry["fieldsV1"])).collect()
}

#[tokio::test]
async fn an_apply_creates_then_changes_nothing_when_repeated() {
    let client = with_widgets().await;
    let created = apply(&client, "m1", &json!({"a": "1"}), false).await.expect(201);
    assert_eq!(owners(&created), [r#"m1 {"f:spec":{"f:a":{}}}"#]);
    let again = apply(&client, "m1", &json!({"a": "1"}), false).await.expect(200);
    assert_eq!(again, created, "not even the resource version changes");
}

#[tokio::test]
async fn a_map_of_a_custom_resource_that_an_apply_empties_is_invalid() {
    let client = with_widgets().await;
    apply(&client, "m1", &json!({"a": "1"}), false).await.expect(201);
    let status = apply(&client, "m1", &json!({}), false).await.expect(422);
    let expected = "Widget.example.com \"w\" is invalid: spec: Invalid value: \"null\": spec in body must be of type \
                    object: \"null\"";
    assert_eq!(status["message"], expected);
}

#[tokio::test]
async fn a_field_of_another_manager_is_a_conflict_unless_forced() {
    let client = with_widgets().await;
    apply(&client, "m1", &json!({"a": "1", "ports": [{"port": 80, "name": "http"}]}), false).await.expect(201);
    let spec = json!({"a": "2", "ports": [{"port": 80, "name": "web"}, {"port": 81}]});
    let rejected = apply(&client, "m2", &spec, false).await;
    assert_eq!(rejected.code, 409);
    let message = "Apply failed with 2 conflicts: conflicts with \"m1\":\n- .spec.a\n- .spec.ports[port=80].name";
    assert_eq!(rejected.message(), message);
    let forced = apply(&client, "m2", &spec, true).await.expect(200);
    assert_eq!(forced["spec"], spec);
    // A field that the first manager no longer applies stays, because the second owns it.
    let left = apply(&client, "m1", &json!({}), false).await.expect(200);
    assert_eq!(left["spec"], spec);
    let dropped = apply(&client, "m2", &json!({"a": "2"}), false).await.expect(200);
    assert_eq!(dropped["spec"], json!({"a": "2"}), "the rest had no owner");
}

#[tokio::test]
async fn ordinary_writes_own_the_fields_that_they_change() {
    let client = with_widgets().await;
    apply(&client, "m1", &json!({"a": "1", "b": "1"}), false).await.expect(201);
    let path = format!("{}/w?fieldManager=editor", widgets("v1"));
    client.merge(&path, &json!({"spec": {"b": "2"}})).await.expect(200);
    let path = format!("{}/w/status?fieldManager=controller", widgets("v1"));
    let object = client.merge(&path, &json!({"status": {"ready": true}})).await.expect(200);
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let of = |manager: &str| entries.iter().find(|entry| entry["manager"] == manager).unwrap();
    assert_eq!(of("m1")["fieldsV1"], json!({"f:spec": {"f:a": {}}}));
    assert_eq!(of("editor")["fieldsV1"], json!({"f:spec": {"f:b": {}}}));
    assert_eq!(of("controller")["subresource"], "status");
    let rejected = apply(&client, "m1", &json!({"a": "1", "b": "1"}), false).await;
    assert_eq!(
        rejected.message(),
        r#"Apply failed with 1 conflict: conflict with "editor" using example.com/v1: .spec.b"#
    );
}
