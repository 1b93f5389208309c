//! Reads and deletes everything that an input has stored.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use windlass_store::Entry;

use crate::shared_server::{self, Answer, SharedServer};

/// The attempts to delete all objects: definitions and namespaces take several.
const ROUNDS: usize = 3;

/// Deletes the objects that were not there before the first input. Fails if a stored object of a built-in kind cannot
/// be read, or cannot be deleted although it has no finalizers.
pub(super) async fn remove_new_objects(shared: &SharedServer) {
    for _ in 0..ROUNDS {
        let mut objects = shared.new_objects().await;
        if objects.is_empty() {
            return;
        }
        objects.sort_by_key(|entry| rank(&entry.key));
        for entry in objects {
            remove(shared, &entry).await;
        }
        // Definitions are removed by a task.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    for entry in shared.new_objects().await {
        let object = value(&entry);
        let finalizers = |part: &str| object[part]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        assert!(
            is_custom(&object) || finalizers("metadata") || finalizers("spec"),
            "{} has no finalizers and cannot be deleted: {object}",
            entry.key
        );
    }
}

/// The order of deletion: objects that others depend on come last.
fn rank(key: &str) -> u8 {
    match key {
        _ if key.starts_with("/core/namespaces/") => 2,
        _ if key.contains("/customresourcedefinitions/") => 1,
        _ => 0,
    }
}

fn value(entry: &Entry) -> Value {
    let value = serde_json::from_slice(&entry.value);
    value.unwrap_or_else(|error| panic!("{} is stored, but is not JSON: {error}", entry.key))
}

/// Returns whether an object may be unreadable, because its definition has changed since.
fn is_custom(object: &Value) -> bool {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    !windlass_builtins::table().resources.iter().any(|resource| *resource.group == *group)
}

async fn remove(shared: &SharedServer, entry: &Entry) {
    let object = value(entry);
    let path = path(&entry.key, &object);
    let content = "application/json";
    let read = shared.send(shared_server::request(Method::GET, &path, content, "")).await;
    // Deleting one object may remove others, such as a definition that has waited for it.
    if read.code == 404 && (is_custom(&object) || !shared.has(&entry.key).await) {
        return;
    }
    assert_eq!(read.code, 200, "GET {path}: {}", shown(&read));
    let served: Value = serde_json::from_slice(&read.body).expect("an object must be served as JSON");
    assert_eq!(served["metadata"]["uid"], object["metadata"]["uid"], "GET {path}");
    let options = "?gracePeriodSeconds=0&propagationPolicy=Background";
    let deleted = shared.send(shared_server::request(Method::DELETE, &format!("{path}{options}"), content, "")).await;
    // A namespace that is being deleted is a conflict.
    assert!(matches!(deleted.code, 200 | 202 | 409), "DELETE {path}: {}", shown(&deleted));
    release(shared, &path).await;
}

/// Removes the finalizers of an object, if it still exists and its validation permits it.
async fn release(shared: &SharedServer, path: &str) {
    let read = shared.send(shared_server::request(Method::GET, path, "application/json", "")).await;
    if read.code != 200 {
        return;
    }
    let mut object: Value = serde_json::from_slice(&read.body).expect("an object must be served as JSON");
    if object["kind"] == "Namespace" {
        object["spec"]["finalizers"] = json!([]);
        let finalize = format!("{path}/finalize");
        shared.send(shared_server::request(Method::PUT, &finalize, "application/json", object.to_string())).await;
    }
    let patch = json!({"metadata": {"finalizers": null}}).to_string();
    shared.send(shared_server::request(Method::PATCH, path, "application/merge-patch+json", patch)).await;
}

/// Returns the path of a stored object. Its key is group, resource, namespace if it has one, and name.
fn path(key: &str, object: &Value) -> String {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let root = if api_version.contains('/') { "apis" } else { "api" };
    let parts: Vec<String> = key.split('/').skip(2).map(escaped).collect();
    match &parts[..] {
        [resource, namespace, name] => format!("/{root}/{api_version}/namespaces/{namespace}/{resource}/{name}"),
        [resource, name] => format!("/{root}/{api_version}/{resource}/{name}"),
        _ => panic!("{key} is not the key of an object"),
    }
}

fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

fn shown(answer: &Answer) -> String {
    format!("{} {}", answer.code, String::from_utf8_lossy(&answer.body))
}
