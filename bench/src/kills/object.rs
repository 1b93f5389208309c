//! The objects of the test: small ConfigMaps whose data are the numbers of the writes they consist of.

use anyhow::Context as _;
use serde_json::{Value, json};

use super::history::{Content, EventKind, Key, OpId, Outcome, Version, WatchEvent};

/// The namespace of the objects.
pub(super) const NAMESPACE: &str = "kills";
/// The collection of the objects.
pub(super) const COLLECTION: &str = "/api/v1/namespaces/kills/configmaps";

/// Returns the path of an object.
pub(super) fn path(key: Key) -> String {
    format!("{COLLECTION}/{key}")
}

/// Returns the body of a create.
pub(super) fn create(key: Key, id: OpId, padding: &str) -> Value {
    let id = id.0.to_string();
    let data = json!({"created": id, "put": id, "patch": "0", "last": id, "padding": padding});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": key.to_string()}, "data": data})
}

/// Returns the body of an update of a version.
pub(super) fn update(key: Key, id: OpId, base: &Version, padding: &str) -> Value {
    let Content { created, patch, .. } = base.content;
    let [created, patch, id] = [created, patch, id].map(|id| id.0.to_string());
    let metadata = json!({"name": key.to_string(), "resourceVersion": base.revision.to_string()});
    let data = json!({"created": created, "put": id, "patch": patch, "last": id, "padding": padding});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}

/// Returns a merge patch.
pub(super) fn patch(id: OpId) -> Value {
    json!({"data": {"patch": id.0.to_string(), "last": id.0.to_string()}})
}

/// Parses an object; `None` if it is not one of the test.
pub(super) fn parse(object: &Value) -> anyhow::Result<Option<(Key, Version)>> {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().context("an object must have a name")?;
    let Some(key) = name.strip_prefix("key-").and_then(|number| number.parse().ok()) else { return Ok(None) };
    let number = |field: &str| {
        let text = object["data"][field].as_str().and_then(|text| text.parse().ok());
        text.map(OpId).with_context(|| format!("{name} has no number in data.{field}: {object}"))
    };
    let content =
        Content { created: number("created")?, put: number("put")?, patch: number("patch")?, last: number("last")? };
    let revision = revision(object)?;
    Ok(Some((Key(key), Version { revision, uid: uid(&metadata["uid"])?, content })))
}

/// Returns the resource version of an object or list.
pub(super) fn revision(object: &Value) -> anyhow::Result<u64> {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).with_context(|| format!("no resourceVersion: {object}"))
}

/// Parses a UID.
pub(super) fn uid(uid: &Value) -> anyhow::Result<u128> {
    let digits: String = uid.as_str().unwrap_or_default().split('-').collect();
    u128::from_str_radix(&digits, 16).with_context(|| format!("not a UID: {uid}"))
}

/// Parses a list.
pub(super) fn list(list: &Value) -> anyhow::Result<Outcome> {
    let items = list["items"].as_array().with_context(|| format!("a list has no items: {list}"))?;
    let items = items.iter().filter_map(|item| parse(item).transpose()).collect::<anyhow::Result<_>>()?;
    Ok(Outcome::Listed { revision: revision(list)?, items })
}

/// Parses a line of a watch.
pub(super) fn event(line: &Value, at: u64) -> anyhow::Result<Option<WatchEvent>> {
    let kind = match line["type"].as_str() {
        Some("ADDED") => EventKind::Added,
        Some("MODIFIED") => EventKind::Modified,
        Some("DELETED") => EventKind::Deleted,
        _ => anyhow::bail!("an unknown event: {line}"),
    };
    Ok(parse(&line["object"])?.map(|(key, version)| WatchEvent { kind, key, version, at }))
}
