//! Conversion webhooks, and functions in their place.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_apiserver::{Server, webhooks::ConversionFunction};
use windlass_store::MemoryStore;

use crate::{
    client::{Client, names},
    webhook_server::WebhookServer,
};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const V1: &str = "/apis/example.com/v1/namespaces/default/routes";
const V2: &str = "/apis/example.com/v2/namespaces/default/routes";

fn version(name: &str, storage: bool, field: &str) -> Value {
    let spec = json!({"type": "object", "properties": {field: {"type": "string"}, "port": {"type": "integer"}}});
    json!({
        "name": name, "served": true, "storage": storage, "subresources": {"status": {}},
        "selectableFields": [{"jsonPath": format!(".spec.{field}")}],
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": {
            "type": "object", "properties": {"ready": {"type": "boolean"}}}}}},
    })
}

fn definition(server: &WebhookServer, storage: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "routes.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "routes", "singular": "route", "kind": "Route", "listKind": "RouteList"},
            "versions": [version("v1", storage == "v1", "host"), version("v2", storage == "v2", "address")],
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": server.at("/convert"), "conversionReviewVersions": ["v1"]}},
        },
    })
}

/// Converts `host` of v1 to `address` of v2. An object with the name `broken` cannot be converted.
fn convert(_: &str, review: &Value) -> (u16, Value) {
    let request = &review["request"];
    let to = request["desiredAPIVersion"].as_str().unwrap();
    let mut objects = request["objects"].as_array().unwrap().clone();
    let fails = objects.iter().any(|object| object["metadata"]["name"] == "broken");
    for object in &mut objects {
        object["apiVersion"] = to.into();
        let (old, new) = if to.ends_with("v2") { ("host", "address") } else { ("address", "host") };
        if let Some(value) = object["spec"].as_object_mut().and_then(|spec| spec.remove(old)) {
            object["spec"][new] = value;
        }
    }
    let result = match fails {
        true => json!({"status": "Failure", "message": "it is broken"}),
        false => json!({"status": "Success"}),
    };
    let response = json!({"uid": request["uid"], "convertedObjects": objects, "result": result});
    (200, json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}))
}

async fn start() -> (Client, WebhookServer) {
    let client = Client::new().await;
    let server = WebhookServer::start(&[], convert).await;
    client.post(DEFINITIONS, &definition(&server, "v1")).await.expect(201);
    (client, server)
}

fn route(version: &str, name: &str, field: &str) -> Value {
    json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Route", "metadata": {"name": name},
        "spec": {field: format!("{name}.example.com")},
    })
}

#[tokio::test]
async fn objects_are_read_and_written_in_every_version() {
    let (client, server) = start().await;
    client.post(V1, &route("v1", "one", "host")).await.expect(201);
    let made = client.post(V2, &route("v2", "two", "address")).await.expect(201);
    assert_eq!(made["spec"], json!({"address": "two.example.com"}));
    assert_eq!(client.get(&format!("{V1}/two")).await.expect(200)["spec"], json!({"host": "two.example.com"}));
    assert_eq!(client.get(&format!("{V2}/one")).await.expect(200)["spec"], json!({"address": "one.example.com"}));
    let list = client.get(V2).await.expect(200);
    assert_eq!(names(&list), ["one", "two"]);
    assert_eq!(list["items"][0]["spec"], json!({"address": "one.example.com"}));
    assert_eq!(list["items"][0]["apiVersion"], "example.com/v2");
    let selected = client.get(&format!("{V2}?fieldSelector=spec.address=two.example.com")).await.expect(200);
    assert_eq!(names(&selected), ["two"]);

    // A converted object is not converted again.
    server.take_seen();
    client.get(V2).await.expect(200);
    client.get(&format!("{V2}/one")).await.expect(200);
    client.get(V1).await.expect(200);
    assert_eq!(server.take_seen(), []);
}

#[tokio::test]
async fn updates_keep_fields_of_other_managers() {
    let (client, _server) = start().await;
    client.post(V1, &route("v1", "one", "host")).await.expect(201);
    let one = format!("{V2}/one");
    let changed = client.merge(&one, &json!({"spec": {"port": 80}})).await.expect(200);
    assert_eq!(changed["spec"], json!({"address": "one.example.com", "port": 80}));
    assert_eq!(changed["metadata"]["generation"], 2);
    let mut whole = client.get(&one).await.expect(200);
    whole["spec"]["address"] = "new.example.com".into();
    client.put(&one, &whole).await.expect(200);
    let ready = client.merge(&format!("{one}/status"), &json!({"status": {"ready": true}})).await.expect(200);
    assert_eq!(ready["status"], json!({"ready": true}));
    let stored = client.get(&format!("{V1}/one")).await.expect(200);
    assert_eq!(stored["spec"], json!({"host": "new.example.com", "port": 80}));
    assert_eq!(stored["status"], json!({"ready": true}));

    // An apply in one version sees fields that were set in the other.
    let applied = json!({
        "apiVersion": "example.com/v1", "kind": "Route", "metadata": {"name": "two"}, "spec": {"host": "a"},
    });
    let headers = [("content-type", "application/apply-patch+yaml")];
    let two = format!("{V1}/two?fieldManager=a");
    client.ask(http::Method::PATCH, &two, &headers, applied.to_string()).await.expect(201);
    let other = json!({
        "apiVersion": "example.com/v2", "kind": "Route", "metadata": {"name": "two"}, "spec": {"address": "b"},
    });
    let two = format!("{V2}/two?fieldManager=b");
    let conflict = client.ask(http::Method::PATCH, &two, &headers, other.to_string()).await;
    assert_eq!((conflict.code, conflict.json()["reason"].clone()), (409, json!("Conflict")), "{}", conflict.message());
    client.delete(&format!("{V2}/two")).await.expect(200);
    client.gone(&format!("{V1}/two")).await;
}

#[tokio::test]
async fn watchers_get_the_version_they_ask_for() {
    let (client, _server) = start().await;
    client.post(V1, &route("v1", "one", "host")).await.expect(201);
    let mut events = client.watch(&format!("{V2}?watch=true")).await;
    let first = events.next().await.unwrap();
    assert_eq!((&first["type"], &first["object"]["spec"]), (&json!("ADDED"), &json!({"address": "one.example.com"})));
    client.merge(&format!("{V1}/one"), &json!({"spec": {"host": "x"}})).await.expect(200);
    let changed = events.next().await.unwrap();
    assert_eq!((&changed["type"], &changed["object"]["spec"]), (&json!("MODIFIED"), &json!({"address": "x"})));
    client.delete(&format!("{V1}/one")).await.expect(200);
    let gone = events.next().await.unwrap();
    assert_eq!((&gone["type"], &gone["object"]["spec"]), (&json!("DELETED"), &json!({"address": "x"})));
    assert_eq!(gone["object"]["apiVersion"], "example.com/v2");
}

#[tokio::test]
async fn a_failed_conversion_is_an_error() {
    let (client, _server) = start().await;
    client.post(V1, &route("v1", "broken", "host")).await.expect(201);
    let message = "conversion webhook for example.com/v1, Kind=Route failed: it is broken";
    for answer in [
        client.get(&format!("{V2}/broken")).await,
        client.get(V2).await,
        client.merge(&format!("{V2}/broken"), &json!({"spec": {"port": 1}})).await,
        client.delete(&format!("{V2}/broken")).await,
    ] {
        assert_eq!((answer.code, answer.message()), (500, message.to_owned()));
    }
    let answer = client.post(V2, &route("v2", "broken", "address")).await;
    assert_eq!(answer.message(), "conversion webhook for example.com/v2, Kind=Route failed: it is broken");
    // The CustomResourceDefinition can be deleted nevertheless, together with the object.
    client.delete(&format!("{DEFINITIONS}/routes.example.com")).await.expect(200);
    client.gone(&format!("{DEFINITIONS}/routes.example.com")).await;
}

#[tokio::test]
async fn a_create_whose_conversion_fails_is_not_charged_to_a_quota() {
    let (client, _server) = start().await;
    let (quotas, count) = ("/api/v1/namespaces/default/resourcequotas", "count/routes.example.com");
    let hard = json!({count: "5"});
    client.post(quotas, &json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).await.expect(201);
    let status = json!({"status": {"hard": hard, "used": {count: "0"}}});
    client.merge(&format!("{quotas}/q/status"), &status).await.expect(200);
    assert_eq!(client.post(V2, &route("v2", "broken", "address")).await.code, 500);
    assert_eq!(client.get(&format!("{quotas}/q")).await.expect(200)["status"]["used"][count], "0");
    client.post(V2, &route("v2", "one", "address")).await.expect(201);
    assert_eq!(client.get(&format!("{quotas}/q")).await.expect(200)["status"]["used"][count], "1");
}

#[tokio::test]
async fn objects_from_before_a_change_of_the_storage_version_are_converted() {
    let (client, server) = start().await;
    client.post(V1, &route("v1", "one", "host")).await.expect(201);
    let path = format!("{DEFINITIONS}/routes.example.com");
    let mut changed = definition(&server, "v2");
    changed["metadata"]["resourceVersion"] = client.get(&path).await.expect(200)["metadata"]["resourceVersion"].clone();
    client.put(&path, &changed).await.expect(200);
    assert_eq!(client.get(&format!("{V2}/one")).await.expect(200)["spec"], json!({"address": "one.example.com"}));
    assert_eq!(client.get(&format!("{V1}/one")).await.expect(200)["spec"], json!({"host": "one.example.com"}));
    // A write converts it to the new storage version.
    client.merge(&format!("{V1}/one"), &json!({"spec": {"port": 1}})).await.expect(200);
    server.take_seen();
    let written = client.get(&format!("{V2}/one")).await.expect(200);
    assert_eq!(written["spec"], json!({"address": "one.example.com", "port": 1}));
    assert_eq!(server.take_seen(), []);
}

#[tokio::test]
async fn a_function_converts_in_place_of_the_webhook() {
    let function = ConversionFunction::new(|object, to| {
        let (_, answer) = convert("", &json!({"request": {"desiredAPIVersion": to, "objects": [object]}}));
        match answer["response"]["result"]["message"].as_str() {
            Some(why) => Err(why.to_owned()),
            None => Ok(answer["response"]["convertedObjects"][0].clone()),
        }
    });
    let builder = Server::builder(Arc::new(MemoryStore::new())).conversion("routes.example.com", function);
    let client = Client::of(builder.build().await.unwrap());
    let webhook = WebhookServer::start(&[], convert).await;
    client.post(DEFINITIONS, &definition(&webhook, "v1")).await.expect(201);
    let mut events = client.watch(&format!("{V2}?watch=true")).await;
    client.post(V1, &route("v1", "one", "host")).await.expect(201);
    client.post(V2, &route("v2", "two", "address")).await.expect(201);
    for (path, name, spec) in [
        (V1, "two", json!({"host": "two.example.com"})),
        (V2, "one", json!({"address": "one.example.com"})),
        (V2, "two", json!({"address": "two.example.com"})),
    ] {
        assert_eq!(client.get(&format!("{path}/{name}")).await.expect(200)["spec"], spec, "{path} {name}");
    }
    let changed = client.merge(&format!("{V2}/one"), &json!({"spec": {"port": 80}})).await.expect(200);
    assert_eq!(changed["spec"], json!({"address": "one.example.com", "port": 80}));
    for address in ["one", "two", "one"] {
        let event = events.next().await.unwrap();
        assert_eq!(event["object"]["spec"]["address"], format!("{address}.example.com"), "{event}");
    }

    let failed = client.post(V2, &route("v2", "broken", "address")).await;
    let expected = "conversion of example.com/v2, Kind=Route to example.com/v1 failed: it is broken";
    assert_eq!((failed.code, failed.message().contains(expected)), (500, true), "{}", failed.message());
    assert_eq!(webhook.take_seen(), []);
}
