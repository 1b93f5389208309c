//! The rows of `kubectl get` for the kinds that have no strategy file of their own.
//!
//! What is not here (roles, limit ranges, custom resource definitions...) the real server shows with a name and the
//! time of creation, and so does a strategy without columns.

pub(crate) mod access;
mod admission;
pub(crate) mod network;
pub(crate) mod workloads;

use jiff::Timestamp;
use serde_json::Value;

use crate::columns::or_none;
use crate::object::{boolean, integer, text};
use crate::strategy::Column;

/// How the objects of a resource are printed.
#[derive(Clone, Copy)]
pub struct Printer {
    /// The columns.
    pub columns: &'static [Column],
    /// The cells of a row.
    pub cells: fn(&Value, Timestamp) -> Vec<Value>,
}

/// The printer of a resource, if it has one of its own.
pub fn printer(group: &str, resource: &str) -> Option<Printer> {
    let found = match group {
        "" => workloads::core(resource),
        "scheduling.k8s.io" | "node.k8s.io" | "resource.k8s.io" => workloads::scheduling(resource),
        "admissionregistration.k8s.io" => admission::policies(resource),
        "apiregistration.k8s.io" => admission::aggregation(resource),
        _ => None,
    };
    found.map(|(columns, cells)| Printer { columns, cells })
}

/// Columns and the function that fills them.
type Entry = (&'static [Column], fn(&Value, Timestamp) -> Vec<Value>);

/// A number, zero when it is absent.
pub(super) fn count(object: &Value, pointer: &str) -> Value {
    integer(object, pointer).unwrap_or_default().into()
}

/// A text, or `<unset>` when it is absent.
pub(super) fn or_unset(object: &Value, pointer: &str) -> Value {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or("<unset>").into()
}

/// A text, or `<none>` when it is absent or empty.
pub(super) fn text_or_none(object: &Value, pointer: &str) -> Value {
    or_none(text(object, pointer)).into()
}

/// A boolean, false when it is absent.
pub(super) fn flag(object: &Value, pointer: &str) -> Value {
    boolean(object, pointer).unwrap_or_default().into()
}

/// At most three of the items, and how many more there are; `<unset>` for none.
pub(super) fn first_three(all: &[String]) -> String {
    match all.len() {
        0 => "<unset>".to_owned(),
        1..=3 => all.join(","),
        more => format!("{} + {} more...", all[..3].join(","), more - 3),
    }
}

#[cfg(test)]
mod tests;
