//! Questions about FieldsV1 as it is stored, answered without building a set.
//!
//! The server writes every list itself, so the keys of a stored entry are spelt as [`PathElement::write_key`] does.

use serde_json::{Map, Value};

use crate::apply::{
    path::PathElement,
    schema::{Form, TypeRef},
    set::Set,
};

/// Whether the set has a member that is one of the stored fields.
pub(crate) fn touches(fields: &Value, set: &Set) -> bool {
    let Value::Object(fields) = fields else { return false };
    let mut key = String::new();
    set.nodes().iter().any(|node| {
        get(fields, node.element(), &mut key).is_some_and(|below| {
            node.is_member() && is_member(below) || !node.children().is_empty() && touches(below, node.children())
        })
    })
}

/// Whether all members of the set are stored fields.
pub(crate) fn covers(fields: &Value, set: &Set) -> bool {
    let Value::Object(fields) = fields else { return set.is_empty() };
    let mut key = String::new();
    set.nodes().iter().all(|node| {
        get(fields, node.element(), &mut key)
            .is_some_and(|below| (!node.is_member() || is_member(below)) && covers(below, node.children()))
    })
}

/// Whether there are no fields.
pub(crate) fn is_empty(fields: &Value) -> bool {
    fields.as_object().is_none_or(Map::is_empty)
}

/// Whether fields lie below one that has become a single value: the entry is older than the schema.
pub(crate) fn is_outdated(fields: &Value, ty: TypeRef<'_>) -> bool {
    let Value::Object(fields) = fields else { return false };
    match ty.form(None) {
        Form::Map(map) if !map.is_deduced() => fields.iter().any(|(key, below)| {
            let Some(name) = key.strip_prefix("f:") else { return false };
            has_children(below) && below_is_outdated(below, map.any_field(name))
        }),
        Form::List(list) => {
            let element = list.element();
            fields.values().any(|below| has_children(below) && below_is_outdated(below, element))
        }
        Form::Map(_) | Form::Scalar(_) | Form::Nothing => false,
    }
}

fn below_is_outdated(fields: &Value, ty: TypeRef<'_>) -> bool {
    let atomic = match ty.form(None) {
        Form::Map(map) => !map.is_deduced() && map.is_atomic(),
        Form::List(list) => list.is_atomic(),
        Form::Scalar(_) | Form::Nothing => false,
    };
    atomic || is_outdated(fields, ty)
}

fn get<'f>(fields: &'f Map<String, Value>, element: &PathElement, key: &mut String) -> Option<&'f Value> {
    key.clear();
    element.write_key(key);
    fields.get(key.as_str())
}

/// Whether a field stands for itself and not only for what is below it.
fn is_member(below: &Value) -> bool {
    below.as_object().is_none_or(|fields| fields.is_empty() || fields.contains_key("."))
}

fn has_children(below: &Value) -> bool {
    below.as_object().is_some_and(|fields| fields.keys().any(|key| key != "."))
}
