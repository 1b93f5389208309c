//! Field errors: validation errors for one field of an object, worded as in kube-apiserver.

use std::fmt;

use serde_json::Value;

use crate::go_format;
pub use crate::go_format::quote;

/// A path to a field: `spec.containers[0].name`, `metadata.labels[app]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Path(String);

impl Path {
    /// Returns a path with one name; an empty name is the root.
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Returns the root of the object.
    pub fn root() -> Self {
        Self::default()
    }

    /// Returns the child with a name.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self([&*self.0, ".", name].concat()) }
    }

    /// Returns the element of a list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.key(&index.to_string())
    }

    /// Returns the entry of a map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self([&*self.0, "[", key, "]"].concat())
    }

    /// Returns the path as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("<nil>") } else { f.write_str(&self.0) }
    }
}

/// The type of a field error; determines the message and the reason of the cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// A referenced value does not exist.
    NotFound,
    /// A value is missing.
    Required,
    /// A value is a duplicate.
    Duplicate,
    /// A value is malformed.
    Invalid,
    /// A value is not one of the supported values.
    NotSupported,
    /// A value is not allowed in this situation.
    Forbidden,
    /// A string or collection is too long.
    TooLong,
    /// A list has too many items.
    TooMany,
    /// A list has too few items.
    TooFew,
    /// An internal error that the user did not cause.
    Internal,
    /// A value has the wrong type.
    TypeInvalid,
}

impl ErrorKind {
    /// Returns the beginning of the message.
    pub fn text(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::Internal => "Internal error",
        }
    }

    /// Returns the reason in `details.causes` of a Status.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }
}

/// A validation error of one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// The type of error.
    pub kind: ErrorKind,
    /// Path of the field.
    pub field: String,
    /// The invalid value, formatted for the message; `None` if the message contains no value.
    pub value: Option<String>,
    /// The rest of the message.
    pub detail: String,
}

/// The errors of an object, in the order in which they were found.
pub type ErrorList = Vec<FieldError>;

/// Formats a value for a field error: strings quoted, other scalars plain, everything else as JSON.
pub fn show(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Number(_) | Value::Bool(_) => go_format::plain(value),
        other => go_format::marshal(other),
    }
}

impl FieldError {
    /// Returns `Invalid value: <value>: <detail>`.
    pub fn invalid(path: &Path, value: &Value, detail: impl Into<String>) -> Self {
        Self::with(ErrorKind::Invalid, path, Some(show(value)), detail)
    }

    /// Returns `Required value[: <detail>]`.
    pub fn required(path: &Path, detail: impl Into<String>) -> Self {
        Self::with(ErrorKind::Required, path, None, detail)
    }

    /// Returns `Duplicate value: <value>`.
    pub fn duplicate(path: &Path, value: &Value) -> Self {
        Self::with(ErrorKind::Duplicate, path, Some(show(value)), "")
    }

    /// Returns `Not found: <value>`.
    pub fn not_found(path: &Path, value: &Value) -> Self {
        Self::with(ErrorKind::NotFound, path, Some(show(value)), "")
    }

    /// Returns `Forbidden: <detail>`.
    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Self {
        Self::with(ErrorKind::Forbidden, path, None, detail)
    }

    /// Returns `Unsupported value: <value>: supported values: "a", "b"`; the values are listed in the given order.
    pub fn not_supported(path: &Path, value: &Value, supported: &[&str]) -> Self {
        let list: Vec<_> = supported.iter().map(|v| quote(v)).collect();
        let detail = if list.is_empty() { String::new() } else { format!("supported values: {}", list.join(", ")) };
        Self::with(ErrorKind::NotSupported, path, Some(show(value)), detail)
    }

    /// Returns `Too long: may not be more than <max> bytes`.
    pub fn too_long(path: &Path, max: usize) -> Self {
        Self::with(ErrorKind::TooLong, path, None, format!("may not be more than {max} bytes"))
    }

    /// Returns `Too many: <actual>: must have at most <max> items`.
    pub fn too_many(path: &Path, actual: usize, max: usize) -> Self {
        let items = if max == 1 { "item" } else { "items" };
        Self::with(ErrorKind::TooMany, path, Some(actual.to_string()), format!("must have at most {max} {items}"))
    }

    fn with(kind: ErrorKind, path: &Path, value: Option<String>, detail: impl Into<String>) -> Self {
        Self { kind, field: path.to_string(), value, detail: detail.into() }
    }

    /// Returns the message without the field, as in `details.causes`.
    pub fn body(&self) -> String {
        let mut out = self.kind.text().to_owned();
        if let Some(value) = &self.value {
            out.push_str(": ");
            out.push_str(value);
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}
