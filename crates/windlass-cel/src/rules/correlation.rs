//! Correlates old values with new ones: which list elements correspond, and whether anything changed.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::Write;

use serde_json::{Map, Value};
use windlass_schema::structural::{Additional, Kind, ListType, Structural};

/// A value and its old value.
pub(super) struct Correlated<'a> {
    new: &'a Value,
    old: &'a Value,
    schema: &'a Structural,
    unchanged: Cell<Option<bool>>,
}

impl<'a> Correlated<'a> {
    pub(super) fn new(new: &'a Value, old: &'a Value, schema: &'a Structural) -> Self {
        Self { new, old, schema, unchanged: Cell::new(None) }
    }

    /// Returns the field of an object or the entry of a map, if it is in both and in the schema.
    pub(super) fn key(&self, name: &str) -> Option<Self> {
        let (new, old) = (self.new.as_object()?.get(name)?, self.old.as_object()?.get(name)?);
        let schema = match (self.schema.properties.get(name), &self.schema.additional) {
            (Some(property), _) => property,
            (None, Additional::Schema(values)) => values,
            _ => return None,
        };
        Some(Self::new(new, old, schema))
    }

    /// Returns an element of a list of type map, with the old one of the same key.
    pub(super) fn element(&self, new: &'a Value, old: Option<&'a Value>) -> Option<Self> {
        match (&self.schema.list_type, &self.schema.items) {
            (ListType::Map(_), Some(items)) => Some(Self::new(new, old?, items)),
            _ => None,
        }
    }

    /// Returns whether nothing changed. As in kube-apiserver, data that is not in the schema counts as changed.
    pub(super) fn is_unchanged(&self) -> bool {
        if let Some(known) = self.unchanged.get() {
            return known;
        }
        let unchanged = self.compare();
        self.unchanged.set(Some(unchanged));
        unchanged
    }

    fn compare(&self) -> bool {
        match (self.new, self.old) {
            (Value::Array(new), Value::Array(old)) => {
                if new.len() != old.len() {
                    return false;
                }
                let (ListType::Map(_), true) = (&self.schema.list_type, !new.is_empty()) else { return new == old };
                let old = KeyedList::new(self.schema, Some(self.old));
                new.iter().all(|item| self.element(item, old.get(item)).is_some_and(|child| child.is_unchanged()))
            }
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len()
                    && new.keys().all(|name| self.key(name).is_some_and(|child| child.is_unchanged()))
            }
            (new, old) => new == old,
        }
    }
}

/// A list whose elements can be looked up by their keys; empty for other lists.
pub(super) struct KeyedList<'a> {
    keys: &'a [String],
    items: HashMap<String, &'a Value>,
}

impl<'a> KeyedList<'a> {
    pub(super) fn new(schema: &'a Structural, list: Option<&'a Value>) -> Self {
        let mut keyed = Self { keys: &[], items: HashMap::new() };
        let (Some(Kind::Array), ListType::Map(keys), Some(Value::Array(list))) = (schema.kind, &schema.list_type, list)
        else {
            return keyed;
        };
        keyed.keys = keys;
        for item in list {
            if let Some(key) = keyed.key(item) {
                keyed.items.entry(key).or_insert(item);
            }
        }
        keyed
    }

    /// Returns the first element with the same keys as the given one.
    pub(super) fn get(&self, item: &Value) -> Option<&'a Value> {
        if self.items.is_empty() {
            return None;
        }
        self.items.get(&self.key(item)?).copied()
    }

    fn key(&self, item: &Value) -> Option<String> {
        let fields = item.as_object()?;
        let mut out = String::new();
        if self.keys.is_empty() {
            return None;
        }
        for key in self.keys {
            write_key(&mut out, fields, key, self.keys.len() == 1)?;
        }
        Some(out)
    }
}

/// Keys are scalars. Several keys are compared in printed form, which for floats has six digits.
fn write_key(out: &mut String, fields: &Map<String, Value>, key: &str, only: bool) -> Option<()> {
    out.push('\0');
    match fields.get(key)? {
        Value::Bool(value) => write!(out, "{value}"),
        Value::String(text) => write!(out, "{text:?}"),
        Value::Number(number) if number.is_f64() && !only => write!(out, "{:.6}", number.as_f64()?),
        Value::Number(number) => write!(out, "{number}"),
        _ => return None,
    }
    .ok()
}
