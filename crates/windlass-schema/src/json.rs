//! JSON parsing and serialization with the behavior of kube-apiserver.
//!
//! Parsing is fast for valid bodies and exact for invalid ones: syntax errors have the text of Go's scanner, and
//! duplicate keys are found with their paths. Nesting deeper than [`MAX_DEPTH`] is rejected, so that no body can
//! exhaust the stack of code that walks the value later.

use std::borrow::Cow;

use serde_json::Value;

mod tree;

pub(crate) use tree::{Node, push_strict};
pub use windlass_json::{MAX_DEPTH, encode, encode_object, encode_pretty, format_float};

/// Reason why bytes are not JSON, worded as in Go's `encoding/json`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SyntaxError(pub String);

/// A parsed body, with the information needed to describe its errors.
#[derive(Debug, Clone)]
pub struct Document<'a> {
    /// The value; for a duplicate key, the last one.
    pub value: Value,
    pub(crate) source: Source<'a>,
}

#[derive(Debug, Clone)]
pub(crate) enum Source<'a> {
    /// JSON text, whose order matters for messages.
    Json { text: Cow<'a, str>, duplicates: bool },
    /// A value with sorted keys, and the errors found while it was built.
    Sorted { strict: Vec<String> },
}

impl From<Value> for Document<'_> {
    fn from(value: Value) -> Self {
        Self { value, source: Source::Sorted { strict: Vec::new() } }
    }
}

impl Document<'_> {
    /// Returns the messages for duplicate keys, in the order of the text: `duplicate field "data.a"`, or the message of
    /// the YAML decoder. For values without a schema; `decode::decode` reports those of typed values.
    pub fn duplicates(&self) -> Vec<String> {
        match &self.source {
            Source::Json { duplicates: false, .. } => Vec::new(),
            Source::Json { text, .. } => {
                windlass_json::parse_as::<Node>(text).map_or_else(|_| Vec::new(), |n| n.0.duplicates())
            }
            Source::Sorted { strict } => strict.clone(),
        }
    }

    /// Returns the value in the order of the text, if there is a string.
    pub(crate) fn ordered(&self) -> Option<Node> {
        match &self.source {
            Source::Json { text, .. } => windlass_json::parse_as::<Node>(text).ok().map(|(node, _)| node),
            Source::Sorted { .. } => None,
        }
    }
}

/// Parses JSON.
///
/// # Errors
/// Returns an error if the bytes are not exactly one JSON value.
pub fn parse(bytes: &[u8]) -> Result<Document<'_>, SyntaxError> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(replace_invalid(bytes)),
    };
    let (value, duplicates) = windlass_json::parse(&text).map_err(SyntaxError)?;
    Ok(Document { value, source: Source::Json { text, duplicates } })
}

/// Replaces every byte that is not UTF-8 with U+FFFD, like Go's decoder.
fn replace_invalid(mut bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 16);
    loop {
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                out.push_str(text);
                return out;
            }
            Err(error) => {
                let (good, bad) = bytes.split_at(error.valid_up_to());
                out.push_str(std::str::from_utf8(good).unwrap_or_default());
                out.push('\u{fffd}');
                bytes = &bad[1..];
            }
        }
    }
}

#[cfg(test)]
mod tests;
