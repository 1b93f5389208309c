//! The types of expressions.

use std::fmt;
use std::sync::Arc;

/// A type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Type {
    /// Not known before evaluation.
    Dyn,
    /// The type of an expression that failed to check.
    Error,
    /// `null_type`
    Null,
    /// `bool`
    Bool,
    /// `int`
    Int,
    /// `uint`
    Uint,
    /// `double`
    Double,
    /// `string`
    String,
    /// `bytes`
    Bytes,
    /// `google.protobuf.Timestamp`
    Timestamp,
    /// `google.protobuf.Duration`
    Duration,
    /// `list(T)`
    List(Arc<Type>),
    /// `map(K, V)`
    Map(Arc<Type>, Arc<Type>),
    /// A struct with declared fields, which the environment's type provider defines.
    Object(Arc<str>),
    /// An abstract type such as `optional_type(T)` or `kubernetes.Quantity`.
    Opaque(Arc<str>, Arc<[Type]>),
    /// The type of types, `type(T)`.
    Type(Arc<Type>),
    /// A parameter of a generic signature.
    Param(Arc<str>),
}

/// The name of the optional type.
pub const OPTIONAL: &str = "optional_type";

impl Type {
    /// `list(T)`
    pub fn list(element: Type) -> Type {
        Type::List(Arc::new(element))
    }

    /// `map(K, V)`
    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new(key), Arc::new(value))
    }

    /// `optional_type(T)`
    pub fn optional(value: Type) -> Type {
        Type::Opaque(OPTIONAL.into(), [value].into())
    }

    /// Returns an object type with a name.
    pub fn object(name: &str) -> Type {
        Type::Object(name.into())
    }

    /// Returns an abstract type with a name, without parameters.
    pub fn opaque(name: &str) -> Type {
        Type::Opaque(name.into(), [].into())
    }

    /// Returns `type`, the type of types without a parameter.
    pub fn any_type() -> Type {
        Type::Type(Arc::new(Type::object("")))
    }

    /// Returns a type parameter.
    pub fn param(name: &str) -> Type {
        Type::Param(name.into())
    }

    /// Returns the element type of an optional type; `None` if this is not one.
    pub fn optional_value(&self) -> Option<&Type> {
        match self {
            Type::Opaque(name, parameters) if &**name == OPTIONAL => parameters.first(),
            _ => None,
        }
    }

    /// Returns whether the type is unknown before evaluation.
    pub fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn)
    }

    /// Returns the name of the type as seen by expressions, without parameters.
    pub fn name(&self) -> &str {
        match self {
            Type::Dyn => "dyn",
            Type::Error => "error",
            Type::Null => "null_type",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::Duration => "google.protobuf.Duration",
            Type::List(_) => "list",
            Type::Map(..) => "map",
            Type::Type(_) => "type",
            Type::Object(name) | Type::Opaque(name, _) | Type::Param(name) => name,
        }
    }
}

/// Formats the type as in error messages of the checker.
impl fmt::Display for Type {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Error => formatter.write_str("!error!"),
            Type::Null => formatter.write_str("null"),
            Type::Timestamp => formatter.write_str("timestamp"),
            Type::Duration => formatter.write_str("duration"),
            Type::List(element) => write!(formatter, "list({element})"),
            Type::Map(key, value) => write!(formatter, "map({key}, {value})"),
            Type::Type(of) if !matches!(&**of, Type::Object(name) if name.is_empty()) => {
                write!(formatter, "type({of})")
            }
            Type::Opaque(name, parameters) if !parameters.is_empty() => {
                write!(formatter, "{name}(")?;
                for (index, parameter) in parameters.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(formatter, "{separator}{parameter}")?;
                }
                formatter.write_str(")")
            }
            _ => formatter.write_str(self.name()),
        }
    }
}
