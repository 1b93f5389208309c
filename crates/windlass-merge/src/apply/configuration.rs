//! Apply configurations of mutating admission policies: partial objects that are merged without tracking who owns
//! which field.

use serde_json::Value;

use super::path::PathElement;
use super::schema::{Form, TypeRef};
use super::typed::{ValidateOptions, merge, validate};

/// Merges a partial object into an object.
///
/// # Errors
/// Returns kube-apiserver's error if the partial object does not match the type, or would replace something atomic.
pub fn merge_configuration(object: &Value, partial: &Value, ty: TypeRef<'_>) -> Result<Value, String> {
    validate(partial, ty, ValidateOptions::default())
        .map_err(|error| format!("failed to convert patch object to typed object: {error}"))?;
    let mut atomics = Vec::new();
    find_atomics(partial, ty, "", &mut atomics);
    if !atomics.is_empty() {
        let paths = atomics.join(", ");
        return Err(format!("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {paths}"));
    }
    merge(object, partial, ty).map_err(|error| format!("failed to merge patch: {error}"))
}

/// Finds the paths of atomic values, which a merge would replace as a whole.
fn find_atomics(value: &Value, ty: TypeRef<'_>, path: &str, found: &mut Vec<String>) {
    match (ty.form(Some(value)), value) {
        (Form::Map(map), Value::Object(fields)) => {
            if map.is_atomic() {
                found.push(path.to_owned());
            }
            for (name, value) in fields {
                if let Some(field) = map.field(name) {
                    find_atomics(value, field, &format!("{path}{}", PathElement::field(name)), found);
                }
            }
        }
        (Form::List(list), Value::Array(items)) => {
            if list.is_atomic() {
                found.push(path.to_owned());
            }
            for (index, item) in items.iter().enumerate() {
                let element = PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX));
                find_atomics(item, list.element(), &format!("{path}{element}"), found);
            }
        }
        _ => {}
    }
}
