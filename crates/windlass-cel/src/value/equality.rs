//! Equality of values of the object and computed values.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value as Json;
use windlass_schema::structural::ListType;

use super::{EvalError, Key, List, Map, Value, escape};

impl<'a> Value<'a> {
    /// `==`.
    ///
    /// # Errors
    /// Returns an error if a value of the object is compared with an incompatible one.
    pub fn equals(&self, other: &Value<'a>) -> Result<bool, EvalError> {
        match (self, other) {
            (Value::Null, Value::Null) => Ok(true),
            (Value::Null, _) | (_, Value::Null) => Ok(false),
            _ => self.equals_value(other),
        }
    }

    /// `==` of the left value's type, which may not support null.
    pub(crate) fn equals_value(&self, other: &Value<'a>) -> Result<bool, EvalError> {
        Ok(match (self, other) {
            (Value::Lost(value), _) => return Err(value.lost()),
            (Value::Null, other) => matches!(other, Value::Null),
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::String(a), Value::String(b)) => a == b,
            (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::Duration(a), Value::Duration(b)) => a == b,
            (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
            (Value::Type(a), Value::Type(b)) => a == b,
            (Value::Int(_) | Value::Uint(_) | Value::Double(_), Value::Int(_) | Value::Uint(_) | Value::Double(_)) => {
                self.compare(other).is_ok_and(std::cmp::Ordering::is_eq)
            }
            (Value::List(a), b) => return lists_equal(a, b),
            (Value::Map(a), b) => return maps_equal(a, b),
            (Value::Optional(a), Value::Optional(b)) => match (a, b) {
                (None, None) => true,
                (Some(a), Some(b)) => return a.equals_value(b),
                _ => false,
            },
            (Value::Opaque(a), b) => match b {
                Value::Opaque(b) => return a.equals(b).ok_or_else(EvalError::no_such_overload),
                _ => return Err(EvalError::no_such_overload()),
            },
            (Value::Struct(a), Value::Struct(b)) => return a.equals(b),
            (Value::Preserved(a), b) => equals_json(b, a),
            _ => false,
        })
    }

    /// `element in self`.
    ///
    /// # Errors
    /// Returns an error if the value is not a collection, or the element cannot be compared.
    pub fn contains(&self, element: &Value<'a>) -> Result<bool, EvalError> {
        match self {
            Value::Map(map) => Ok(map.find(element)?.is_some()),
            Value::List(list) => {
                let mut failure = None;
                for item in list.iter() {
                    let equal = match item {
                        Ok(item) if list.is_typed() => item.equals_value(element),
                        Ok(item) => item.equals(element),
                        Err(error) => Err(error),
                    };
                    match equal {
                        Ok(true) => return Ok(true),
                        Ok(false) => {}
                        Err(error) if list.is_typed() => failure = failure.or(Some(error)),
                        Err(_) => {}
                    }
                }
                failure.map_or(Ok(false), Err)
            }
            _ => Err(EvalError::no_such_overload()),
        }
    }
}

fn lists_equal<'a>(a: &List<'a>, b: &Value<'a>) -> Result<bool, EvalError> {
    let Value::List(b) = b else {
        return if a.is_typed() { Err(EvalError::no_such_overload()) } else { Ok(false) };
    };
    if a.len() != b.len() {
        return Ok(false);
    }
    match a.list_type() {
        ListType::Set => {
            let set = ElementSet::new(a.iter().filter_map(Result::ok));
            for other in b.iter() {
                if !set.contains(&other?) {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        ListType::Map(keys) => {
            let keys = escaped(keys);
            let mut items = HashMap::with_capacity(a.len());
            for item in a.iter().filter_map(Result::ok) {
                // Of elements with the same key, the last one is used.
                if let Some(key) = map_key(&item, &keys) {
                    items.insert(key, item);
                }
            }
            for other in b.iter() {
                let other = other?;
                match map_key(&other, &keys).and_then(|key| items.get(&key)) {
                    Some(item) if item.equals_value(&other)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        ListType::Absent | ListType::Atomic => {
            for (left, right) in a.iter().zip(b.iter()) {
                if a.is_typed() {
                    if !left?.equals_value(&right?)? {
                        return Ok(false);
                    }
                } else if let (Ok(left), Ok(right)) = (left, right)
                    && left.equals(&right) == Ok(false)
                {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

/// Returns the names of keys in the form used to look them up.
pub(super) fn escaped(keys: &[String]) -> Vec<String> {
    keys.iter().map(|key| escape(key).map_or_else(|| key.clone(), |written| written.into_owned())).collect()
}

/// Returns the text that identifies an element of a list; `None` for elements that are not objects.
pub(super) fn map_key(element: &Value<'_>, keys: &[String]) -> Option<String> {
    let Value::Map(Map::Json { fields, .. }) = element else { return None };
    let mut out = String::new();
    for key in keys {
        match fields.get(key) {
            Some(value) => out.push_str(&value.to_string()),
            None => out.push('-'),
        }
        out.push(',');
    }
    Some(out)
}

/// Elements of a list of type set.
pub(super) struct ElementSet<'a> {
    keys: BTreeSet<Key<'a>>,
    /// Elements without an order.
    others: Vec<Value<'a>>,
}

impl<'a> ElementSet<'a> {
    pub(super) fn new(elements: impl Iterator<Item = Value<'a>>) -> Self {
        let mut set = ElementSet { keys: BTreeSet::new(), others: Vec::new() };
        for element in elements {
            set.insert(&element);
        }
        set
    }

    pub(super) fn contains(&self, element: &Value<'a>) -> bool {
        match Key::from_value(element) {
            Some(key) => self.keys.contains(&key),
            None => self.others.iter().any(|other| other.equals(element) == Ok(true)),
        }
    }

    /// Adds an element; returns whether it is new.
    pub(super) fn insert(&mut self, element: &Value<'a>) -> bool {
        match Key::from_value(element) {
            Some(key) => self.keys.insert(key),
            None if self.contains(element) => false,
            None => {
                self.others.push(element.clone());
                true
            }
        }
    }
}

fn maps_equal<'a>(a: &Map<'a>, b: &Value<'a>) -> Result<bool, EvalError> {
    let Value::Map(b) = b else {
        return if a.is_typed() { Err(EvalError::no_such_overload()) } else { Ok(false) };
    };
    if a.len() != b.len() {
        return Ok(false);
    }
    let Map::Json { fields, schema: Some(_), .. } = a else {
        for key in a.keys() {
            let Ok(Some(left)) = a.find(&key) else { continue };
            match b.find(&key) {
                Ok(Some(right)) if left.equals(&right) != Ok(false) => {}
                Ok(Some(_)) => return Ok(false),
                Ok(None) => return Ok(false),
                Err(_) => {}
            }
        }
        return Ok(true);
    };
    for (name, value) in *fields {
        if a.knows(name) {
            match (a.find_str(name), b.find_str(name)) {
                (None, None) => {}
                (Some(left), Some(right)) => {
                    if !left?.equals_value(&right?)? {
                        return Ok(false);
                    }
                }
                _ => return Ok(false),
            }
        } else {
            let Map::Json { fields: others, schema: Some(_), .. } = b else {
                return Err(EvalError::no_such_overload());
            };
            if others.get(name).is_some_and(|other| other != value) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Returns whether a value equals a JSON value.
fn equals_json(value: &Value<'_>, json: &Json) -> bool {
    match (value, json) {
        (Value::Preserved(other), json) => *other == json,
        (Value::Null, Json::Null) => true,
        (Value::Bool(a), Json::Bool(b)) => a == b,
        (Value::Int(a), Json::Number(b)) => b.as_i64() == Some(*a),
        (Value::Double(a), Json::Number(b)) => b.as_i64().is_none() && b.as_f64() == Some(*a),
        (Value::String(a), Json::String(b)) => **a == **b,
        (Value::Map(Map::Json { fields, .. }), Json::Object(b)) => *fields == b,
        (Value::List(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_ok_and(|a| equals_json(&a, b)))
        }
        _ => false,
    }
}
