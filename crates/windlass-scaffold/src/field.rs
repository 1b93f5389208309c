//! Fields of a spec, as they are given on the command line.
//!
//! `name:type[?][=range][,key=value...]`, as `replicas:int32=1..10,default=3`, `title:string=1..63`,
//! `colour:enum(red|green)?` or `code:string,pattern=^[a-z]+$,example=abc`. Ranges are of the value of numbers, of the
//! length of strings, and of the number of items of lists and maps.

mod parse;
mod values;

use std::fmt;

pub(crate) use values::{DURATION_PATTERN, QUANTITY_PATTERN};

use crate::names;

/// A field of a spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The name in manifests.
    pub name: String,
    /// Its type.
    pub kind: FieldType,
    /// Whether it may be left out.
    pub optional: bool,
    /// The least value, length or number of items.
    pub min: Option<Number>,
    /// The greatest.
    pub max: Option<Number>,
    /// What it is if it is left out.
    pub default: Option<String>,
    /// An expression that a string has to match.
    pub pattern: Option<String>,
    /// A value for the sample.
    pub example: Option<String>,
    /// A sentence about it.
    pub doc: Option<String>,
}

/// A bound of a range, as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    pub(crate) text: String,
    pub(crate) value: f64,
}

/// The type of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldType {
    /// Text.
    String,
    /// A number of 32 bits.
    Int32,
    /// A number of 64 bits.
    Int64,
    /// Yes or no.
    Bool,
    /// A number with a fraction.
    Number,
    /// A length of time, as `1h30m`.
    Duration,
    /// A quantity, as `500Mi`.
    Quantity,
    /// A point in time.
    Time,
    /// One of these words.
    Enum(Vec<String>),
    /// Texts by name.
    Map,
    /// Several of a type.
    List(Box<FieldType>),
}

impl Field {
    /// The name in Rust, as an identifier.
    pub(crate) fn ident(&self) -> String {
        let snake = names::snake(&self.name);
        match snake.as_str() {
            // These cannot be written as raw identifiers.
            "self" | "super" | "crate" => snake + "_",
            _ if names::is_keyword(&snake) => format!("r#{snake}"),
            _ => snake,
        }
    }

    /// Whether serde finds the name in manifests by itself.
    pub(crate) fn needs_rename(&self) -> bool {
        names::lower_camel(self.ident().trim_start_matches("r#")) != self.name
    }

    /// Whether the Rust type is an `Option`: lists and maps are empty instead, and defaults are there.
    pub(crate) fn is_option(&self) -> bool {
        self.optional && self.default.is_none() && !self.is_collection()
    }

    pub(crate) fn is_collection(&self) -> bool {
        matches!(self.kind, FieldType::List(_) | FieldType::Map)
    }

    /// Whether an object has to have it.
    pub(crate) fn is_required(&self) -> bool {
        !self.optional && self.default.is_none()
    }
}

impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String => f.write_str("string"),
            Self::Int32 => f.write_str("int32"),
            Self::Int64 => f.write_str("int64"),
            Self::Bool => f.write_str("bool"),
            Self::Number => f.write_str("number"),
            Self::Duration => f.write_str("duration"),
            Self::Quantity => f.write_str("quantity"),
            Self::Time => f.write_str("time"),
            Self::Enum(words) => write!(f, "enum({})", words.join("|")),
            Self::Map => f.write_str("map"),
            Self::List(kind) => write!(f, "[]{kind}"),
        }
    }
}

/// As it is written on the command line; reading it gives the same field.
impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.kind)?;
        if self.optional {
            f.write_str("?")?;
        }
        let text = |number: &Option<Number>| number.as_ref().map(|number| number.text.clone()).unwrap_or_default();
        if self.min.is_some() || self.max.is_some() {
            write!(f, "={}..{}", text(&self.min), text(&self.max))?;
        }
        let values =
            [("default", &self.default), ("pattern", &self.pattern), ("example", &self.example), ("doc", &self.doc)];
        for (key, value) in values {
            if let Some(value) = value {
                write!(f, ",{key}={value}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
