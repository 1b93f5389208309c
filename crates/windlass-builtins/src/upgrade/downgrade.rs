//! The reverse conversion: a `v1` CustomResourceDefinition as a `v1beta1` client sees it.
//!
//! Converting the result to `v1` yields the same CRD again. A client that wrote a `v1beta1` manifest reads back its own
//! fields and additional ones, so `kubectl apply` sees that nothing has changed.

use serde_json::{Map, Value, json};

use super::{MOVED, NAMES, NEW, OLD, schema, upgrade};

/// Converts a CustomResourceDefinition from `v1` to `v1beta1`. Other objects are returned unchanged.
pub fn downgrade(mut definition: Value) -> Value {
    if definition.get("apiVersion").and_then(Value::as_str) != Some(NEW) {
        return definition;
    }
    definition["apiVersion"] = OLD.into();
    let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) else { return definition };
    let stored = spec.clone();
    old_versions(spec);
    old_conversion(spec);
    // `v1beta1` had a single field to preserve unknown fields everywhere.
    let mut preserving = definition.clone();
    preserving["spec"]["preserveUnknownFields"] = true.into();
    for_each_schema(&mut preserving["spec"], remove_preserve);
    if upgrade(&preserving).is_ok_and(|again| again.definition["spec"].as_object() == Some(&stored)) {
        return preserving;
    }
    definition["spec"]["preserveUnknownFields"] = false.into();
    definition
}

/// Applies a patch of the `v1beta1` form that sets a field at its old place: names directly in `spec`, or only
/// `version`. The new place, which the patch left as in `before`, is overwritten.
pub fn apply_legacy_fields(patched: &mut Value, before: &Value) {
    let before = &before["spec"];
    let Some(spec) = patched.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for field in NAMES.iter().filter(|field| before.get(**field).is_none()) {
        if spec.get(*field).is_some_and(|value| !value.is_null())
            && let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut)
            && names.get(*field) == before["names"].get(*field)
        {
            names.remove(*field);
        }
    }
    let version = spec.get("version").filter(|version| !version.is_null());
    if version.is_some_and(|version| *version != before["version"]) && spec.get("versions") == before.get("versions") {
        spec.remove("versions");
    }
}

/// Moves the fields that all versions share to the top of the spec, where `v1beta1` had them.
fn old_versions(spec: &mut Map<String, Value>) {
    let Some(Value::Array(mut versions)) = spec.remove("versions") else { return };
    for version in versions.iter_mut().filter_map(Value::as_object_mut) {
        // `upgrade` sets this schema on versions without one.
        if version.get("schema") == Some(&json!({"openAPIV3Schema": {"type": "object", schema::PRESERVE: true}})) {
            version.remove("schema");
        }
        let columns = version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut);
        for column in columns.into_iter().flatten().filter_map(Value::as_object_mut) {
            if let Some(path) = column.remove("jsonPath") {
                column.insert("JSONPath".to_owned(), path);
            }
        }
    }
    for (old, new) in MOVED {
        let Some(common) = versions.first().and_then(|first| first.get(new)).cloned() else { continue };
        if versions.iter().all(|version| version.get(new) == Some(&common)) {
            versions.iter_mut().filter_map(Value::as_object_mut).for_each(|version| drop(version.remove(new)));
            spec.insert(old.to_owned(), common);
        }
    }
    if let Some(first) = versions.first().and_then(|first| first.get("name")) {
        spec.insert("version".to_owned(), first.clone());
    }
    spec.insert("versions".to_owned(), versions.into());
}

/// Moves the settings of the conversion webhook to their old place.
fn old_conversion(spec: &mut Map<String, Value>) {
    let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut) else { return };
    let Some(Value::Object(webhook)) = conversion.remove("webhook") else { return };
    for (field, value) in webhook {
        let old = if field == "clientConfig" { "webhookClientConfig".to_owned() } else { field };
        conversion.insert(old, value);
    }
}

fn for_each_schema(spec: &mut Value, change: fn(&mut Value)) {
    if let Some(validation) = spec.get_mut("validation") {
        change(validation);
    }
    let versions = spec.get_mut("versions").and_then(Value::as_array_mut);
    versions.into_iter().flatten().filter_map(|version| version.get_mut("schema")).for_each(change);
}

/// Removes the keyword everywhere. If that removes too much, the upgrade cannot restore it and the result is discarded.
fn remove_preserve(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.get(schema::PRESERVE) == Some(&Value::Bool(true)) {
                map.remove(schema::PRESERVE);
            }
            map.values_mut().for_each(remove_preserve);
        }
        Value::Array(list) => list.iter_mut().for_each(remove_preserve),
        _ => {}
    }
}
