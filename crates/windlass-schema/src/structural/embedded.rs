//! Validation of `apiVersion`, `kind` and `metadata` of embedded resources.

use serde_json::{Map, Value};

use super::{Additional, Structural};
use crate::field::{ErrorKind, ErrorList, FieldError, Path, show};
use crate::names;
use crate::object_meta::validate_object_meta;

impl Structural {
    /// Validates embedded resources, and the value itself if it is one. Their metadata must already be coerced.
    pub fn validate_embedded(&self, path: &Path, value: &Value, resource_root: bool) -> ErrorList {
        let mut errors = Vec::new();
        below(path, value, self, resource_root, &mut errors);
        errors
    }
}

fn below(path: &Path, value: &Value, schema: &Structural, root: bool, errors: &mut ErrorList) {
    if !root && !schema.may_embed() {
        return;
    }
    match value {
        Value::Object(map) => {
            if root || schema.embedded_resource {
                resource(path, map, errors);
            }
            for (name, value) in map {
                if !(value.is_object() || value.is_array()) {
                    continue;
                }
                if let Some(property) = schema.properties.get(name) {
                    if property.may_embed() {
                        below(&path.child(name), value, property, false, errors);
                    }
                } else if let Additional::Schema(schema) = &schema.additional {
                    below(&path.key(name), value, schema, false, errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(element) = schema.items.as_deref()
                && element.may_embed()
            {
                for (index, item) in items.iter().enumerate() {
                    below(&path.index(index), item, element, false, errors);
                }
            }
        }
        _ => {}
    }
}

fn resource(path: &Path, map: &Map<String, Value>, errors: &mut ErrorList) {
    for name in ["apiVersion", "kind"] {
        if !map.contains_key(name) {
            errors.push(FieldError::required(&path.child(name), ""));
        }
    }
    if let Some(value) = map.get("apiVersion") {
        type_text(&path.child("apiVersion"), value, errors, |text| {
            (text.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {text}"))
        });
    }
    if let Some(value) = map.get("kind") {
        type_text(&path.child("kind"), value, errors, |text| {
            let messages = names::is_dns1035_label(&text.to_lowercase());
            (!messages.is_empty())
                .then(|| format!("may have mixed case, but should otherwise match: {}", messages.join(",")))
        });
    }
    if let Some(Value::Object(meta)) = map.get("metadata") {
        let place = path.child("metadata");
        let namespaced = meta.get("namespace").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        let found = validate_object_meta(meta, namespaced, names::name_is_path_segment, &place);
        // An embedded resource needs no name.
        let name = place.child("name").to_string();
        errors.extend(found.into_iter().filter(|error| error.kind != ErrorKind::Required || error.field != name));
    }
}

/// Validates a field that must be a non-empty string and satisfy another rule.
fn type_text(path: &Path, value: &Value, errors: &mut ErrorList, rule: impl Fn(&str) -> Option<String>) {
    let detail = match value {
        Value::String(text) if text.is_empty() => Some("must not be empty".to_owned()),
        Value::String(text) => rule(text),
        _ => Some("must be a string".to_owned()),
    };
    if let Some(detail) = detail {
        errors.push(FieldError { kind: ErrorKind::Invalid, field: path.to_string(), value: Some(show(value)), detail });
    }
}
