//! Kinds with several versions.

use std::sync::Arc;

use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use schemars::JsonSchema;
use serde_json::{Value, json};
use windlass_apiserver::{
    Server,
    authentication::{AuthenticationOptions, RequestHeaderOptions},
};
use windlass_extension::{Extension, Kind, certificates::ServingCertificate};
use windlass_store::MemoryStore;

#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
struct Text {
    size: String,
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
struct Number {
    size: i64,
}

fn extension() -> Extension {
    let kind = Kind::of::<Number>("sea.example.com", "v1", "Boat", "boats");
    let old = Kind::of::<Text>("sea.example.com", "v1beta1", "Boat", "boats");
    Extension::new("sea").plain_kind(&old).plain_kind(&kind).convert("boats.sea.example.com", |object, to| {
        let mut object = object.clone();
        object["apiVersion"] = to.into();
        object["size"] = match &object["size"] {
            Value::String(size) => size.parse::<i64>().map_err(|error| format!("size {size}: {error}"))?.into(),
            size => size.to_string().into(),
        };
        Ok(object)
    })
}

fn boats(client: Client, version: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("sea.example.com", version, "Boat"));
    Api::namespaced_with(client, "any", &resource)
}

fn boat(version: &str, name: &str, size: Value) -> DynamicObject {
    let boat = json!({"apiVersion": format!("sea.example.com/{version}"), "kind": "Boat", "metadata": {"name": name},
        "size": size});
    serde_json::from_value(boat).unwrap()
}

#[tokio::test]
async fn a_function_converts_between_the_versions_of_a_kind() {
    let certificate = ServingCertificate::issue(&["sea.default.svc".to_owned()]).unwrap();
    let authentication = AuthenticationOptions {
        request_header: Some(RequestHeaderOptions::new(certificate.authority.clone())),
        ..AuthenticationOptions::default()
    };
    let main = Server::builder(Arc::new(MemoryStore::new())).authentication(authentication).build().await.unwrap();
    let running = extension().start(main.client(), &certificate).await.unwrap();
    let (new, old) = (boats(running.client(), "v1"), boats(running.client(), "v1beta1"));
    old.create(&PostParams::default(), &boat("v1beta1", "a", json!("7"))).await.unwrap();
    assert_eq!(new.get("a").await.unwrap().data["size"], 7);
    let created = new.create(&PostParams::default(), &boat("v1", "b", json!(8))).await.unwrap();
    assert_eq!((&created.data["size"], &old.get("b").await.unwrap().data["size"]), (&json!(8), &json!("8")));
    // It is stored in the version that was added first, so it fails only when it is read in the other one.
    old.create(&PostParams::default(), &boat("v1beta1", "c", json!("big"))).await.unwrap();
    let failed = new.get("c").await.unwrap_err().to_string();
    let expected = "conversion of sea.example.com/v1beta1, Kind=Boat to sea.example.com/v1 failed: size big";
    assert!(failed.contains(expected), "{failed}");
}

#[test]
fn the_preferred_version_is_the_first() {
    let versions = extension().group_versions();
    assert_eq!(json!(versions), json!([["sea.example.com", "v1"], ["sea.example.com", "v1beta1"]]));
}
