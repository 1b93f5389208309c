//! Strategic merge patch: a merge patch that knows, from the types of built-in kinds, which lists merge by key.
//!
//! Directives in the patch: `$patch: delete|replace` in a map or a list element, `$retainKeys`,
//! `$deleteFromPrimitiveList/<field>` and `$setElementOrder/<field>`. Map entries are processed in key order, so the
//! same patch always has the same result, including the same error.

mod list;
mod order;
mod schema;

use std::{collections::HashSet, mem};

use serde_json::{Map, Value};
use windlass_schema::sorting::Gather as _;
use windlass_schema::types::{StructId, TypeTable};

use self::schema::Node;
use crate::{
    decode::{self, Decoded},
    depth,
    go_format::{self, json_type},
    json_patch::Checks,
};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";

/// Reason why a patch failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The body or a directive is malformed: 400 with this message.
    #[error("{0}")]
    Malformed(String),
    /// A list of lists cannot be merged: 422; clients see only [`json_patch::Error::REJECTED`].
    ///
    /// [`json_patch::Error::REJECTED`]: crate::json_patch::Error::REJECTED
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// The patch does not fit the type or the object. kube-apiserver responds 500 with this message and no reason.
    #[error("{0}")]
    Mismatch(String),
}

impl Error {
    /// Returns the HTTP status of the error.
    pub fn status(&self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::ListOfLists => 422,
            Self::Mismatch(_) => 500,
        }
    }

    /// Returns the message that clients see.
    pub fn client_message(&self) -> String {
        match self {
            Self::ListOfLists => crate::json_patch::Error::REJECTED.to_owned(),
            other => other.to_string(),
        }
    }

    fn no_merge_key(map: &Value, key: &str) -> Self {
        Self::Mismatch(format!("map: {} does not contain declared merge key: {key}", go_format::plain(map)))
    }

    fn wrong_type(expected: &Value, found: &Value) -> Self {
        let (expected, found) = (go_format::type_name(expected), go_format::type_name(found));
        Self::Mismatch(format!("expected a {expected}, but received a {found}"))
    }

    fn not_a_map(found: &Value) -> Self {
        Self::wrong_type(&Value::Object(Map::new()), found)
    }

    fn not_a_list(found: &Value) -> Self {
        Self::wrong_type(&Value::Array(Vec::new()), found)
    }

    fn unknown_directive(directive: &Value, map: &Value) -> Self {
        let (directive, map) = (go_format::verb_s(directive), go_format::plain(map));
        Self::Mismatch(format!("unknown patch type: {directive} in map: {map}"))
    }

    fn bad_retain_keys() -> Self {
        Self::Malformed("invalid patch format of retainKeys".to_owned())
    }

    fn bad_primitive_list() -> Self {
        Self::Malformed("invalid patch format of primitive list".to_owned())
    }

    fn bad_element_order() -> Self {
        Self::Malformed("invalid patch format of setElementOrder list".to_owned())
    }
}

/// Decodes a strategic merge patch body, which must be an object.
pub fn decode(bytes: &[u8], checks: Checks) -> Result<Decoded, Error> {
    let mut decoded = decode::decode(bytes).map_err(Error::Malformed)?;
    if checks == Checks::Lenient {
        decoded.duplicates.clear();
    }
    match &decoded.value {
        Value::Object(_) => Ok(decoded),
        Value::Null => Ok(Decoded { value: Value::Object(Map::new()), ..decoded }),
        other => Err(Error::Malformed(not_an_object(other))),
    }
}

/// Applies a patch to an object of a built-in type.
pub fn apply(mut doc: Value, patch: Value, ty: StructId, table: &TypeTable) -> Result<Value, Error> {
    let patch = match patch {
        Value::Object(patch) => patch,
        Value::Null => return Ok(doc),
        other => return Err(Error::Malformed(not_an_object(&other))),
    };
    if patch.values().any(|value| depth::exceeds(value, crate::MAX_DEPTH - 1)) {
        return Err(Error::Malformed("exceeded max depth".to_owned()));
    }
    let Value::Object(object) = &mut doc else { return Err(Error::not_a_map(&doc)) };
    merge_map(object, patch, Node::root(ty, table))?;
    Ok(doc)
}

fn not_an_object(value: &Value) -> String {
    format!("json: cannot unmarshal {} into Go value of type map[string]interface {{}}", json_type(value))
}

/// Merges a patch into a map in place.
fn merge_map(original: &mut Map<String, Value>, mut patch: Map<String, Value>, node: Node<'_>) -> Result<(), Error> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                *original = patch;
            }
            Some("delete") => original.clear(),
            _ => {
                let directive = directive.clone();
                return Err(Error::unknown_directive(&directive, &Value::Object(patch)));
            }
        }
        return Ok(());
    }
    retain_keys(original, &mut patch)?;
    list::merge_ordered(original, &mut patch, node)?;
    for (key, value) in patch {
        merge_entry(original, key, value, node)?;
    }
    Ok(())
}

fn merge_entry(
    original: &mut Map<String, Value>,
    mut key: String,
    mut value: Value,
    node: Node<'_>,
) -> Result<(), Error> {
    let deletes = key.starts_with(DELETE_FROM_LIST);
    if deletes {
        let field = directive_field(&key, DELETE_FROM_LIST).ok_or_else(Error::bad_primitive_list)?;
        if !field.is_empty() {
            key = field.to_owned();
        }
    }
    if value.is_null() {
        original.remove(&key);
        return Ok(());
    }
    match (original.get_mut(&key), value) {
        (Some(Value::Object(current)), Value::Object(patch)) => {
            let field = node.field(&key)?;
            if field.replaces() {
                *current = patch;
                return Ok(());
            }
            merge_map(current, patch, field.node())
        }
        (Some(Value::Array(current)), Value::Array(patch)) => {
            let (field, element) = node.list_field(&key)?;
            if deletes || field.merges() {
                let merged = list::merge(mem::take(current), patch, element, field.merge_key(), deletes)?;
                *current = merged;
            } else {
                *current = patch;
            }
            Ok(())
        }
        // Scalars of one type replace each other even in a field named like a deletion list.
        (current, patch) if !deletes || current.as_deref().is_some_and(|current| same_scalar_type(current, &patch)) => {
            value = patch;
            discard_nulls(&mut value);
            match without_directives(value) {
                Some(value) => original.insert(key, value),
                None => original.remove(&key),
            };
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Applies `$retainKeys`: fields that the list does not name are dropped from the original, and not allowed in the
/// patch.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), Error> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(keys) = directive else { return Err(Error::bad_retain_keys()) };
    let keys: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let retained = |key: &str| keys.contains(key);
    for (key, value) in patch.iter() {
        let exempt = value.is_null() || key.starts_with(DELETE_FROM_LIST) || key.starts_with(ELEMENT_ORDER);
        if !exempt && !retained(key) {
            return Err(Error::bad_retain_keys());
        }
    }
    original.retain(|key, _| retained(key));
    Ok(())
}

/// Returns the field that a directive's key refers to: `ports` for `$setElementOrder/ports`.
fn directive_field<'a>(key: &'a str, prefix: &str) -> Option<&'a str> {
    key.strip_prefix(prefix)?.strip_prefix('/')
}

fn same_scalar_type(left: &Value, right: &Value) -> bool {
    !matches!(left, Value::Array(_) | Value::Object(_) | Value::Null)
        && go_format::type_name(left) == go_format::type_name(right)
}

/// Drops null entries from maps at every level.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|_, item| {
            discard_nulls(item);
            !item.is_null()
        }),
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// Returns a value without the maps that contain a `$patch` directive; `None` if it is such a map itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(Value::Object(
            map.into_iter().filter_map(|(key, item)| Some((key, without_directives(item)?))).gather(),
        )),
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        scalar => Some(scalar),
    }
}
