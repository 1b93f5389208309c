//! Workloads, their quotas and budgets, and what schedules them.

use jiff::Timestamp;
use serde_json::Value;

use super::Entry;
use crate::columns::{AGE, NAME, age, column, name};
use crate::object::{is_set, items, text};
use crate::strategy::Column;

pub(super) fn core(resource: &str) -> Option<Entry> {
    Some(match resource {
        "componentstatuses" => (COMPONENT_STATUS, component_status),
        _ => return None,
    })
}

pub(super) fn scheduling(resource: &str) -> Option<Entry> {
    Some(match resource {
        "deviceclasses" => (DEVICE_CLASS, |object, now| vec![name(object), age(object, now)]),
        "resourceclaims" => (RESOURCE_CLAIM, resource_claim),
        "resourceclaimtemplates" => (RESOURCE_CLAIM_TEMPLATE, |object, now| vec![name(object), age(object, now)]),
        "resourceslices" => (RESOURCE_SLICE, resource_slice),
        _ => return None,
    })
}

fn component_status(object: &Value, _now: Timestamp) -> Vec<Value> {
    let healthy = items(object, "/conditions").iter().find(|condition| text(condition, "/type") == "Healthy");
    let (status, message, error) = match healthy {
        None => ("Unknown", "", ""),
        Some(condition) => {
            let status = if text(condition, "/status") == "True" { "Healthy" } else { "Unhealthy" };
            (status, text(condition, "/message"), text(condition, "/error"))
        }
    };
    vec![name(object), status.into(), message.into(), error.into()]
}

fn resource_claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let deleted = is_set(object, "/metadata/deletionTimestamp");
    let mut states = if deleted { vec!["deleted"] } else { Vec::new() };
    if is_set(object, "/status/allocation") {
        states.push("allocated");
        if !items(object, "/status/reservedFor").is_empty() {
            states.push("reserved");
        }
    } else if !deleted {
        states.push("pending");
    }
    vec![name(object), states.join(",").into(), age(object, now)]
}

fn resource_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        text(object, "/spec/nodeName").into(),
        text(object, "/spec/driver").into(),
        text(object, "/spec/pool/name").into(),
        age(object, now),
    ]
}

const COMPONENT_STATUS: &[Column] = &[
    NAME,
    column("Status", "string", "Status of the component conditions"),
    column("Message", "string", "Message of the component conditions"),
    column("Error", "string", "Error of the component conditions"),
];

const DEVICE_CLASS: &[Column] = &[NAME, AGE];

const RESOURCE_CLAIM: &[Column] =
    &[NAME, column("State", "string", "A summary of the current state (allocated, pending, reserved, etc.)."), AGE];

const RESOURCE_CLAIM_TEMPLATE: &[Column] = &[NAME, AGE];

const RESOURCE_SLICE: &[Column] = &[
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
