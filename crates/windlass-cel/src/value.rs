//! Values of expressions: JSON seen through its structural schema, borrowed and never copied, and values computed from
//! it.
//!
//! A field that is not in the schema is invisible, null is equivalent to an absent field, strings with a `format` are
//! timestamps, durations or bytes, and lists of type set or map are compared and added as such.

use std::sync::Arc;

use serde_json::Value as Json;

mod convert;
mod equality;
mod error;
mod escape;
mod json;
mod list;
mod map;
mod opaque;
mod operators;
mod show;
mod structure;
mod text;
mod time;
mod typed;

pub use error::EvalError;
pub use escape::{escape, unescape};
pub use list::{List, ListIter};
pub use map::{Key, Map};
pub use opaque::{Cidr, NamedFormat, Opaque, PreRelease, Semver};
pub use structure::Struct;
pub(crate) use structure::{OBJECT, PATCH, is_struct};
pub use text::Text;
pub use time::Timestamp;

/// Result of an operation on values.
pub type Outcome<'a> = Result<Value<'a>, EvalError>;

/// A value.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// A `bool`.
    Bool(bool),
    /// An `int`.
    Int(i64),
    /// A `uint`.
    Uint(u64),
    /// A `double`.
    Double(f64),
    /// A `string`.
    String(Text<'a>),
    /// A `bytes`.
    Bytes(Arc<[u8]>),
    /// A `google.protobuf.Duration`, in nanoseconds.
    Duration(i64),
    /// A `google.protobuf.Timestamp`.
    Timestamp(Timestamp),
    /// A `list`.
    List(List<'a>),
    /// A `map` or an object.
    Map(Map<'a>),
    /// An `optional_type`.
    Optional(Option<Arc<Value<'a>>>),
    /// A type, by its name.
    Type(Arc<str>),
    /// A value of a type of the Kubernetes libraries.
    Opaque(Arc<Opaque>),
    /// A value of a library type that was selected through an optional: using it fails.
    Lost(Arc<Opaque>),
    /// An object or patch that the expression constructs: `Object.spec{replicas: 1}`.
    Struct(Arc<Struct<'a>>),
    /// Untyped data kept by `x-kubernetes-preserve-unknown-fields`: it can only be compared.
    Preserved(&'a Json),
}

impl<'a> Value<'a> {
    /// Returns a string.
    pub fn string(text: impl Into<Arc<str>>) -> Value<'a> {
        Value::String(Text::Shared(text.into()))
    }

    /// Returns a list of computed values.
    pub fn list(items: Vec<Value<'a>>) -> Value<'a> {
        Value::List(List::from(items))
    }

    /// Returns an optional with a value.
    pub fn some(value: Value<'a>) -> Value<'a> {
        Value::Optional(Some(Arc::new(value)))
    }

    /// The empty optional.
    pub const NONE: Value<'static> = Value::Optional(None);

    /// Returns a value of a Kubernetes library type.
    pub fn opaque(value: Opaque) -> Value<'a> {
        Value::Opaque(Arc::new(value))
    }

    /// Returns the name of its type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Optional(_) => "optional_type",
            Value::Type(_) => "type",
            Value::Opaque(value) => value.type_name(),
            Value::Lost(_) => "error",
            Value::Struct(value) => value.type_name(),
            Value::Preserved(_) => "unknown",
        }
    }

    /// Returns the number of characters, bytes, elements or entries; `None` for values without a size.
    pub fn size(&self) -> Option<i64> {
        Some(match self {
            Value::String(text) => text.chars().count() as i64,
            Value::Bytes(bytes) => bytes.len() as i64,
            Value::List(list) => list.len() as i64,
            Value::Map(map) => map.len() as i64,
            Value::Opaque(value) => return value.size(),
            _ => return None,
        })
    }

    /// Returns the value of a `bool`; `None` for other types.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the value, unless it is lost.
    ///
    /// # Errors
    /// Returns kube-apiserver's error if it is lost.
    pub(crate) fn or_lost(self) -> Outcome<'a> {
        match self {
            Value::Lost(value) => Err(value.lost()),
            value => Ok(value),
        }
    }

    /// Returns whether it is the zero value of its type, as defined by `optional.ofNonZeroValue`.
    pub fn is_zero(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Bool(value) => !value,
            Value::Int(value) => *value == 0,
            Value::Uint(value) => *value == 0,
            Value::Double(value) => *value == 0.0,
            Value::String(text) => text.is_empty(),
            Value::Bytes(bytes) => bytes.is_empty(),
            Value::Duration(nanos) => *nanos == 0,
            Value::Timestamp(time) => time.is_zero(),
            Value::List(list) => list.is_empty() && !list.is_typed(),
            Value::Map(map) => map.is_empty() && !map.is_typed(),
            Value::Struct(value) => value.fields.is_empty(),
            _ => false,
        }
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Value::Int(value)
    }
}
