//! Queries and small changes on stored FieldsV1, without building a set.
//!
//! The server writes every list itself, so the keys of a stored entry are always in the form of
//! [`PathElement::write_key`].

use serde_json::{Map, Value};

use crate::apply::{
    path::PathElement,
    schema::{Form, TypeRef},
    set::{Node, Set},
};

/// FieldsV1, or the part of it below a field.
type Fields = Map<String, Value>;

/// Returns whether any member of the set is a stored field.
pub(crate) fn touches(fields: &Fields, set: &Set) -> bool {
    let mut key = String::new();
    set.nodes().iter().any(|node| {
        get(fields, node.element(), &mut key).is_some_and(|below| {
            let touches_below = || below.as_object().is_some_and(|below| touches(below, node.children()));
            node.is_member() && is_member(below) || !node.children().is_empty() && touches_below()
        })
    })
}

/// Returns whether all members of the set are stored fields.
pub(crate) fn covers(fields: &Value, set: &Set) -> bool {
    let Value::Object(fields) = fields else { return set.is_empty() };
    let mut key = String::new();
    set.nodes().iter().all(|node| {
        get(fields, node.element(), &mut key)
            .is_some_and(|below| (!node.is_member() || is_member(below)) && covers(below, node.children()))
    })
}

/// Removes the members of the set from the stored fields.
pub(crate) fn subtract(fields: &mut Fields, set: &Set) {
    change(fields, set, |below, member, node| {
        subtract(below, node.children());
        member && !node.is_member()
    });
}

/// Adds the members of the set to the stored fields.
pub(crate) fn insert(fields: &mut Fields, set: &Set) {
    change(fields, set, |below, member, node| {
        insert(below, node.children());
        member || node.is_member()
    });
}

/// Changes the fields that the set has nodes for. `update` changes the fields below; it is passed whether the field was
/// a member and returns whether it is one now.
fn change(fields: &mut Fields, set: &Set, update: fn(&mut Fields, bool, &Node) -> bool) {
    for node in set.nodes() {
        let key = node.element().to_key();
        let stored = fields.remove(&key);
        let was_member = stored.as_ref().is_some_and(is_member);
        let mut below = match stored {
            Some(Value::Object(below)) => below,
            _ => Map::new(),
        };
        below.remove(".");
        let member = update(&mut below, was_member, node);
        if member && !below.is_empty() {
            below.insert(".".to_owned(), Value::Object(Map::new()));
        }
        if member || !below.is_empty() {
            fields.insert(key, Value::Object(below));
        }
    }
}

/// Returns whether there are fields below one that has become atomic: the entry is older than the schema.
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

fn get<'f>(fields: &'f Fields, element: &PathElement, key: &mut String) -> Option<&'f Value> {
    key.clear();
    element.write_key(key);
    fields.get(key.as_str())
}

/// Returns whether a field is itself a member, not only the parent of members.
fn is_member(below: &Value) -> bool {
    below.as_object().is_none_or(|fields| fields.is_empty() || fields.contains_key("."))
}

fn has_children(below: &Value) -> bool {
    below.as_object().is_some_and(|fields| fields.keys().any(|key| key != "."))
}
