//! Field sets of values.

use serde_json::{Map, Value};

use super::errors::ValidationErrors;
use super::item::Index;
use crate::apply::path::PathElement;
use crate::apply::schema::{Form, ListType, MapType, TypeRef};
use crate::apply::set::Set;

/// Returns every leaf field and list item of a value: the fields that its applier owns.
pub fn to_field_set(value: &Value, ty: TypeRef<'_>) -> Result<Set, ValidationErrors> {
    let mut errors = ValidationErrors::default();
    let (_, set) = walk(value, ty, &mut errors);
    errors.into_result().map(|()| set)
}

/// Returns whether a value is a leaf, and the set below it.
fn walk(value: &Value, ty: TypeRef<'_>, errors: &mut ValidationErrors) -> (bool, Set) {
    match (ty.form(Some(value)), value) {
        (Form::Nothing, _) => {
            errors.append(ValidationErrors::one(super::INVALID_TYPE));
            (false, Set::new())
        }
        (Form::Scalar(_), _) => (true, Set::new()),
        (Form::List(list), _) if list.is_atomic() => (true, Set::new()),
        (Form::Map(map), _) if map.is_atomic() => (true, Set::new()),
        (Form::List(list), Value::Array(items)) => (false, list_items(items, list, errors)),
        (Form::Map(map), Value::Object(fields)) => (false, map_fields(fields, map, errors)),
        (Form::List(_) | Form::Map(_), _) => (false, Set::new()),
    }
}

fn map_fields(fields: &Map<String, Value>, ty: MapType<'_>, errors: &mut ValidationErrors) -> Set {
    let mut set = Set::with_capacity(fields.len());
    let undeclared = ty.element().unwrap_or(TypeRef::NOTHING);
    for (name, value) in fields {
        let declared = ty.field(name);
        let (leaf, below) = walk(value, declared.unwrap_or(undeclared), errors);
        let empty = match value {
            Value::Null => true,
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        };
        set.push(|| PathElement::field(name), leaf || empty || declared.is_none(), below);
    }
    set
}

/// For duplicate items, only the item itself is owned, not its fields.
fn list_items(items: &[Value], ty: ListType<'_>, errors: &mut ValidationErrors) -> Set {
    let mut set = Set::with_capacity(items.len());
    let item_type = ty.element();
    for group in Index::new(ty, items, |_, _| {}).into_groups() {
        let below = match group.only {
            Some(position) => walk(&items[position], item_type, errors).1,
            None => Set::new(),
        };
        set.push(|| group.element, true, below);
    }
    set
}
