//! Tables: rows and columns as `kubectl get` prints them.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_builtins::{
    columns::{AGE, NAME},
    strategy::Column,
};

use crate::{
    registry::Endpoint,
    status::{ApiError, Result},
};

/// How much of an object a row carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    Metadata,
    Object,
}

impl Include {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', \
                 'None', or empty",
                windlass_schema::field::quote(other)
            ))),
        }
    }
}

/// The columns of kinds that have none of their own.
const GENERIC: [Column; 2] = [NAME, Column { name: "Created At", kind: "date", ..AGE }];

/// Objects as a table.
pub(crate) fn table(endpoint: &Endpoint, objects: &[Value], include: Include, metadata: Value, headers: bool) -> Value {
    let own = endpoint.strategy.columns();
    let columns = if own.is_empty() { &GENERIC[..] } else { own };
    let now = Timestamp::now();
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let cells = if own.is_empty() { generic_cells(object) } else { endpoint.strategy.cells(object, now) };
            let shown = match include {
                Include::None => Value::Null,
                Include::Metadata => super::partial(object),
                Include::Object => object.clone(),
            };
            let mut row = json!({"cells": cells, "object": shown});
            let conditions = endpoint.strategy.row_conditions(object);
            if !conditions.is_empty() {
                row["conditions"] = conditions.into();
            }
            row
        })
        .collect();
    let definitions = if headers { columns.iter().map(definition).collect() } else { Value::Null };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows,
    })
}

fn generic_cells(object: &Value) -> Vec<Value> {
    vec![object["metadata"]["name"].clone(), object["metadata"]["creationTimestamp"].clone()]
}

fn definition(column: &Column) -> Value {
    json!({
        "name": column.name, "type": column.kind, "format": column.format,
        "description": column.description, "priority": column.priority,
    })
}
