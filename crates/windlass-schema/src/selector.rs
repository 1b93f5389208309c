//! Label and field selectors: the `labelSelector` and `fieldSelector` of a list or watch, and the `LabelSelector`
//! inside objects.
//!
//! Parsing takes what the real server takes and refuses the rest in its words; printing gives the form the real server
//! prints, which parses back to the same selector.

mod field;
mod label;
mod lexer;

pub use field::{FieldOperator, FieldSelector, FieldTerm};
pub use label::{LabelSelector, Operator, Requirement};

/// Why a selector was refused: 400 with this message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub(crate) String);

#[cfg(test)]
mod tests;
