//! The type of a value, and its interaction with the format.

use serde_json::Value;

use super::place::Place;
use super::{Check, Mode};
use crate::field::ErrorList;
use crate::structural::number::is_json_integer;
use crate::structural::{Kind, Structural};

/// The types that a value may have.
#[derive(Clone, Copy)]
pub(super) enum Types {
    Any,
    One(Kind),
    IntegerOrString,
}

impl Types {
    pub(super) fn of(schema: &Structural, mode: Mode) -> Self {
        match schema.kind {
            _ if schema.int_or_string && mode == Mode::Resource => Self::IntegerOrString,
            Some(kind) => Self::One(kind),
            None => Self::Any,
        }
    }

    pub(super) fn is_empty(self) -> bool {
        matches!(self, Self::Any)
    }

    pub(super) fn has(self, kind: Kind) -> bool {
        match self {
            Self::Any => false,
            Self::One(one) => one == kind,
            Self::IntegerOrString => matches!(kind, Kind::Integer | Kind::String),
        }
    }

    pub(super) fn names(self) -> String {
        match self {
            Self::Any => String::new(),
            Self::One(kind) => name(kind).to_owned(),
            Self::IntegerOrString => "integer,string".to_owned(),
        }
    }
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Object => "object",
        Kind::Array => "array",
        Kind::String => "string",
        Kind::Integer => "integer",
        Kind::Number => "number",
        Kind::Boolean => "boolean",
    }
}

/// Returns the type of a schema that has exactly one.
pub(super) fn single_type(schema: &Structural, mode: Mode) -> Option<Kind> {
    if let Types::One(kind) = Types::of(schema, mode) { Some(kind) } else { None }
}

impl Check {
    /// Checks the type of a value that is not null.
    pub(super) fn types(
        &mut self,
        types: Types,
        format: Option<&str>,
        value: &Value,
        place: &Place<'_>,
        out: &mut ErrorList,
    ) -> bool {
        let (kind, native) = match value {
            Value::Bool(_) => (Kind::Boolean, ""),
            Value::String(_) => (Kind::String, ""),
            Value::Array(_) => (Kind::Array, ""),
            Value::Number(number) if number.is_i64() => (Kind::Integer, "int64"),
            Value::Number(_) => (Kind::Number, "float64"),
            _ => (Kind::Object, ""),
        };
        let float_as_integer =
            kind == Kind::Number && types.has(Kind::Integer) && value.as_f64().is_some_and(is_json_integer);
        let integer_as_float = kind == Kind::Integer && types.has(Kind::Number);
        let fits = types.has(kind) || float_as_integer || integer_as_float;
        let textual = matches!(kind, Kind::String | Kind::Array);
        if let Some(format) = format {
            if !textual && !fits && native != format {
                self.wrong_type(place, format, native, out);
                return false;
            }
            if textual && !types.has(Kind::Number) && !types.has(Kind::Integer) {
                return true;
            }
        }
        if !fits {
            self.wrong_type(place, &types.names(), name(kind), out);
        }
        fits
    }
}
