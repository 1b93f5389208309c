//! The columns of ResourceClaims.

use jiff::Timestamp;
use serde_json::Value;

use crate::columns::{AGE, Column, NAME, Printer, age, column, name};
use crate::object::{is_set, items};

pub(in crate::kinds) const RESOURCE_CLAIM: Printer = Printer::new(COLUMNS, cells);

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
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

const COLUMNS: &[Column] =
    &[NAME, column("State", "string", "A summary of the current state (allocated, pending, reserved, etc.)."), AGE];
