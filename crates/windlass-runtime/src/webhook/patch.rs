//! The JSON patch (RFC 6902) from the object that the API server sent to the one that a handler returned.
//!
//! The received object and the Rust type differ: the server may know fields that the type does not, and the type may
//! omit zero values or add defaults. So the patch is computed in two steps: [`transfer`] applies the difference between
//! the objects before and after the handler, both as the type serializes them, to the received object; [`diff`]
//! compares the received object with the result. A field that the handler did not touch is never in the patch.

mod align;

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use align::{Pair, align};

/// A JSON patch with only `add`, `remove` and `replace`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub(super) struct Patch(Vec<Change>);

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Change {
    Add { path: String, value: Value },
    Remove { path: String },
    Replace { path: String, value: Value },
}

impl Patch {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets a field whose parent exists.
    pub(super) fn add(&mut self, path: impl Into<String>, value: Value) {
        self.0.push(Change::Add { path: path.into(), value });
    }
}

/// Returns the received value with the changes from `before` to `after`.
///
/// Unchanged parts stay as received, however the type serializes them. A part that the received value does not have is
/// copied completely.
pub(super) fn transfer(received: &Value, before: &Value, after: &Value) -> Value {
    if before == after {
        return received.clone();
    }
    match (received, before, after) {
        (Value::Object(received), Value::Object(before), Value::Object(after)) => {
            Value::Object(transfer_object(received, before, after))
        }
        (Value::Array(received), Value::Array(before), Value::Array(after)) if received.len() == before.len() => {
            Value::Array(transfer_array(received, before, after))
        }
        _ => after.clone(),
    }
}

fn transfer_object(
    received: &Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Map<String, Value> {
    let mut result = received.clone();
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        result.remove(key);
    }
    for (key, new) in after {
        let value = match (received.get(key), before.get(key)) {
            (_, Some(old)) if old == new => continue,
            (Some(received), Some(old)) => transfer(received, old, new),
            _ => new.clone(),
        };
        result.insert(key.clone(), value);
    }
    result
}

/// Elements that the handler kept or changed keep fields that the type does not know.
fn transfer_array(received: &[Value], before: &[Value], after: &[Value]) -> Vec<Value> {
    let pairs = align(before, after);
    let transferred = pairs.into_iter().filter_map(|pair| match pair {
        Pair::Both(old, new) => Some(transfer(&received[old], &before[old], &after[new])),
        Pair::Old(_) => None,
        Pair::New(new) => Some(after[new].clone()),
    });
    transferred.collect()
}

/// Returns the patch from `from` to `to`.
pub(super) fn diff(from: &Value, to: &Value) -> Patch {
    let mut patch = Patch::default();
    diff_value(&mut patch.0, &mut String::new(), from, to);
    patch
}

fn diff_value(changes: &mut Vec<Change>, path: &mut String, from: &Value, to: &Value) {
    match (from, to) {
        _ if from == to => {}
        (Value::Object(from), Value::Object(to)) => diff_object(changes, path, from, to),
        (Value::Array(from), Value::Array(to)) => diff_array(changes, path, from, to),
        _ => changes.push(Change::Replace { path: path.clone(), value: to.clone() }),
    }
}

fn diff_object(changes: &mut Vec<Change>, path: &mut String, from: &Map<String, Value>, to: &Map<String, Value>) {
    for (key, old) in from {
        at(path, &escape(key), |path| match to.get(key) {
            Some(new) => diff_value(changes, path, old, new),
            None => changes.push(Change::Remove { path: path.clone() }),
        });
    }
    for (key, new) in to.iter().filter(|(key, _)| !from.contains_key(*key)) {
        at(path, &escape(key), |path| changes.push(Change::Add { path: path.clone(), value: new.clone() }));
    }
}

/// Each change applies to the array that the changes before it left, so indices refer to the intermediate array.
fn diff_array(changes: &mut Vec<Change>, path: &mut String, from: &[Value], to: &[Value]) {
    let mut index = 0;
    for pair in align(from, to) {
        at(path, &index.to_string(), |path| match pair {
            Pair::Both(old, new) => diff_value(changes, path, &from[old], &to[new]),
            Pair::Old(_) => changes.push(Change::Remove { path: path.clone() }),
            Pair::New(new) => changes.push(Change::Add { path: path.clone(), value: to[new].clone() }),
        });
        if !matches!(pair, Pair::Old(_)) {
            index += 1;
        }
    }
}

fn at(path: &mut String, segment: &str, then: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    path.push_str(segment);
    then(path);
    path.truncate(length);
}

/// Escapes a key as a segment of a JSON pointer.
fn escape(key: &str) -> Cow<'_, str> {
    match key.contains(['~', '/']) {
        true => key.replace('~', "~0").replace('/', "~1").into(),
        false => key.into(),
    }
}

#[cfg(test)]
mod tests;
