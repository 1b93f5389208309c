//! Structs that expressions construct: `Object` and the types below it, and `JSONPatch`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{EvalError, Value};

/// The type of a JSON patch operation.
pub(crate) const PATCH: &str = "JSONPatch";
/// The type of an object; the types of its fields are named by their path: `Object.spec.template`.
pub(crate) const OBJECT: &str = "Object";

/// Returns whether expressions can construct values of a type.
pub(crate) fn is_struct(name: &str) -> bool {
    name == PATCH || name.strip_prefix(OBJECT).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A constructed value with named fields.
#[derive(Debug, Clone)]
pub struct Struct<'a> {
    /// The name of its type.
    pub name: Arc<str>,
    /// The fields that are set.
    pub fields: BTreeMap<Arc<str>, Value<'a>>,
}

impl<'a> Struct<'a> {
    /// Returns whether it is an operation of a JSON patch.
    pub fn is_patch(&self) -> bool {
        &*self.name == PATCH
    }

    pub(super) fn type_name(&self) -> &'static str {
        if self.is_patch() { PATCH } else { OBJECT }
    }

    /// Sets a field.
    ///
    /// # Errors
    /// Returns an error if a string field of a patch has another type.
    pub(crate) fn set(&mut self, field: &Arc<str>, value: Value<'a>) -> Result<(), EvalError> {
        if self.is_patch() && &**field != "value" && value.as_str().is_none() {
            let given = value.go_type();
            return Err(EvalError::new(format!("unexpected type {given} for JSONPatchType '{field}' field")));
        }
        self.fields.insert(field.clone(), value);
        Ok(())
    }

    pub(super) fn equals(&self, other: &Self) -> Result<bool, EvalError> {
        if self.name != other.name || self.fields.len() != other.fields.len() {
            return Ok(false);
        }
        for ((name, value), (other_name, other)) in self.fields.iter().zip(&other.fields) {
            if name != other_name || !value.equals(other)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns what is wrong with the names of nested types, which must match the fields that they are in.
    pub fn type_errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        self.check(&self.name, &mut errors);
        errors
    }

    fn check(&self, expected: &str, errors: &mut Vec<String>) {
        if *self.name != *expected {
            let given = &self.name;
            errors.push(format!(
                "unexpected type name {given:?}, expected {expected:?}, which matches field name path from root Object type"
            ));
        }
        for (field, value) in &self.fields {
            check_value(value, &format!("{expected}.{field}"), errors);
        }
    }
}

fn check_value(value: &Value<'_>, expected: &str, errors: &mut Vec<String>) {
    match value {
        Value::Struct(value) => value.check(expected, errors),
        Value::List(list) => list.iter().flatten().for_each(|item| check_value(&item, expected, errors)),
        Value::Map(map) => {
            for key in map.keys() {
                if let Ok(Some(value)) = map.find(&key) {
                    check_value(&value, expected, errors);
                }
            }
        }
        _ => {}
    }
}
