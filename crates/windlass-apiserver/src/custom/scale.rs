//! The scale of a custom resource: a view of the fields that its CustomResourceDefinition names.

use serde_json::{Value, json};
use windlass_builtins::kinds::custom_resource_definition::Scale;
use windlass_schema::go_format;

use crate::{
    meta,
    status::{ApiError, Result},
};

/// The value for replicas that are not set while a scale is written; no replica count is that low.
const NOT_SET: i64 = i32::MIN as i64;

/// Returns the scale of an object; the object must have its replicas set.
pub(crate) fn of(scale: &Scale, object: &Value) -> Result<Value> {
    let view = view(scale, object)?;
    if view["spec"]["replicas"] == NOT_SET {
        let path = &scale.spec_replicas_path;
        return Err(ApiError::internal(format!("the spec replicas field \"{path}\" does not exist")));
    }
    Ok(shown(view))
}

/// Returns a scale as clients see it: without replicas that are zero or not set.
pub(crate) fn shown(mut view: Value) -> Value {
    if let Some(spec) = view["spec"].as_object_mut() {
        spec.retain(|_, replicas| *replicas != 0 && *replicas != NOT_SET);
    }
    view
}

/// Returns the scale of an object, to be changed and written back.
pub(crate) fn view(scale: &Scale, object: &Value) -> Result<Value> {
    let replicas = integer(object, &scale.spec_replicas_path).map_err(ApiError::unexpected)?;
    let ready = integer(object, &scale.status_replicas_path).map_err(ApiError::unexpected)?;
    let metadata = &object["metadata"];
    let mut view = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {},
        "spec": {"replicas": replicas.unwrap_or(NOT_SET)},
        "status": {"replicas": ready.unwrap_or(0)},
    });
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if !metadata[field].is_null() {
            view["metadata"][field] = metadata[field].clone();
        }
    }
    if let Some(path) = &scale.label_selector_path {
        let selector = text(object, path).map_err(ApiError::unexpected)?;
        if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
            view["status"]["selector"] = selector.into();
        }
    }
    Ok(view)
}

/// Returns the object with the replicas of a scale.
pub(crate) fn write(scale: &Scale, object: &Value, view: &Value) -> Result<Value> {
    let replicas = view["spec"]["replicas"].as_i64().unwrap_or(0);
    let path = &scale.spec_replicas_path;
    if replicas == NOT_SET {
        return Err(ApiError::bad_request(format!("the spec replicas field \"{path}\" cannot be empty")));
    }
    let mut object = object.clone();
    let mut at = &mut object;
    for name in segments(path) {
        if at.is_null() {
            *at = json!({});
        }
        let Some(map) = at.as_object_mut() else {
            return Err(ApiError::unexpected(format!("value cannot be set because {path} is not a map")));
        };
        at = map.entry(name).or_insert(Value::Null);
    }
    *at = replicas.into();
    let version = meta::text(view, "resourceVersion");
    if !version.is_empty() {
        meta::set(&mut object, "resourceVersion", version.to_owned());
    }
    Ok(object)
}

/// Returns the names of a path such as `.spec.replicas`.
pub(super) fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('.').unwrap_or(path).split('.')
}

/// Returns the value at a path; `None` if there is none.
fn find<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let mut at = object;
    let mut passed = String::new();
    for name in segments(path) {
        passed = format!("{passed}.{name}");
        match at {
            Value::Null => return Ok(None),
            Value::Object(map) => match map.get(name) {
                Some(value) => at = value,
                None => return Ok(None),
            },
            other => return Err(wrong(&passed, other, "map[string]interface{}")),
        }
    }
    Ok(Some(at))
}

/// Returns the integer at a path.
pub(super) fn integer(object: &Value, path: &str) -> Result<Option<i64>, String> {
    match find(object, path)? {
        None => Ok(None),
        Some(value) => value.as_i64().map(Some).ok_or_else(|| wrong(path, value, "int64")),
    }
}

/// Returns the text at a path.
pub(super) fn text<'a>(object: &'a Value, path: &str) -> Result<Option<&'a str>, String> {
    match find(object, path)? {
        None => Ok(None),
        Some(value) => value.as_str().map(Some).ok_or_else(|| wrong(path, value, "string")),
    }
}

fn wrong(path: &str, value: &Value, expected: &str) -> String {
    let ty = if value.is_null() { "<nil>" } else { go_format::type_name(value) };
    let shown = go_format::plain(value);
    let path = path.strip_prefix('.').unwrap_or(path);
    format!(".{path} accessor error: {shown} is of the type {ty}, expected {expected}")
}
