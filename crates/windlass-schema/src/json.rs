//! JSON in and out, as the real server reads and writes it.
//!
//! Reading is fast where the body is good and exact where it is not: syntax errors have the words of Go's scanner, and
//! duplicate keys are found with their paths. Nesting beyond [`MAX_DEPTH`] is refused, so that no body can exhaust the
//! stack of whoever walks the value afterwards.

use std::borrow::Cow;

use serde_json::Value;

mod encode;
mod parser;
mod tree;

pub use encode::{encode, encode_object, encode_pretty, format_float};
pub(crate) use tree::{Node, push_strict};

/// How deep objects and lists may nest. Go allows ten thousand; nobody writes a hundred.
pub const MAX_DEPTH: usize = 1000;

/// Why bytes are not JSON, in the words of Go's `encoding/json`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SyntaxError(pub String);

/// A parsed body together with what is needed to say what is wrong with it.
#[derive(Debug, Clone)]
pub struct Document<'a> {
    /// The value; of a key that stands twice, the last.
    pub value: Value,
    pub(crate) source: Source<'a>,
}

#[derive(Debug, Clone)]
pub(crate) enum Source<'a> {
    /// JSON text, whose order matters to messages.
    Json { text: Cow<'a, str>, duplicates: bool },
    /// A value whose keys are in order, with what was found wrong while it was made.
    Sorted { strict: Vec<String> },
}

impl From<Value> for Document<'_> {
    fn from(value: Value) -> Self {
        Self { value, source: Source::Sorted { strict: Vec::new() } }
    }
}

impl Document<'_> {
    /// The messages for keys that stand twice, in the order of the text: `duplicate field "data.a"`, or what the YAML
    /// decoder says. For values without a schema; those with one are told by `decode::decode`.
    pub fn duplicates(&self) -> Vec<String> {
        match &self.source {
            Source::Json { duplicates: false, .. } => Vec::new(),
            Source::Json { text, .. } => parser::parse::<Node>(text).map_or_else(|_| Vec::new(), |n| n.0.duplicates()),
            Source::Sorted { strict } => strict.clone(),
        }
    }

    /// The text with its order, if there is one.
    pub(crate) fn ordered(&self) -> Option<Node> {
        match &self.source {
            Source::Json { text, .. } => parser::parse::<Node>(text).ok().map(|(node, _)| node),
            Source::Sorted { .. } => None,
        }
    }
}

/// Reads JSON.
///
/// # Errors
/// When the bytes are not one JSON value.
pub fn parse(bytes: &[u8]) -> Result<Document<'_>, SyntaxError> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(replace_invalid(bytes)),
    };
    let (value, duplicates) = parser::parse::<Value>(&text).map_err(SyntaxError)?;
    Ok(Document { value, source: Source::Json { text, duplicates } })
}

/// Replaces every byte that is not UTF-8 by U+FFFD, as Go's decoder does.
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
