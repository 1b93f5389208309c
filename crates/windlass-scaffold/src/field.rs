//! Fields of a spec or a status in command-line syntax.
//!
//! `name:type[?][=range][,key=value...]`, for example `replicas:int32=1..10,default=3`, `title:string=1..63`,
//! `colour:enum(red|green)?` or `code:string,pattern=^[a-z]+$,example=abc`. A range limits the value of a number, the
//! length of a string, or the number of items of a list or map.
//!
//! An object is declared first, and then each of its fields by its path: `pod:object` and `pod.image:string`, or
//! `ports:[]object` and `ports.number:int32`. Every field is therefore one string, regardless of its depth: it has all
//! settings, needs no escapes, and is changed and removed like any other.

mod parse;
mod tree;
mod values;

use std::fmt;

pub(crate) use tree::{check_tree, check_types, children, type_name};
pub(crate) use values::{DURATION_PATTERN, QUANTITY_PATTERN};

use crate::{ScaffoldError, names};

/// A field of a spec or a status.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Name in manifests; for a field of an object, the path: `pod.image`.
    pub name: String,
    /// Type.
    pub kind: FieldType,
    /// Whether the field is optional.
    pub optional: bool,
    /// Minimum value, length or number of items.
    pub min: Option<Number>,
    /// Maximum value, length or number of items.
    pub max: Option<Number>,
    /// Default value.
    pub default: Option<String>,
    /// Regular expression that a string must match.
    pub pattern: Option<String>,
    /// Value for the sample.
    pub example: Option<String>,
    /// Description.
    pub doc: Option<String>,
}

/// A bound of a range, as written.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    pub(crate) text: String,
    pub(crate) value: f64,
}

/// Type of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldType {
    /// A string.
    String,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A boolean.
    Bool,
    /// A floating-point number.
    Number,
    /// A duration such as `1h30m`.
    Duration,
    /// A resource quantity such as `500Mi`.
    Quantity,
    /// A timestamp.
    Time,
    /// One of these values.
    Enum(Vec<String>),
    /// An object, whose fields have its name as a prefix.
    Object,
    /// A map with strings as keys.
    Map(Box<FieldType>),
    /// A list.
    List(Box<FieldType>),
}

impl FieldType {
    /// The type of the items of a list or of the values of a map, and otherwise the type itself.
    pub(crate) fn item(&self) -> &Self {
        match self {
            Self::List(item) | Self::Map(item) => item,
            kind => kind,
        }
    }

    pub(crate) fn is_map(&self) -> bool {
        matches!(self, Self::Map(_))
    }
}

impl Field {
    /// Turns the field into one of a status. Those at the top are always optional, because a status starts empty.
    pub fn into_status(mut self) -> Result<Self, ScaffoldError> {
        if self.default.is_some() || self.example.is_some() {
            return Err(ScaffoldError::Field {
                text: self.to_string(),
                why: "a field of the status has no default and no example".to_owned(),
                hint: "the controller sets it: omit ,default= and ,example=".to_owned(),
            });
        }
        self.optional |= self.parent().is_none();
        Ok(self)
    }

    /// Name within its object.
    pub(crate) fn leaf(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }

    /// Path of the object that has this field; `None` at the top.
    pub(crate) fn parent(&self) -> Option<&str> {
        self.name.rsplit_once('.').map(|(parent, _)| parent)
    }

    /// Rust identifier.
    pub(crate) fn ident(&self) -> String {
        let snake = names::snake(self.leaf());
        match snake.as_str() {
            // These cannot be raw identifiers.
            "self" | "super" | "crate" => snake + "_",
            _ if names::is_keyword(&snake) => format!("r#{snake}"),
            _ => snake,
        }
    }

    /// Returns whether the name in manifests differs from serde's camelCase of the identifier.
    pub(crate) fn needs_rename(&self) -> bool {
        names::lower_camel(self.ident().trim_start_matches("r#")) != self.leaf()
    }

    /// Returns whether the Rust type is an `Option`. Lists and maps are empty instead, and fields with a default always
    /// have a value.
    pub(crate) fn is_option(&self) -> bool {
        self.optional && self.default.is_none() && !self.is_collection()
    }

    pub(crate) fn is_collection(&self) -> bool {
        matches!(self.kind, FieldType::List(_) | FieldType::Map(_))
    }

    /// Returns whether the schema requires the field.
    pub(crate) fn is_required(&self) -> bool {
        !self.optional && self.default.is_none()
    }

    /// Returns whether samples contain the field.
    pub(crate) fn is_in_samples(&self) -> bool {
        self.is_required() || self.example.is_some() || self.default.is_some()
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
            Self::Object => f.write_str("object"),
            Self::Map(item) if **item == Self::String => f.write_str("map"),
            Self::Map(item) => write!(f, "map[string]{item}"),
            Self::List(kind) => write!(f, "[]{kind}"),
        }
    }
}

/// The command-line syntax; parsing it yields the same field.
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
