//! YAML parsing and serialization like kube-apiserver's library: YAML 1.1, converted to and from JSON.
//!
//! `y`, `on` and `no` are booleans, even as keys; `0o17`, `017` and `1_000` are numbers; `<<` merges; only the first
//! document is parsed. Alias expansion (in nodes and in bytes) and nesting are limited.

use std::borrow::Cow;

use serde_json::Value;

use crate::json::{Document, Source};

mod convert;
mod documents;
mod emit;
mod errors;
mod load;
mod relax;
mod resolve;

pub use documents::{documents, is_blank};
pub use emit::to_yaml;
use load::Failure;

/// Reason why bytes are not YAML that can be converted to JSON, worded as in kube-apiserver: `yaml: line 1: did not
/// find expected node content`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct YamlError(pub String);

/// Parses the first document. Duplicate keys are not an error; [`Document::duplicates`] lists them.
///
/// # Errors
/// Returns an error if the bytes are not YAML, or are YAML that cannot be represented in JSON.
pub fn parse(bytes: &[u8]) -> Result<Document<'static>, YamlError> {
    let text = String::from_utf8_lossy(bytes);
    if matches!(text, Cow::Owned(_)) {
        return Err(YamlError("yaml: invalid leading UTF-8 octet".to_owned()));
    }
    let tree = load::load(&text).or_else(|failure| match failure {
        Failure::Fatal(message) => Err(YamlError(message)),
        Failure::Strict(message) => load::load(&relax::relaxed(&text)).map_err(|_| YamlError(message)),
    })?;
    let (value, duplicates) = convert::convert(&tree, &text).map_err(YamlError)?;
    let strict = match duplicates.is_empty() {
        true => Vec::new(),
        false => vec![format!("yaml: unmarshal errors:\n  {}", duplicates.join("\n  "))],
    };
    Ok(Document { value, source: Source::Sorted { strict } })
}

/// Parses the first document as a value.
///
/// # Errors
/// See [`parse`].
pub fn to_json_value(text: &str) -> Result<Value, YamlError> {
    parse(text.as_bytes()).map(|document| document.value)
}

#[cfg(test)]
mod tests;
