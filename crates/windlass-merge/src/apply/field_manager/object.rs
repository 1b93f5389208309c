//! Accessors for an object and its metadata.

use serde_json::{Map, Value};
use windlass_schema::sorting::Gather as _;

pub(super) fn managed_fields(object: &Value) -> Option<&Vec<Value>> {
    object.get("metadata")?.get("managedFields")?.as_array()
}

pub(super) fn without_managed_fields(object: &Value) -> Value {
    let Value::Object(fields) = object else { return object.clone() };
    let fields = fields.iter().map(|(name, value)| {
        let value = match value {
            Value::Object(metadata) if name == "metadata" => {
                let kept = metadata.iter().filter(|(name, _)| *name != "managedFields");
                Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).gather())
            }
            value => value.clone(),
        };
        (name.clone(), value)
    });
    Value::Object(fields.gather())
}

pub(super) fn take_managed_fields(object: &mut Value) -> Option<Vec<Value>> {
    match object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")? {
        Value::Array(entries) => Some(entries),
        _ => None,
    }
}

pub(super) fn set_managed_fields(object: &mut Value, entries: Option<Value>) {
    let Some(object) = object.as_object_mut() else { return };
    let Some(entries) = entries else {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        return;
    };
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("managedFields".to_owned(), entries);
    }
}

pub(super) fn uid(object: &Value) -> &str {
    object.get("metadata").map_or("", |metadata| text(metadata, "uid"))
}

pub(super) fn text<'v>(object: &'v Value, name: &str) -> &'v str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Formats an object for error messages: `namespace/name; group/version, Kind=kind`.
pub(super) fn describe(object: &Value) -> String {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let kind = group_version_kind(text(object, "apiVersion"), text(object, "kind"));
    format!("{}/{}; {kind}", text(metadata, "namespace"), text(metadata, "name"))
}

pub(super) fn group_version_kind(api_version: &str, kind: &str) -> String {
    match api_version.split_once('/') {
        None => format!("/{api_version}, Kind={kind}"),
        Some((_, version)) if version.contains('/') => "/, Kind=".to_owned(),
        Some(_) => format!("{api_version}, Kind={kind}"),
    }
}
