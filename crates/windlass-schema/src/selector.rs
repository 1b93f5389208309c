//! Label and field selectors: the `labelSelector` and `fieldSelector` of a list or watch, and the `LabelSelector` in
//! objects.
//!
//! Parsing accepts exactly what kube-apiserver accepts, with its error messages; printing produces kube-apiserver's
//! form, which parses back to the same selector.

mod field;
mod label;
mod lexer;

pub use field::{FieldOperator, FieldSelector, FieldTerm};
pub use label::{LabelSelector, Operator, Requirement};

/// Reason why a selector was rejected: 400 with this message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub(crate) String);

#[cfg(test)]
mod tests;
