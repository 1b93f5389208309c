//! The columns of ComponentStatuses.

use jiff::Timestamp;
use serde_json::Value;

use crate::columns::{Column, NAME, Printer, column, name};
use crate::object::{items, text};

pub(in crate::kinds) const PRINTER: Printer = Printer::new(COLUMNS, cells);

fn cells(object: &Value, _now: Timestamp) -> Vec<Value> {
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

const COLUMNS: &[Column] = &[
    NAME,
    column("Status", "string", "Status of the component conditions"),
    column("Message", "string", "Message of the component conditions"),
    column("Error", "string", "Error of the component conditions"),
];
