//! Validation of an object's `metadata` on create and update.
//!
//! Messages, paths and order are those of kube-apiserver; maps, which it visits in random order, are visited by key.

use serde_json::{Map, Value};

use crate::field::{ErrorKind, ErrorList, FieldError, Path, quote};
use crate::go_format::is_printable;
use crate::names::{self, NameRule};
use crate::time;

/// Maximum total size of an object's annotations in bytes.
pub const ANNOTATIONS_MAX_BYTES: usize = 256 << 10;

/// The message for a change to an immutable field.
pub const IMMUTABLE: &str = "field is immutable";

const FIELD_MANAGER_MAX_BYTES: usize = 128;
const SUBRESOURCE_MAX_BYTES: usize = 256;
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(map: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    map.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn object<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Map<String, Value>> {
    map.get(key).and_then(Value::as_object)
}

/// Adds one error for each message.
fn each_invalid(path: &Path, value: &str, messages: Vec<String>, errors: &mut ErrorList) {
    errors.extend(messages.into_iter().map(|message| FieldError::invalid(path, &Value::from(value), message)));
}

/// Validates the metadata of a new object, whose name has already been generated if necessary.
pub fn validate_object_meta(meta: &Map<String, Value>, namespaced: bool, rule: NameRule, path: &Path) -> ErrorList {
    let mut errors = Vec::new();
    let generate = text(meta, "generateName");
    if !generate.is_empty() {
        each_invalid(&path.child("generateName"), generate, rule(generate, true), &mut errors);
    }
    let name = text(meta, "name");
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), "name or generateName is required"));
    } else {
        each_invalid(&path.child("name"), name, rule(name, false), &mut errors);
    }
    let namespace = text(meta, "namespace");
    let namespace_path = path.child("namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(FieldError::required(&namespace_path, "")),
        (true, false) => {
            each_invalid(&namespace_path, namespace, names::name_is_dns_label(namespace, false), &mut errors);
        }
        (false, false) => errors.push(FieldError::forbidden(&namespace_path, "not allowed on this type")),
        (false, true) => {}
    }
    errors.extend(validate_nonnegative(meta.get("generation"), &path.child("generation")));
    errors.extend(validate_labels(object(meta, "labels"), &path.child("labels")));
    errors.extend(validate_annotations(object(meta, "annotations"), &path.child("annotations")));
    errors.extend(validate_owner_references(list(meta, "ownerReferences"), &path.child("ownerReferences")));
    errors.extend(validate_finalizers(list(meta, "finalizers"), &path.child("finalizers")));
    errors.extend(validate_managed_fields(list(meta, "managedFields"), &path.child("managedFields")));
    errors
}

/// Validates the metadata of an updated object against the stored one.
pub fn validate_object_meta_update(new: &Map<String, Value>, old: &Map<String, Value>, path: &Path) -> ErrorList {
    let mut errors = Vec::new();
    if old.get("deletionTimestamp").is_some_and(|v| !v.is_null()) {
        errors.extend(validate_no_new_finalizers(
            list(new, "finalizers"),
            list(old, "finalizers"),
            &path.child("finalizers"),
        ));
    }
    let version = text(new, "resourceVersion");
    if version.is_empty() {
        let path = path.child("resourceVersion");
        errors.push(FieldError::invalid(&path, &Value::from(version), "must be specified for an update"));
    }
    let generation = |map: &Map<String, Value>| map.get("generation").and_then(Value::as_i64).unwrap_or_default();
    if generation(new) < generation(old) {
        let value = Value::from(generation(new));
        errors.push(FieldError::invalid(&path.child("generation"), &value, "must not be decremented"));
    }
    for field in ["name", "namespace", "uid"] {
        if text(new, field) != text(old, field) {
            errors.push(FieldError::invalid(&path.child(field), &Value::from(text(new, field)), IMMUTABLE));
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp"] {
        if !same_time(text(new, field), text(old, field)) {
            let value = new.get(field).unwrap_or(&Value::Null);
            errors.push(FieldError::invalid(&path.child(field), value, IMMUTABLE));
        }
    }
    let field = "deletionGracePeriodSeconds";
    errors.extend(validate_immutable(new.get(field), old.get(field), &path.child(field)));
    errors.extend(validate_labels(object(new, "labels"), &path.child("labels")));
    errors.extend(validate_annotations(object(new, "annotations"), &path.child("annotations")));
    errors.extend(validate_owner_references(list(new, "ownerReferences"), &path.child("ownerReferences")));
    errors.extend(validate_managed_fields(list(new, "managedFields"), &path.child("managedFields")));
    errors
}

fn same_time(new: &str, old: &str) -> bool {
    new == old || matches!((time::parse_rfc3339(new), time::parse_rfc3339(old)), (Ok(a), Ok(b)) if a == b)
}

/// Returns `field is immutable` if the two differ; an absent value equals null.
pub fn validate_immutable(new: Option<&Value>, old: Option<&Value>, path: &Path) -> ErrorList {
    let (new, old) = (new.unwrap_or(&Value::Null), old.unwrap_or(&Value::Null));
    if new == old { Vec::new() } else { vec![FieldError::invalid(path, new, IMMUTABLE)] }
}

/// Returns `must be greater than or equal to 0` for a negative integer.
pub fn validate_nonnegative(value: Option<&Value>, path: &Path) -> ErrorList {
    match value {
        Some(value) if value.as_i64().is_some_and(|n| n < 0) => {
            vec![FieldError::invalid(path, value, "must be greater than or equal to 0")]
        }
        _ => Vec::new(),
    }
}

/// Validates the keys and values of labels.
pub fn validate_labels(labels: Option<&Map<String, Value>>, path: &Path) -> ErrorList {
    let mut errors = Vec::new();
    for (key, value) in labels.into_iter().flatten() {
        errors.extend(validate_label_name(key, path));
        let value = value.as_str().unwrap_or_default();
        each_invalid(path, value, names::is_valid_label_value(value), &mut errors);
    }
    errors
}

/// Validates the key of a label.
pub fn validate_label_name(name: &str, path: &Path) -> ErrorList {
    let mut errors = Vec::new();
    each_invalid(path, name, names::is_qualified_name(name), &mut errors);
    errors
}

/// Validates the keys of annotations and their total size.
pub fn validate_annotations(annotations: Option<&Map<String, Value>>, path: &Path) -> ErrorList {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in annotations.into_iter().flatten() {
        each_invalid(path, key, names::is_qualified_name(&key.to_lowercase()), &mut errors);
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_MAX_BYTES {
        errors.push(FieldError::too_long(path, ANNOTATIONS_MAX_BYTES));
    }
    errors
}

/// Validates owner references: each complete, at most one of them the controller.
pub fn validate_owner_references(references: &[Value], path: &Path) -> ErrorList {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    for reference in references.iter().filter_map(Value::as_object) {
        validate_owner_reference(reference, path, &mut errors);
        if reference.get("controller").and_then(Value::as_bool) != Some(true) {
            continue;
        }
        let current = format!("{}/{}", text(reference, "kind"), text(reference, "name"));
        match &controller {
            None => controller = Some(current),
            Some(first) => {
                let all: Vec<_> = references.iter().filter_map(Value::as_object).map(show_owner_reference).collect();
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and \
                     {current}"
                );
                errors.push(invalid_shown(path, format!("[{}]", all.join(",")), detail));
            }
        }
    }
    errors
}

fn validate_owner_reference(reference: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    let api_version = text(reference, "apiVersion");
    let (group, version) = match api_version.split_once('/') {
        _ if api_version == "/" => ("", ""),
        None => ("", api_version),
        Some((_, version)) if version.contains('/') => ("", ""),
        Some(parts) => parts,
    };
    if version.is_empty() {
        let path = path.child("apiVersion");
        errors.push(FieldError::invalid(&path, &Value::from(api_version), "version must not be empty"));
    }
    for field in ["kind", "name", "uid"] {
        if text(reference, field).is_empty() {
            errors.push(FieldError::invalid(&path.child(field), &Value::from(""), "must not be empty"));
        }
    }
    if group.is_empty() && version == "v1" && text(reference, "kind") == "Event" {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(invalid_shown(path, show_owner_reference(reference), detail.to_owned()));
    }
}

fn invalid_shown(path: &Path, value: String, detail: String) -> FieldError {
    FieldError { kind: ErrorKind::Invalid, field: path.to_string(), value: Some(value), detail }
}

/// Formats an owner reference as JSON with its fields in declaration order.
fn show_owner_reference(reference: &Map<String, Value>) -> String {
    let mut parts: Vec<_> = ["apiVersion", "kind", "name", "uid"]
        .iter()
        .map(|field| format!("\"{field}\":{}", Value::from(text(reference, field))))
        .collect();
    for field in ["controller", "blockOwnerDeletion"] {
        if let Some(value) = reference.get(field).filter(|v| !v.is_null()) {
            parts.push(format!("\"{field}\":{value}"));
        }
    }
    format!("{{{}}}", parts.join(","))
}

/// Validates the names of finalizers, and that the two propagation finalizers are not used together.
pub fn validate_finalizers(finalizers: &[Value], path: &Path) -> ErrorList {
    let mut errors = Vec::new();
    let names: Vec<_> = finalizers.iter().filter_map(Value::as_str).collect();
    for name in &names {
        each_invalid(path, name, names::is_qualified_name(name), &mut errors);
    }
    if names.contains(&ORPHAN) && names.contains(&FOREGROUND) {
        let detail = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        errors.push(FieldError::invalid(path, &Value::from(finalizers), detail));
    }
    errors
}

fn validate_no_new_finalizers(new: &[Value], old: &[Value], path: &Path) -> ErrorList {
    let mut extra: Vec<_> = new.iter().filter(|name| !old.contains(name)).filter_map(Value::as_str).collect();
    if extra.is_empty() {
        return Vec::new();
    }
    extra.sort_unstable();
    extra.dedup();
    let list: Vec<_> = extra.into_iter().map(quote).collect();
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        list.join(", ")
    );
    vec![FieldError::forbidden(path, detail)]
}

/// Validates the entries of `managedFields`.
pub fn validate_managed_fields(entries: &[Value], path: &Path) -> ErrorList {
    let mut errors = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let Some(entry) = entry.as_object() else { continue };
        let path = path.index(index);
        let operation = text(entry, "operation");
        if !matches!(operation, "Apply" | "Update") {
            let value = Value::from(operation);
            errors.push(FieldError::invalid(&path.child("operation"), &value, "must be `Apply` or `Update`"));
        }
        let fields_type = text(entry, "fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            let value = Value::from(fields_type);
            errors.push(FieldError::invalid(&path.child("fieldsType"), &value, "must be `FieldsV1`"));
        }
        errors.extend(validate_field_manager(text(entry, "manager"), &path.child("manager")));
        if text(entry, "subresource").len() > SUBRESOURCE_MAX_BYTES {
            errors.push(FieldError::too_long(&path.child("subresource"), SUBRESOURCE_MAX_BYTES));
        }
    }
    errors
}

/// Validates the name of a field manager: at most 128 bytes, printable.
pub fn validate_field_manager(manager: &str, path: &Path) -> ErrorList {
    let mut errors = Vec::new();
    if manager.len() > FIELD_MANAGER_MAX_BYTES {
        errors.push(FieldError::too_long(path, FIELD_MANAGER_MAX_BYTES));
    }
    for (position, c) in manager.char_indices().filter(|(_, c)| !is_printable(*c)) {
        let detail = format!("invalid character U+{:04X} (at position {position})", c as u32);
        errors.push(FieldError::invalid(path, &Value::from(manager), detail));
    }
    errors
}

#[cfg(test)]
mod tests;
