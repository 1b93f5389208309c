//! ResourceSlices of dynamic resource allocation.

mod capacity;
mod device;

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};

pub(super) use self::device::validate_taint;
use super::device_claim::{driver_name, pool_name, validate_set};
use super::pod::validation::scheduling::validate_node_selector;
use crate::columns::{AGE, Column, NAME, Printer, age, column, name};
use crate::field_errors::FieldErrors;
use crate::object::{boolean, copy, integer, is_set, items, list_mut, remove, set_default, text};
use crate::strategy::{Strategy, WriteContext};
use crate::validate;

/// Strategy of ResourceSlices.
#[derive(Debug, Clone, Copy)]
pub struct ResourceSlice;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

const DEVICES: usize = 128;
/// The number of devices of a slice that uses taints or counters.
const SPECIAL_DEVICES: usize = 64;
const COUNTER_SETS: usize = 8;

impl Strategy for ResourceSlice {
    fn prepare_for_create(&self, object: &mut Value, context: &WriteContext<'_>) {
        prepare(object, context);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validate(object, None)
    }

    fn prepare_for_update(&self, object: &mut Value, _old: &Value, context: &WriteContext<'_>) {
        prepare(object, context);
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        validate(object, Some(old))
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, String)> {
        let field = |pointer| text(object, pointer).to_owned();
        vec![("spec.nodeName", field("/spec/nodeName")), ("spec.driver", field("/spec/driver"))]
    }
}

/// Dates taints, and removes the fields of features that are disabled by default.
fn prepare(object: &mut Value, context: &WriteContext<'_>) {
    let Some(spec) = object.get_mut("spec") else { return };
    for device in list_mut(spec, "devices") {
        remove(device, "/nodeAllocatableResourceMappings");
        for taint in list_mut(device, "taints") {
            set_default(taint, "/timeAdded", context.time());
        }
        let attributes = device.get_mut("attributes").and_then(Value::as_object_mut);
        for attribute in attributes.into_iter().flat_map(|all| all.values_mut()).filter_map(Value::as_object_mut) {
            ["bools", "ints", "strings", "versions"].iter().for_each(|list| drop(attribute.remove(*list)));
        }
    }
}

fn validate(object: &Value, old: Option<&Value>) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    driver_name(&path.child("driver"), text(object, "/spec/driver"), &mut errors);
    let pool = path.child("pool");
    pool_name(&pool.child("name"), text(object, "/spec/pool/name"), &mut errors);
    let count = integer(object, "/spec/pool/resourceSliceCount").unwrap_or_default();
    if count <= 0 {
        errors.invalid(&pool.child("resourceSliceCount"), count, "must be greater than zero");
    }
    let generation = integer(object, "/spec/pool/generation").unwrap_or_default();
    if generation < 0 {
        errors.invalid(&pool.child("generation"), generation, "must be greater than or equal to zero");
    }
    if let Some(old) = old {
        let fields = [("/spec/pool/name", pool.child("name")), ("/spec/driver", path.child("driver"))];
        for (field, path) in fields.into_iter().chain([("/spec/nodeName", path.child("nodeName"))]) {
            errors.extend(validate::immutable(&path, &copy(object, field), &copy(old, field)));
        }
    }
    validate_nodes(object, &path, &mut errors);
    if is_set(object, "/spec/sharedCounters") && is_set(object, "/spec/devices") {
        errors.invalid(&path, "", "only one of `sharedCounters` or `devices` is allowed");
    }
    let devices = items(object, "/spec/devices");
    let uses = |field: &str| devices.iter().any(|device| !items(device, field).is_empty());
    let max = if uses("/taints") || uses("/consumesCounters") { SPECIAL_DEVICES } else { DEVICES };
    let selects_per_device = boolean(object, "/spec/perDeviceNodeSelection") == Some(true);
    let name = |item: &Value| text(item, "/name").to_owned();
    validate_set(devices, max, name, &path.child("devices"), &mut errors, |device, path, errors| {
        let had = old.and_then(|old| items(old, "/spec/devices").iter().find(|had| name(had) == name(device)));
        device::validate(device, had, selects_per_device, path, errors);
    });
    let counters = items(object, "/spec/sharedCounters");
    validate_set(counters, COUNTER_SETS, name, &path.child("sharedCounters"), &mut errors, |set, path, errors| {
        device::validate_counters(set, "name", path, errors);
    });
    errors
}

/// Requires exactly one statement about the nodes that have access to the devices.
fn validate_nodes(object: &Value, path: &Path, errors: &mut ErrorList) {
    let mut stated = Vec::new();
    if let Some(node) = object.pointer("/spec/nodeName").and_then(Value::as_str) {
        let path = path.child("nodeName");
        if node.is_empty() {
            errors.invalid(&path, node, "must be either unset or set to a non-empty string");
        } else {
            stated.push("`nodeName`");
            errors.dns_subdomain(&path, node);
        }
    }
    if is_set(object, "/spec/nodeSelector") {
        stated.push("`nodeSelector`");
        let path = path.child("nodeSelector");
        let selector = &object["spec"]["nodeSelector"];
        validate_node_selector(selector, false, &path, errors);
        let terms = items(selector, "/nodeSelectorTerms");
        if terms.len() != 1 {
            let terms = copy(selector, "/nodeSelectorTerms");
            errors.invalid(&path.child("nodeSelectorTerms"), terms, "must have exactly one node selector term");
        }
    }
    for (field, shown) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")] {
        match boolean(object, &format!("/spec/{field}")) {
            Some(true) => stated.push(shown),
            Some(false) => errors.invalid(&path.child(field), false, "must be either unset or set to true"),
            None => {}
        }
    }
    let rule = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match stated.len() {
        0 => errors.required_because(path, rule),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", stated.join(", "));
            errors.invalid(path, shown, format!("{rule}, but multiple fields are set"));
        }
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        text(object, "/spec/nodeName").into(),
        text(object, "/spec/driver").into(),
        text(object, "/spec/pool/name").into(),
        age(object, now),
    ]
}

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Node",
        "string",
        "NodeName identifies the node which provides the resources in this pool. A field selector can be used to list only ResourceSlice objects belonging to a certain node.\n\nThis field can be used to limit access from nodes to ResourceSlices with the same node name. It also indicates to autoscalers that adding new nodes of the same type as some old node might also make new resources available.\n\nExactly one of NodeName, NodeSelector, AllNodes, and PerDeviceNodeSelection must be set. This field is immutable.",
    ),
    column(
        "Driver",
        "string",
        "Driver identifies the DRA driver providing the capacity information. A field selector can be used to list only ResourceSlice objects with a certain driver name.\n\nMust be a DNS subdomain and should end with a DNS domain owned by the vendor of the driver. It should use only lower case characters. This field is immutable.",
    ),
    column(
        "Pool",
        "string",
        "Name is used to identify the pool. For node-local devices, this is often the node name, but this is not required.\n\nIt must not be longer than 253 characters and must consist of one or more DNS sub-domains separated by slashes. This field is immutable.",
    ),
    AGE,
];

#[cfg(test)]
mod tests;
