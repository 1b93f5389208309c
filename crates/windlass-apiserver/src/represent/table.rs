//! Tables: rows and columns as `kubectl get` prints them.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_builtins::{
    columns::{AGE, Column, NAME, Printer},
    kinds::scale,
};
use windlass_schema::{printer, time::Time};

use crate::{
    meta,
    registry::Endpoint,
    status::{ApiError, Result},
};

/// The part of an object that its row includes.
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

impl Include {
    /// Returns the part of an object that its row includes.
    pub(super) fn part(self, object: &Value) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Metadata => super::partial(object),
            Self::Object => object.clone(),
        }
    }
}

/// The columns of kinds that have none of their own.
const GENERIC: [Column; 2] = [NAME, Column { name: "Created At", kind: "date", ..AGE }];

/// Returns objects as a table.
pub(crate) fn table(endpoint: &Endpoint, objects: &[Value], include: Include, metadata: Value, headers: bool) -> Value {
    table_with(&Columns::of(endpoint), endpoint, objects, include, metadata, headers)
}

/// Returns objects as a table with these columns.
pub(super) fn table_with(
    columns: &Columns<'_>,
    endpoint: &Endpoint,
    objects: &[Value],
    include: Include,
    metadata: Value,
    headers: bool,
) -> Value {
    let mut budget = printer::TableBudget::default();
    let rows = objects.iter().map(|object| columns.row(endpoint, object, include, &mut budget)).collect();
    let definitions = if headers { columns.definitions() } else { Value::Null };
    envelope(metadata, definitions, rows)
}

/// Returns a table with these rows.
pub(super) fn envelope(metadata: Value, definitions: Value, rows: Vec<Value>) -> Value {
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows,
    })
}

/// The source of the columns.
pub(super) enum Columns<'a> {
    /// The generic columns.
    Generic,
    /// The kind's facts.
    Own(Printer, Timestamp),
    /// The CustomResourceDefinition.
    Custom(&'a [printer::Column], Time),
}

impl<'a> Columns<'a> {
    /// Returns the columns of a kind, with current ages.
    pub(super) fn of(endpoint: &'a Endpoint) -> Self {
        Self::at(endpoint, windlass_clock::now())
    }

    /// Returns the columns of the scale of a workload.
    pub(super) fn scale() -> Self {
        Self::Own(scale::PRINTER, windlass_clock::now())
    }

    /// Returns the columns of a kind, with ages as of `now`.
    pub(super) fn at(endpoint: &'a Endpoint, now: Timestamp) -> Self {
        match endpoint.custom() {
            Some(custom) => Self::Custom(&custom.compiled().columns, meta::time(now)),
            None => endpoint.facts.printer.map_or(Self::Generic, |printer| Self::Own(printer, now)),
        }
    }

    /// Returns the row of an object.
    pub(super) fn row(
        &self,
        endpoint: &Endpoint,
        object: &Value,
        include: Include,
        budget: &mut printer::TableBudget,
    ) -> Value {
        let cells = self.cells(object, budget);
        let mut row = json!({"cells": cells, "object": include.part(object)});
        let conditions = endpoint.facts.printer.map(|printer| (printer.row_conditions)(object)).unwrap_or_default();
        if !conditions.is_empty() {
            row["conditions"] = conditions.into();
        }
        row
    }

    pub(super) fn definitions(&self) -> Value {
        match self {
            Self::Generic => GENERIC.iter().map(definition).collect(),
            Self::Own(printer, _) => printer.columns.iter().map(definition).collect(),
            Self::Custom(columns, _) => {
                std::iter::once(definition(&NAME)).chain(columns.iter().map(printer::Column::definition)).collect()
            }
        }
    }

    fn cells(&self, object: &Value, budget: &mut printer::TableBudget) -> Vec<Value> {
        let name = object["metadata"]["name"].clone();
        match self {
            Self::Generic => vec![name, object["metadata"]["creationTimestamp"].clone()],
            Self::Own(printer, now) => (printer.cells)(object, *now),
            Self::Custom(columns, now) => {
                let cells = columns.iter().map(|column| column.cell_within(object, *now, budget));
                std::iter::once(name).chain(cells).collect()
            }
        }
    }
}

fn definition(column: &Column) -> Value {
    json!({
        "name": column.name, "type": column.kind, "format": column.format,
        "description": column.description, "priority": column.priority,
    })
}
