//! Values inside path elements, and kube-apiserver's order and equality of values.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Number, Value};
use windlass_schema::{field::quote, sorting::Gather as _};

use super::Name;

/// The value of a key field or of a set item.
#[derive(Debug, Clone)]
pub enum ItemValue {
    /// An integer.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A string.
    String(Name),
    /// A boolean.
    Bool(bool),
    /// Null, a list or a map: not allowed here by any type, but possible in a stored set.
    Other(Box<Value>),
}

impl ItemValue {
    /// Copies a JSON value.
    pub fn new(value: &Value) -> Self {
        match value {
            Value::String(text) => Self::String(Name::new(text)),
            Value::Bool(bool) => Self::Bool(*bool),
            Value::Number(number) => match number.as_i64() {
                Some(int) => Self::Int(int),
                None => Self::Float(number.as_f64().unwrap_or_default()),
            },
            other => Self::Other(Box::new(other.clone())),
        }
    }

    /// Converts to JSON.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Int(int) => Value::from(*int),
            Self::Float(float) => Number::from_f64(*float).map_or(Value::Null, Value::Number),
            Self::String(text) => Value::from(text.as_str()),
            Self::Bool(bool) => Value::Bool(*bool),
            Self::Other(value) => (**value).clone(),
        }
    }

    /// Compares with a JSON value without copying it.
    pub fn cmp_value(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Self::String(left), Value::String(right)) => left.as_bytes().cmp(right.as_bytes()),
            (Self::Other(left), right) => compare(left, right),
            (left, Value::Null | Value::Array(_) | Value::Object(_)) => {
                debug_assert!(left.rank() < 3, "only `Other` values rank with containers");
                Ordering::Less
            }
            (left, right) => left.cmp(&Self::new(right)),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Int(_) | Self::Float(_) => 0,
            Self::String(_) => 1,
            Self::Bool(_) => 2,
            Self::Other(value) => rank(value),
        }
    }
}

impl PartialEq for ItemValue {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ItemValue {}

impl PartialOrd for ItemValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ItemValue {
    /// Orders numbers by value regardless of their form, then strings, booleans, lists, maps, null.
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Int(left), Self::Int(right)) => left.cmp(right),
            (Self::Int(left), Self::Float(right)) => floats(*left as f64, *right),
            (Self::Float(left), Self::Int(right)) => floats(*left, *right as f64),
            (Self::Float(left), Self::Float(right)) => floats(*left, *right),
            (Self::String(left), Self::String(right)) => left.cmp(right),
            (Self::Bool(left), Self::Bool(right)) => left.cmp(right),
            (Self::Other(left), Self::Other(right)) => compare(left, right),
            (left, right) => left.rank().cmp(&right.rank()),
        }
    }
}

impl fmt::Display for ItemValue {
    /// Formats the value as in kube-apiserver's errors: strings are quoted as in Go.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(int) => write!(f, "{int}"),
            Self::Float(float) => f.write_str(&crate::go_format::float(*float)),
            Self::String(text) => f.write_str(&quote(text.as_str())),
            Self::Bool(bool) => write!(f, "{bool}"),
            Self::Other(value) => f.write_str(&show(value)),
        }
    }
}

/// Returns whether two values are equal in kube-apiserver, where `1` equals `1.0`.
pub fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || numbers(left, right) == Ordering::Equal,
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| left.0 == right.0 && equal(left.1, right.1))
        }
        (left, right) => left == right,
    }
}

/// Orders any two values.
pub fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let differing =
                left.iter().zip(right).map(|(left, right)| compare(left, right)).find(|order| order.is_ne());
            differing.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            let differing = left
                .iter()
                .zip(right)
                .map(|(left, right)| left.0.cmp(right.0).then_with(|| compare(left.1, right.1)))
                .find(|order| order.is_ne());
            differing.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (left, right) => rank(left).cmp(&rank(right)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn numbers(left: &Number, right: &Number) -> Ordering {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => floats(left.as_f64().unwrap_or_default(), right.as_f64().unwrap_or_default()),
    }
}

fn floats(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or(Ordering::Equal)
}

fn show(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Array(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(",")),
        Value::Object(map) => map.iter().map(|(key, value)| format!("{key}={}", show(value))).gather(),
        scalar => ItemValue::new(scalar).to_string(),
    }
}
