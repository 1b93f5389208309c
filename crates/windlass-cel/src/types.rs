//! The types of expressions.

use std::sync::Arc;

/// A type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Type {
    /// Not known before evaluation.
    Dyn,
    /// What an expression that failed to check has.
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
    /// A struct with declared fields; what they are is asked of the environment's type provider.
    Object(Arc<str>),
    /// An abstract type such as `optional_type(T)` or `kubernetes.Quantity`.
    Opaque(Arc<str>, Arc<[Type]>),
    /// The type of types, `type(T)`.
    Type(Arc<Type>),
    /// A parameter of a generic signature.
    Param(Arc<str>),
}
