//! Uniqueness of elements in lists of type set or map.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{Additional, ListType, Structural};
use crate::field::{ErrorKind, ErrorList, FieldError, Path, show};
use crate::go_format::marshal;
use crate::json;

impl Structural {
    /// Validates that lists of type set or map have no duplicate elements.
    pub fn validate_lists(&self, object: &Value) -> ErrorList {
        let mut errors = Vec::new();
        if let Value::Object(map) = object {
            fields(&Path::root(), self, map, &mut errors);
        }
        errors
    }
}

fn fields(path: &Path, schema: &Structural, map: &Map<String, Value>, errors: &mut ErrorList) {
    if let Additional::Schema(schema) = &schema.additional
        && schema.may_have_keyed_lists()
    {
        for (name, value) in map {
            if value.is_array() || value.is_object() {
                below(&path.key(name), schema, value, errors);
            }
        }
    }
    for (name, value) in map {
        if let Some(property) = schema.properties.get(name)
            && (value.is_array() || value.is_object())
            && property.may_have_keyed_lists()
        {
            below(&path.child(name), property, value, errors);
        }
    }
}

fn below(path: &Path, schema: &Structural, value: &Value, errors: &mut ErrorList) {
    match value {
        Value::Array(items) => list(path, schema, items, errors),
        Value::Object(map) => fields(path, schema, map, errors),
        _ => {}
    }
}

fn list(path: &Path, schema: &Structural, items: &[Value], errors: &mut ErrorList) {
    match &schema.list_type {
        ListType::Set => {
            for index in repeated(items.iter().map(Some)) {
                errors.push(duplicate(&path.index(index), show(&items[index])));
            }
        }
        ListType::Map(keys) => map_list(path, keys, items, errors),
        ListType::Absent | ListType::Atomic => {}
    }
    if let Some(element) = schema.items.as_deref()
        && element.may_have_keyed_lists()
    {
        for (index, item) in items.iter().enumerate() {
            if item.is_array() || item.is_object() {
                below(&path.index(index), element, item, errors);
            }
        }
    }
}

fn map_list(path: &Path, keys: &[String], items: &[Value], errors: &mut ErrorList) {
    if let Some(index) = items.iter().position(|item| !item.is_null() && !item.is_object()) {
        errors.push(FieldError {
            kind: ErrorKind::Invalid,
            field: path.index(index).to_string(),
            value: Some(show(&items[index])),
            detail: "must be an object for an array of list-type map".to_owned(),
        });
        return;
    }
    if let [key] = keys {
        for index in repeated(items.iter().map(|item| item.get(key))) {
            errors.push(duplicate(&path.index(index), marshal(&identity(keys, &items[index]))));
        }
        return;
    }
    let identities: Vec<Value> = items.iter().map(|item| identity(keys, item)).collect();
    for index in repeated(identities.iter().map(Some)) {
        errors.push(duplicate(&path.index(index), marshal(&identities[index])));
    }
}

/// Returns the keys of an element that are present, with their values.
fn identity(keys: &[String], item: &Value) -> Value {
    keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone()))).collect::<Map<_, _>>().into()
}

fn duplicate(path: &Path, shown: String) -> FieldError {
    FieldError { kind: ErrorKind::Duplicate, field: path.to_string(), value: Some(shown), detail: String::new() }
}

/// Returns the positions of duplicate values. Integers and floats differ, but not inside lists and objects.
fn repeated<'a>(values: impl ExactSizeIterator<Item = Option<&'a Value>>) -> Vec<usize> {
    if values.len() < 2 {
        return Vec::new();
    }
    let mut seen: HashMap<(u8, Cow<'a, str>), bool> = HashMap::with_capacity(values.len());
    let mut out = Vec::new();
    for (index, value) in values.enumerate() {
        match seen.get_mut(&key(value)) {
            Some(reported) if *reported => {}
            Some(reported) => {
                *reported = true;
                out.push(index);
            }
            None => drop(seen.insert(key(value), false)),
        }
    }
    out
}

fn key(value: Option<&Value>) -> (u8, Cow<'_, str>) {
    match value {
        None => (0, Cow::Borrowed("")),
        Some(Value::String(text)) => (1, Cow::Borrowed(text)),
        Some(compound @ (Value::Array(_) | Value::Object(_))) => {
            (2, Cow::Owned(String::from_utf8_lossy(&json::encode(compound)).into_owned()))
        }
        Some(scalar) => (3, Cow::Owned(scalar.to_string())),
    }
}
