//! Devices of a slice.

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::names::is_dns1123_label;
use windlass_schema::object_meta::validate_label_name;

use super::capacity;
use crate::diff::same;
use crate::field_errors::FieldErrors;
use crate::kinds::device_claim::{ATTRIBUTE, EFFECTS, label_value, qualified_name, validate_list, validate_set};
use crate::kinds::internal_types::show;
use crate::kinds::pod::validation::scheduling::validate_node_selector;
use crate::kinds::resource_claim::validate_binding_conditions;
use crate::kinds::semantic_version::Version;
use crate::object::{boolean, copy, entries, is_set, items, map, text};

/// The number of attributes and capacities of a device.
const PROPERTIES: usize = 32;
const TAINTS: usize = 16;
const COUNTER_SETS: usize = 2;
const COUNTERS: usize = 32;
/// The length of an attribute's value.
const VALUE: usize = 64;

/// Validates a device; `old` is the device of the same name before an update.
pub(super) fn validate(device: &Value, old: Option<&Value>, selects_nodes: bool, path: &Path, errors: &mut ErrorList) {
    errors.dns_label(&path.child("name"), text(device, "/name"));
    let count = |field| map(device, field).map_or(0, serde_json::Map::len);
    let properties = count("/attributes") + count("/capacity");
    if properties > PROPERTIES {
        let detail = format!("the total number of attributes and capacities must not exceed {PROPERTIES}");
        errors.invalid(path, properties, detail);
    }
    let attributes = path.child("attributes");
    for (key, attribute) in entries(device, "/attributes") {
        qualified_name(&attributes, key, errors);
        validate_attribute(attribute, &attributes.key(key), errors);
    }
    let shared = boolean(device, "/allowMultipleAllocations") == Some(true);
    let capacities = path.child("capacity");
    for (key, capacity) in entries(device, "/capacity") {
        qualified_name(&capacities, key, errors);
        capacity::validate(capacity, shared, &capacities.key(key), errors);
    }
    if old.is_none_or(|old| !same(&copy(old, "/taints"), &copy(device, "/taints"))) {
        validate_list(items(device, "/taints"), TAINTS, &path.child("taints"), errors, validate_taint);
    }
    let used = items(device, "/consumesCounters");
    let set = |used: &Value| text(used, "/counterSet").to_owned();
    validate_set(used, COUNTER_SETS, set, &path.child("consumesCounters"), errors, |used, path, errors| {
        validate_counters(used, "counterSet", path, errors);
    });
    validate_nodes(device, selects_nodes, path, errors);
    validate_binding_conditions(device, path, errors);
}

fn validate_attribute(attribute: &Value, path: &Path, errors: &mut ErrorList) {
    if let Some(value) = attribute.get("string").and_then(Value::as_str)
        && value.len() > VALUE
    {
        errors.push(FieldError::too_long(&path.child("string"), VALUE));
    }
    if let Some(version) = attribute.get("version").and_then(Value::as_str) {
        let path = path.child("version");
        if Version::parse(version).is_none() {
            errors.invalid(&path, version, "must be a string compatible with semver.org spec 2.0.0");
        }
        if version.len() > VALUE {
            errors.push(FieldError::too_long(&path, VALUE));
        }
    }
    let values = ["int", "bool", "string", "version"].iter().filter(|kind| is_set(attribute, &format!("/{kind}")));
    match values.count() {
        0 => errors.invalid(path, "", "exactly one value must be specified"),
        1 => {}
        _ => errors.invalid_shown(path, show(attribute, ATTRIBUTE), "exactly one value must be specified"),
    }
}

/// Validates a taint.
pub(in crate::kinds) fn validate_taint(taint: &Value, path: &Path, errors: &mut ErrorList) {
    errors.extend(validate_label_name(text(taint, "/key"), &path.child("key")));
    let value = text(taint, "/value");
    if !value.is_empty() {
        label_value(&path.child("value"), value, errors);
    }
    errors.one_of(&path.child("effect"), text(taint, "/effect"), &EFFECTS);
}

/// Validates a set of counters; `name` is the field with the name of the set.
pub(super) fn validate_counters(set: &Value, name: &str, path: &Path, errors: &mut ErrorList) {
    match text(set, &format!("/{name}")) {
        "" => errors.required(&path.child(name)),
        text => errors.dns_label(&path.child(name), text),
    }
    let path = path.child("counters");
    match map(set, "/counters").map_or(0, serde_json::Map::len) {
        0 => errors.required(&path),
        count if count > COUNTERS => errors.push(FieldError::too_many(&path, count, COUNTERS)),
        _ => {
            for (counter, _) in entries(set, "/counters") {
                errors.invalid_each(&path, counter, is_dns1123_label(counter));
            }
        }
    }
}

/// Requires exactly one statement about nodes if the slice leaves that to its devices, and none otherwise.
fn validate_nodes(device: &Value, selects_nodes: bool, path: &Path, errors: &mut ErrorList) {
    if !selects_nodes {
        if ["/nodeName", "/nodeSelector", "/allNodes"].iter().any(|field| is_set(device, field)) {
            let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to \
                          true in the ResourceSlice spec";
            errors.invalid(path, Value::Null, detail);
        }
        return;
    }
    let mut stated = Vec::new();
    if let Some(node) = device.get("nodeName").and_then(Value::as_str) {
        let path = path.child("nodeName");
        if node.is_empty() {
            errors.invalid(&path, node, "must not be empty");
        } else {
            stated.push("`nodeName`");
            errors.dns_subdomain(&path, node);
        }
    }
    if is_set(device, "/nodeSelector") {
        stated.push("`nodeSelector`");
        validate_node_selector(&device["nodeSelector"], false, &path.child("nodeSelector"), errors);
    }
    match boolean(device, "/allNodes") {
        Some(true) => stated.push("`allNodes`"),
        Some(false) => errors.invalid(&path.child("allNodes"), false, "must be either unset or set to true"),
        None => {}
    }
    let rule = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to \
                true in the ResourceSlice spec";
    match stated.len() {
        0 => errors.required_because(path, rule),
        1 => {}
        _ => errors.invalid(path, format!("{{{}}}", stated.join(", ")), rule),
    }
}
