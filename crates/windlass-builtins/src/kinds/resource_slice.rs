//! ResourceSlices of dynamic resource allocation.

use jiff::Timestamp;
use serde_json::Value;

use crate::columns::{AGE, Column, NAME, Printer, age, column, name};
use crate::object::text;
use crate::strategy::Strategy;

/// Strategy of ResourceSlices.
#[derive(Debug, Clone, Copy)]
pub struct ResourceSlice;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for ResourceSlice {
    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, String)> {
        let field = |pointer| text(object, pointer).to_owned();
        vec![("spec.nodeName", field("/spec/nodeName")), ("spec.driver", field("/spec/driver"))]
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
