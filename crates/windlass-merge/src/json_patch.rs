//! JSON patch (RFC 6902), with kube-apiserver's deviations from the RFC.
//!
//! - `replace` of a missing map key sets it; `add` and `replace` without a value set null; `copy` of a missing map key
//!   copies null.
//! - Index -1 is the last element (for `add`: the end).
//! - Anything before the first slash of a path is ignored.
//!
//! A patch is first decoded ([`Patch::decode`]; errors mean that the body is malformed) and then applied
//! ([`Patch::apply`]; errors mean that it does not fit the object).

mod pointer;

use serde_json::{Map, Value};
use windlass_schema::field::quote;

use crate::{decode, depth, go_format::json_type};

/// Maximum number of operations in a patch.
pub const MAX_OPERATIONS: usize = 10_000;
/// Maximum number of bytes that all `copy` operations of a patch may add in total.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;
/// Maximum number of values that all operations of a patch may visit or move in total: a few seconds of work.
const MAX_WORK: usize = 200_000_000;

/// Reason why a patch failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The body is not a JSON patch: 400 with this message.
    #[error("{0}")]
    Decode(String),
    /// The patch has too many operations: 413 with this message.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooManyOperations(usize),
    /// The patch does not fit the object: 422. Clients see only [`Error::REJECTED`]; this string is for logs.
    #[error("{0}")]
    Apply(String),
}

impl Error {
    /// The message that clients see for a patch that does not apply.
    pub const REJECTED: &'static str = "the server rejected our request due to an error in our request";

    /// Returns the HTTP status of the error.
    pub fn status(&self) -> u16 {
        match self {
            Self::Decode(_) => 400,
            Self::TooManyOperations(_) => 413,
            Self::Apply(_) => 422,
        }
    }

    /// Returns whether a `test` operation found another value.
    pub fn is_failed_test(&self) -> bool {
        matches!(self, Self::Apply(text) if text.ends_with(": test failed"))
    }

    /// Returns the message that clients see.
    pub fn client_message(&self) -> String {
        match self {
            Self::Apply(_) => Self::REJECTED.to_owned(),
            other => other.to_string(),
        }
    }
}

/// Whether a patch body is checked for unknown and duplicate fields (field validation `Warn` and `Strict`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checks {
    /// Unknown and duplicate fields are listed.
    Strict,
    /// They are ignored (field validation `Ignore`), and error messages differ.
    Lenient,
}

/// A decoded patch.
#[derive(Debug, Clone, PartialEq)]
pub struct Patch {
    operations: Vec<Map<String, Value>>,
    strict_errors: Vec<String>,
}

/// Decodes a patch and applies it to a document.
pub fn apply(doc: Value, patch: &[u8]) -> Result<Value, Error> {
    Patch::decode(patch, Checks::Strict)?.apply(doc)
}

impl Patch {
    /// Decodes a patch body.
    pub fn decode(bytes: &[u8], checks: Checks) -> Result<Self, Error> {
        let fail = |text: String| match checks {
            Checks::Strict => Error::Decode(format!("error decoding patch: {text}")),
            Checks::Lenient => Error::Decode(text),
        };
        let decoded = decode::decode(bytes).map_err(fail)?;
        let (list_type, item_type) = match checks {
            Checks::Strict => ("[]handlers.jsonPatchOp", "handlers.jsonPatchOp"),
            Checks::Lenient => ("jsonpatch.Patch", "jsonpatch.Operation"),
        };
        let items = match decoded.value {
            Value::Array(items) => items,
            Value::Null => Vec::new(),
            other => return Err(fail(mismatch(&other, list_type))),
        };
        let mut strict_errors = Vec::new();
        if checks == Checks::Strict {
            strict_errors.extend(decoded.duplicates.iter().map(|text| format!("json patch {text}")));
        }
        let mut operations = Vec::with_capacity(items.len());
        for (position, item) in items.into_iter().enumerate() {
            let operation = match item {
                Value::Object(operation) => operation,
                Value::Null => Map::new(),
                other => return Err(fail(mismatch(&other, item_type))),
            };
            if checks == Checks::Strict {
                check_fields(position, &operation, &mut strict_errors).map_err(fail)?;
            }
            operations.push(operation);
        }
        if operations.len() > MAX_OPERATIONS {
            return Err(Error::TooManyOperations(operations.len()));
        }
        Ok(Self { operations, strict_errors })
    }

    /// Returns a patch of operations that are already decoded.
    pub fn new(operations: Vec<Map<String, Value>>) -> Result<Self, Error> {
        if operations.len() > MAX_OPERATIONS {
            return Err(Error::TooManyOperations(operations.len()));
        }
        Ok(Self { operations, strict_errors: Vec::new() })
    }

    /// Returns whether the patch has no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Returns the JSON pointers that the operations name.
    pub fn pointers(&self) -> impl Iterator<Item = &str> {
        let named =
            |operation| ["path", "from"].into_iter().filter_map(move |field| Map::get(operation, field)?.as_str());
        self.operations.iter().flat_map(named)
    }

    /// Returns the errors of strict decoding, such as `json patch unknown field "[0].foo"`. The server reports each as
    /// a warning, or all of them as one error.
    pub fn strict_errors(&self) -> &[String] {
        &self.strict_errors
    }

    /// Applies the operations in order; on an error none of them takes effect.
    pub fn apply(self, doc: Value) -> Result<Value, Error> {
        let mut target = Target { doc, copied: 0, work: 0 };
        for operation in self.operations {
            target.run(operation).map_err(Error::Apply)?;
        }
        Ok(target.doc)
    }
}

fn mismatch(value: &Value, go_type: &str) -> String {
    format!("json: cannot unmarshal {} into Go value of type {go_type}", json_type(value))
}

fn check_fields(
    position: usize,
    operation: &Map<String, Value>,
    strict_errors: &mut Vec<String>,
) -> Result<(), String> {
    for (name, value) in operation {
        match name.as_str() {
            "op" | "path" | "from" => {
                if !matches!(value, Value::String(_) | Value::Null) {
                    let found = json_type(value);
                    let text = format!("json: cannot unmarshal {found} into Go struct field jsonPatchOp.{name}");
                    return Err(format!("{text} of type string"));
                }
            }
            "value" => {}
            unknown => {
                strict_errors.push(format!("json patch unknown field {}", quote(&format!("[{position}].{unknown}"))));
            }
        }
    }
    Ok(())
}

/// The document being patched, and the cost of the patch so far.
struct Target {
    doc: Value,
    copied: usize,
    work: usize,
}

impl Target {
    fn run(&mut self, mut operation: Map<String, Value>) -> Result<(), String> {
        let kind = match operation.get("op") {
            Some(Value::String(kind)) => kind.as_str(),
            _ => "unknown",
        };
        match kind {
            "add" => {
                let value = take_value(&mut operation);
                let path = text(&operation, "path", "add operation failed to decode path: missing value")?;
                self.add(path, value, "add operation does not apply: doc is missing path")
            }
            "remove" => {
                let path = text(&operation, "path", "remove operation failed to decode path: missing value")?;
                self.remove(path, "remove operation does not apply: doc is missing path").map(drop)
            }
            "replace" => {
                let value = take_value(&mut operation);
                let path = text(&operation, "path", "replace operation failed to decode path: missing value")?;
                self.replace(path, value)
            }
            "move" => {
                let from = text(&operation, "from", "move operation failed to decode from: missing value")?;
                let value = self.remove(from, "move operation does not apply: doc is missing from path")?;
                let path = text(&operation, "path", "move operation failed to decode path: missing value")?;
                self.add(path, value, "move operation does not apply: doc is missing destination path")
            }
            "test" => {
                let value = take_value(&mut operation);
                let path = text(&operation, "path", "test operation failed to decode path: missing value")?;
                self.test(path, &value)
            }
            "copy" => self.copy(&operation),
            other => Err(format!("Unexpected kind: {other}")),
        }
    }

    fn add(&mut self, path: &str, value: Value, missing: &str) -> Result<(), String> {
        let (container, key, level) =
            pointer::parent_mut(&mut self.doc, path).ok_or_else(|| format!("{missing}: {path:?}: missing value"))?;
        check_depth(path, &value, level, &mut self.work)?;
        match container {
            Value::Object(map) => {
                map.insert(key.into_owned(), value);
            }
            Value::Array(items) => {
                let index = pointer::insertion_index(&key, items.len())?;
                self.work += items.len() - index;
                check_work(self.work)?;
                items.insert(index, value);
            }
            _ => unreachable!("a parent must be a container"),
        }
        Ok(())
    }

    fn remove(&mut self, path: &str, missing: &str) -> Result<Value, String> {
        let (container, key, _) =
            pointer::parent_mut(&mut self.doc, path).ok_or_else(|| format!("{missing}: {path:?}: missing value"))?;
        match container {
            Value::Object(map) => {
                map.remove(&*key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value"))
            }
            Value::Array(items) => {
                let index = pointer::index(&key, items.len())?;
                self.work += items.len() - index;
                check_work(self.work)?;
                Ok(items.remove(index))
            }
            _ => unreachable!("a parent must be a container"),
        }
    }

    fn replace(&mut self, path: &str, value: Value) -> Result<(), String> {
        if path.is_empty() {
            if !matches!(value, Value::Object(_) | Value::Array(_)) {
                return Err("replace operation value must be object or array".to_owned());
            }
            self.doc = value;
            return Ok(());
        }
        let (container, key, level) = pointer::parent_mut(&mut self.doc, path)
            .ok_or_else(|| format!("replace operation does not apply: doc is missing path: {path}: missing value"))?;
        check_depth(path, &value, level, &mut self.work)?;
        match container {
            Value::Object(map) => {
                map.insert(key.into_owned(), value);
            }
            Value::Array(items) => {
                let index = pointer::index(&key, items.len()).map_err(|_| {
                    format!("replace operation does not apply: doc is missing key: {path}: missing value")
                })?;
                items[index] = value;
            }
            _ => unreachable!("a parent must be a container"),
        }
        Ok(())
    }

    fn test(&self, path: &str, expected: &Value) -> Result<(), String> {
        let found = if path.is_empty() {
            &self.doc
        } else {
            let (container, key) = pointer::parent(&self.doc, path)
                .ok_or_else(|| format!("test operation does not apply: is missing path: {path}: missing value"))?;
            pointer::child(container, &key).map_err(|error| format!("error in test for path: '{path}': {error}"))?
        };
        if found == expected { Ok(()) } else { Err(format!("testing value {path} failed: test failed")) }
    }

    fn copy(&mut self, operation: &Map<String, Value>) -> Result<(), String> {
        let from = text(operation, "from", "copy operation failed to decode from: missing value")?;
        let (container, key) = pointer::parent(&self.doc, from)
            .ok_or_else(|| format!("copy operation does not apply: doc is missing from path: {from}: missing value"))?;
        let source =
            pointer::child(container, &key).map_err(|error| format!("error in copy for from: '{from}': {error}"))?;
        let path = text(operation, "path", "copy operation failed to decode path: missing value")?;
        self.copied += pointer::encoded_length(source, MAX_COPIED_BYTES);
        if self.copied > MAX_COPIED_BYTES {
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {}",
                self.copied, MAX_COPIED_BYTES
            ));
        }
        let value = source.clone();
        self.add(path, value, "copy operation does not apply: doc is missing destination path")
    }
}

/// Takes the operation's value; null if it has none.
fn take_value(operation: &mut Map<String, Value>) -> Value {
    operation.remove("value").unwrap_or_default()
}

fn text<'a>(operation: &'a Map<String, Value>, name: &str, missing: &str) -> Result<&'a str, String> {
    operation.get(name).and_then(Value::as_str).ok_or_else(|| missing.to_owned())
}

fn check_depth(path: &str, value: &Value, level: usize, work: &mut usize) -> Result<(), String> {
    let allowed = crate::MAX_DEPTH.checked_sub(level);
    if allowed.is_none_or(|allowed| depth::exceeds_counting(value, allowed, work)) {
        return Err(format!("value at path {path:?} is nested too deeply"));
    }
    check_work(*work)
}

fn check_work(work: usize) -> Result<(), String> {
    if work > MAX_WORK { Err("the patch is too much work".to_owned()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
