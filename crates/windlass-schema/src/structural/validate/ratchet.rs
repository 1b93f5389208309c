//! Ratcheting: comparing parts of an object with the corresponding parts of the old object.
//!
//! Fields correspond by name, elements of a list of type map by their keys, and elements of other lists not at all.
//! Only parts that the schema describes correspond: an object with undeclared fields counts as changed.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;

use crate::field::quote;
use crate::structural::number::Num;
use crate::structural::{Additional, Kind, ListType, Structural};

/// Returns whether a value is unchanged.
pub(super) fn same(schema: &Structural, new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Array(items), Value::Array(before)) => {
            if items.len() != before.len() {
                return false;
            }
            if !matches!(schema.list_type, ListType::Map(_)) {
                return items == before;
            }
            let Some(element) = schema.items.as_deref() else { return items.is_empty() };
            let Some(before) = Elements::of(schema, Some(old)) else { return items.is_empty() };
            items.iter().all(|item| before.find(item).is_some_and(|old| same(element, item, old)))
        }
        (Value::Object(map), Value::Object(before)) => {
            map.len() == before.len()
                && map.iter().all(|(name, value)| {
                    let child = match (schema.properties.get(name), &schema.additional) {
                        (Some(property), _) => Some(property),
                        (None, Additional::Schema(schema)) => Some(&**schema),
                        (None, _) => None,
                    };
                    matches!((child, before.get(name)), (Some(child), Some(old)) if same(child, value, old))
                })
        }
        (new, old) => new == old,
    }
}

/// Elements of an old list to match with new ones.
pub(super) struct Elements<'v> {
    keys: &'v [String],
    by_key: HashMap<Cow<'v, str>, &'v Value>,
}

impl<'v> Elements<'v> {
    /// Returns `None` unless the list is of type map and has elements.
    pub(super) fn of(schema: &'v Structural, old: Option<&'v Value>) -> Option<Self> {
        let ListType::Map(keys) = &schema.list_type else { return None };
        let before = old?.as_array()?;
        if schema.kind != Some(Kind::Array) || keys.is_empty() || before.is_empty() {
            return None;
        }
        let mut by_key = HashMap::with_capacity(before.len());
        for item in before {
            if let Some(key) = key(keys, item) {
                by_key.entry(key).or_insert(item);
            }
        }
        Some(Self { keys, by_key })
    }

    /// Returns the first old element with the keys of a new one.
    pub(super) fn find(&self, item: &Value) -> Option<&'v Value> {
        self.by_key.get(&*key(self.keys, item)?).copied()
    }
}

/// Returns the keys of an element as text, if it has all of them and they are scalars.
fn key<'v>(keys: &[String], item: &'v Value) -> Option<Cow<'v, str>> {
    let map = item.as_object()?;
    if let [key] = keys {
        return Some(match map.get(key)? {
            Value::String(text) => Cow::Borrowed(text.as_str()),
            // Prefixed with a control character, which no string key starts with by accident.
            scalar @ (Value::Bool(_) | Value::Number(_)) => Cow::Owned(format!("\u{1}{scalar}")),
            _ => return None,
        });
    }
    let mut out = String::new();
    for key in keys {
        out.push('\0');
        out.push_str(&match map.get(key)? {
            Value::String(text) => quote(text),
            Value::Bool(flag) => flag.to_string(),
            Value::Number(number) => match Num::of(number) {
                Num::Int(n) => n.to_string(),
                Num::Float(f) => format!("{f:.6}"),
            },
            _ => return None,
        });
    }
    Some(Cow::Owned(out))
}
