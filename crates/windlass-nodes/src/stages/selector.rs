//! Selecting the objects that a stage applies to.

use serde::Deserialize;
use serde_json::Value;
use windlass_schema::json_path::{Item, JsonPath};

/// A requirement as declared in a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expression {
    key: String,
    operator: Operator,
    #[serde(default)]
    values: Vec<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// A compiled requirement on an object.
#[derive(Debug, Clone)]
pub(super) struct Requirement {
    what: What,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Debug, Clone)]
enum What {
    Path(Path),
    /// A label or an annotation.
    Entry(&'static str, String),
}

/// A JSON path within an object.
#[derive(Debug, Clone)]
pub(super) struct Path(JsonPath);

impl Path {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if !text.starts_with('.') {
            return Err(format!("{text}: a path must start with a dot"));
        }
        JsonPath::expression(text).map(Self).map_err(|error| format!("{text}: {error}"))
    }

    /// Returns the values that the path finds, without nulls.
    pub(super) fn find<'a>(&'a self, object: &'a Value) -> Vec<&'a Value> {
        let found = self.0.find(object).unwrap_or_default();
        let values = found.into_iter().flatten().filter_map(|item| match item {
            Item::Json(value) if !value.is_null() => Some(value),
            _ => None,
        });
        values.collect()
    }
}

impl Requirement {
    pub(super) fn compile(expression: Expression) -> Result<Self, String> {
        let Expression { key, operator, values } = expression;
        let path = Path::parse(&key)?;
        match (operator, values.is_empty()) {
            (Operator::In | Operator::NotIn, true) => Err(format!("{key}: {operator:?} needs values")),
            (Operator::Exists | Operator::DoesNotExist, false) => Err(format!("{key}: {operator:?} takes no values")),
            _ => Ok(Self { what: What::Path(path), operator, values: values.iter().map(text).collect() }),
        }
    }

    /// Requires a label or an annotation to have this value.
    pub(super) fn entry(map: &'static str, key: String, value: String) -> Self {
        Self { what: What::Entry(map, key), operator: Operator::In, values: vec![value] }
    }

    pub(super) fn holds(&self, object: &Value) -> bool {
        let found = match &self.what {
            What::Path(path) => path.find(object),
            What::Entry(map, key) => object["metadata"][*map].get(key).into_iter().collect(),
        };
        let named = || found.iter().any(|value| self.values.contains(&text(value)));
        match self.operator {
            Operator::In => named(),
            Operator::NotIn => !named(),
            Operator::Exists => !found.is_empty(),
            Operator::DoesNotExist => found.is_empty(),
        }
    }
}

/// The text of a value, without quotes.
pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
