//! Validation errors, worded as in kube-apiserver.

use std::fmt;

use serde_json::Value;

use crate::apply::path::PathElement;
use crate::go_format;

/// A validation error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidationError {
    /// Path of the value: `.spec.containers[name="x"]`; empty for the whole object.
    pub path: String,
    /// Description of the problem.
    pub message: String,
}

/// All validation errors of a value; never empty when returned as an error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ValidationErrors(pub Vec<ValidationError>);

impl ValidationErrors {
    pub(super) fn one(message: impl Into<String>) -> Self {
        Self(vec![ValidationError { path: String::new(), message: message.into() }])
    }

    /// Adds errors of the values below an element.
    pub(super) fn append_below(&mut self, element: impl FnOnce() -> PathElement, below: Self) {
        if below.0.is_empty() {
            return;
        }
        let prefix = element().to_string();
        self.0.extend(below.0.into_iter().map(|error| ValidationError { path: prefix.clone() + &error.path, ..error }));
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_result(self) -> Result<(), Self> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

impl fmt::Display for ValidationErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [error] = &*self.0 {
            return error.fmt(f);
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

impl std::error::Error for ValidationErrors {}

/// Formats a value as Go prints a wrapped one with `%v`.
pub(super) fn wrapped(value: &Value) -> String {
    format!("&{{{}}}", go_format::plain(value))
}

/// Formats a value as Go prints a wrapped one with `%#v`.
pub(super) fn wrapped_syntax(value: &Value) -> String {
    format!("&value.valueUnstructured{{Value:{}}}", go_format::syntax(value))
}
