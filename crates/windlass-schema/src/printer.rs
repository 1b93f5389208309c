//! Printer columns and selectable fields of custom resources.
//!
//! Both are JSONPaths in a CustomResourceDefinition, compiled once and evaluated for every object. A cell never fails:
//! a value that is absent, has the wrong type or is out of reach is null.

use serde_json::{Map, Value, json};

use crate::json_path::{EvaluateError, Item, JsonPath, ParseError};
use crate::time::{Time, parse_rfc3339};

mod print;

pub use print::human_duration;

const AGE: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// A table column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// The type shown to clients: `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// The format shown to clients.
    pub format: String,
    /// The description of the column.
    pub description: String,
    /// Zero for columns that are always shown.
    pub priority: i32,
    path: JsonPath,
}

impl Column {
    /// Compiles a column. Without a description, the path is used as the description.
    ///
    /// # Errors
    /// Returns an error if the path is invalid.
    pub fn compile(
        name: &str,
        kind: &str,
        format: &str,
        description: &str,
        priority: i32,
        json_path: &str,
    ) -> Result<Self, ParseError> {
        let description = match description {
            "" => format!("Custom resource definition column (in JSONPath format): {json_path}"),
            description => description.to_owned(),
        };
        let (name, kind, format) = (name.to_owned(), kind.to_owned(), format.to_owned());
        Ok(Self { name, kind, format, description, priority, path: JsonPath::expression(json_path)? })
    }

    /// Returns the columns of a version's `additionalPrinterColumns`, which follow the name. Without any, the age is
    /// shown. As in kube-apiserver, columns after a path that does not parse are dropped.
    pub fn of_definition(columns: Option<&Value>) -> Vec<Self> {
        let given = columns.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if given.is_empty() {
            return vec![Self::age()];
        }
        let compile = |column: &Value| {
            let text = |name: &str| column.get(name).and_then(Value::as_str).unwrap_or_default();
            let priority = column.get("priority").and_then(Value::as_i64).and_then(|number| i32::try_from(number).ok());
            let (name, kind, format) = (text("name"), text("type"), text("format"));
            Self::compile(name, kind, format, text("description"), priority.unwrap_or(0), text("jsonPath")).ok()
        };
        given.iter().map_while(compile).collect()
    }

    /// Returns the columns of the `scale` subresource, which follow the name.
    pub fn of_scale() -> Vec<Self> {
        let count = |name: &str, path: &str, description: &str| {
            Self::compile(name, "integer", "", description, 0, path).expect("the path must parse")
        };
        vec![
            count("Desired", ".spec.replicas", "Number of desired replicas"),
            count("Available", ".status.replicas", "Number of actual replicas"),
            Self::age(),
        ]
    }

    fn age() -> Self {
        Self::compile("Age", "date", "", AGE, 0, ".metadata.creationTimestamp").expect("the path must parse")
    }

    /// Returns the column as in `columnDefinitions` of a table.
    pub fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }

    /// Returns the cell of an object at a time.
    pub fn cell(&self, object: &Value, now: Time) -> Value {
        self.cell_within(object, now, &mut TableBudget::default())
    }

    /// Like [`Column::cell`], for one of many cells of a table; null if they have already used up the budget.
    pub fn cell_within(&self, object: &Value, now: Time, budget: &mut TableBudget) -> Value {
        if budget.left == 0 {
            return Value::Null;
        }
        let Ok(Some(found)) = self.path.first_within(object, &mut budget.left) else { return Value::Null };
        if self.kind == "string" {
            let text = print::text(&found);
            budget.left = budget.left.saturating_sub(text.len());
            return text.into();
        }
        match (self.kind.as_str(), found) {
            ("integer", Item::Json(Value::Number(number))) => print::integer(number).into(),
            ("integer", Item::Float(float)) => print::truncate(float).into(),
            ("number", Item::Json(Value::Number(number))) => print::number(number.as_f64().unwrap_or(0.0)),
            ("number", Item::Float(float)) => print::number(float),
            ("boolean", Item::Json(Value::Bool(value))) => (*value).into(),
            ("boolean", Item::Bool(value)) => value.into(),
            ("date", Item::Json(Value::String(text))) => age(text, now).into(),
            ("date", Item::Text(text)) => age(text, now).into(),
            _ => Value::Null,
        }
    }
}

/// Limit on the work for the cells of one table: values visited and bytes written. A CustomResourceDefinition may have
/// thousands of columns that each search or show the whole object.
#[derive(Debug, Clone)]
pub struct TableBudget {
    left: usize,
}

impl Default for TableBudget {
    fn default() -> Self {
        Self { left: 50_000_000 }
    }
}

fn age(text: &str, now: Time) -> String {
    let time = match text {
        "" | "null" => return "<unknown>".to_owned(),
        text => parse_rfc3339(text),
    };
    match time {
        Err(_) => "<invalid>".to_owned(),
        Ok(time) if time.is_zero() => "<unknown>".to_owned(),
        Ok(time) => human_duration(now, time),
    }
}

/// A field that can be used in field selectors.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectableField {
    /// Its name in selectors: the path without the leading dot.
    pub name: String,
    path: JsonPath,
}

impl SelectableField {
    /// Compiles a field.
    ///
    /// # Errors
    /// Returns an error if the path is invalid.
    pub fn compile(json_path: &str) -> Result<Self, ParseError> {
        let name = json_path.strip_prefix('.').unwrap_or(json_path).to_owned();
        Ok(Self { name, path: JsonPath::expression(json_path)? })
    }

    /// Returns the fields of a version's `selectableFields`.
    ///
    /// # Errors
    /// Returns an error if a path is invalid.
    pub fn of_definition(fields: Option<&Value>) -> Result<Vec<Self>, ParseError> {
        let fields = fields.and_then(Value::as_array).into_iter().flatten();
        fields.map(|field| Self::compile(field.get("jsonPath").and_then(Value::as_str).unwrap_or_default())).collect()
    }

    /// Returns the text that selectors compare with. It is empty if the value is absent or null.
    ///
    /// # Errors
    /// Returns an error if the path does not fit the object or finds more than one value, which a path through the
    /// fields of a structural schema never does.
    pub fn value(&self, object: &Value) -> Result<String, EvaluateError> {
        let found = self.path.find(object)?;
        match found.first().map_or(&[][..], Vec::as_slice) {
            [] | [Item::Json(Value::Null)] => Ok(String::new()),
            [one] if found.len() == 1 => Ok(print::text(one)),
            _ => Err(EvaluateError("unexpectedly received more than one JSON path result".to_owned())),
        }
    }

    /// Returns the values of these fields in an object, by name. A field that cannot be evaluated counts as absent.
    pub fn values(fields: &[Self], object: &Value) -> Map<String, Value> {
        fields.iter().map(|field| (field.name.clone(), field.value(object).unwrap_or_default().into())).collect()
    }
}

#[cfg(test)]
mod tests;
