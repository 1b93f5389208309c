//! Validation of values against their types.

use serde_json::{Map, Value};

use super::errors::{ValidationErrors, wrapped, wrapped_syntax};
use super::item::path_element;
use crate::apply::path::PathElement;
use crate::apply::schema::{Form, ListType, MapType, ScalarType, TypeRef};
use crate::go_format;

/// Options of [`validate`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ValidateOptions {
    /// Whether sets and associative lists may contain duplicate items.
    pub allow_duplicates: bool,
}

/// Validates a value against its type. Null is valid for every type. Like kube-apiserver, reports only the first
/// undeclared field of each map.
pub fn validate(value: &Value, ty: TypeRef<'_>, options: ValidateOptions) -> Result<(), ValidationErrors> {
    check(value, ty, options).into_result()
}

fn check(value: &Value, ty: TypeRef<'_>, options: ValidateOptions) -> ValidationErrors {
    match (ty.form(Some(value)), value) {
        (Form::Nothing, _) => ValidationErrors::one(super::INVALID_TYPE),
        (_, Value::Null) => ValidationErrors::default(),
        (Form::Scalar(scalar), value) => {
            scalar_problem(scalar, Some(value), "").map_or_else(ValidationErrors::default, ValidationErrors::one)
        }
        (Form::List(list), Value::Array(items)) => check_list(items, list, options),
        (Form::List(_), value) => ValidationErrors::one(format!("expected list, got {}", wrapped(value))),
        (Form::Map(map), Value::Object(fields)) => check_map(fields, map, options),
        (Form::Map(_), value) => ValidationErrors::one(format!("expected map, got {}", wrapped(value))),
    }
}

fn check_map(fields: &Map<String, Value>, ty: MapType<'_>, options: ValidateOptions) -> ValidationErrors {
    let mut errors = ValidationErrors::default();
    for (name, value) in fields {
        let element = || PathElement::field(name);
        let field = ty.any_field(name);
        if field.is_nothing() {
            errors.append_below(element, ValidationErrors::one("field not declared in schema"));
            break;
        }
        errors.append_below(element, check(value, field, options));
    }
    errors
}

fn check_list(items: &[Value], ty: ListType<'_>, options: ValidateOptions) -> ValidationErrors {
    let mut errors = ValidationErrors::default();
    let item_type = ty.element();
    if ty.is_atomic() {
        for (position, item) in items.iter().enumerate() {
            let element = || PathElement::Index(i64::try_from(position).unwrap_or(i64::MAX));
            errors.append_below(element, check(item, item_type, options));
        }
        return errors;
    }
    let mut seen: Vec<PathElement> = Vec::with_capacity(items.len());
    for (position, item) in items.iter().enumerate() {
        let element = match path_element(ty, item) {
            Ok(element) => element,
            Err(message) => {
                errors.append(ValidationErrors::one(format!("element {position}: {message}")));
                return errors;
            }
        };
        // Lists are usually sorted already: check the end first.
        let place = match seen.last() {
            Some(last) if *last >= element => seen.binary_search(&element),
            _ => Err(seen.len()),
        };
        if place.is_ok() && !options.allow_duplicates {
            errors.append(ValidationErrors::one(format!("duplicate entries for key {element}")));
        }
        errors.append_below(|| element.clone(), check(item, item_type, options));
        if let Err(place) = place {
            seen.insert(place, element);
        }
    }
    errors
}

/// Returns the problem with a scalar; absent and null values are valid.
pub(super) fn scalar_problem(ty: ScalarType, value: Option<&Value>, prefix: &str) -> Option<String> {
    let value = value.filter(|value| !value.is_null())?;
    let fits = match ty {
        ScalarType::Numeric => value.is_number(),
        ScalarType::String => value.is_string(),
        ScalarType::Boolean => value.is_boolean(),
        ScalarType::Untyped => !value.is_array() && !value.is_object(),
    };
    if fits {
        return None;
    }
    Some(match ty {
        ScalarType::Numeric => {
            format!("{prefix}expected numeric (int or float), got {}", go_format::type_name(value))
        }
        ScalarType::String => format!("{prefix}expected string, got {}", wrapped_syntax(value)),
        ScalarType::Boolean => format!("{prefix}expected boolean, got {}", wrapped(value)),
        ScalarType::Untyped => format!("{prefix}expected any scalar, got {}", wrapped(value)),
    })
}
