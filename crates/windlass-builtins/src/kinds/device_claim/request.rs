//! A request of a claim: devices of a class, or the first available of several.

use serde_json::Value;
use windlass_cel::device_selectors;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::object_meta::validate_label_name;

use super::{label_value, validate_list, validate_set};
use crate::field_errors::FieldErrors;
use crate::object::{integer, is_set, items, text};

const SELECTORS: usize = 32;
const ALTERNATIVES: usize = 8;
const EXPRESSION_BYTES: usize = 10 << 10;
/// The effects of taints on devices.
pub(in super::super) const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// Validates a request.
pub(super) fn validate(request: &Value, path: &Path, errors: &mut ErrorList) {
    errors.dns_label(&path.child("name"), text(request, "/name"));
    let alternatives = items(request, "/firstAvailable");
    match (is_set(request, "/exactly"), alternatives.is_empty()) {
        (false, true) => errors.required_because(path, "exactly one of `exactly` or `firstAvailable` is required"),
        (true, false) => errors.invalid(
            path,
            Value::Null,
            "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
        ),
        (true, true) => validate_devices(&request["exactly"], &path.child("exactly"), errors),
        (false, false) => {
            let name = |request: &Value| text(request, "/name").to_owned();
            let path = path.child("firstAvailable");
            validate_set(alternatives, ALTERNATIVES, name, &path, errors, |request, path, errors| {
                errors.dns_label(&path.child("name"), text(request, "/name"));
                validate_devices(request, path, errors);
            });
        }
    }
}

fn validate_devices(request: &Value, path: &Path, errors: &mut ErrorList) {
    let class = text(request, "/deviceClassName");
    match class {
        "" => errors.required(&path.child("deviceClassName")),
        class => errors.dns_subdomain(&path.child("deviceClassName"), class),
    }
    validate_selectors(items(request, "/selectors"), &path.child("selectors"), errors);
    let count = integer(request, "/count").unwrap_or_default();
    match text(request, "/allocationMode") {
        "All" if count != 0 => {
            errors.invalid(&path.child("count"), count, "must not be specified when allocationMode is 'All'");
        }
        "ExactCount" if count <= 0 => errors.invalid(&path.child("count"), count, "must be greater than zero"),
        "All" | "ExactCount" => {}
        mode => errors.not_supported(&path.child("allocationMode"), mode, &["All", "ExactCount"]),
    }
    for (index, toleration) in items(request, "/tolerations").iter().enumerate() {
        validate_toleration(toleration, &path.child("tolerations").index(index), errors);
    }
}

/// Validates expressions that select devices.
pub(in super::super) fn validate_selectors(selectors: &[Value], path: &Path, errors: &mut ErrorList) {
    validate_list(selectors, SELECTORS, path, errors, |selector, path, errors| {
        if !is_set(selector, "/cel") {
            return errors.required(&path.child("cel"));
        }
        let path = path.child("cel").child("expression");
        let expression = text(selector, "/cel/expression");
        if expression.len() > EXPRESSION_BYTES {
            return errors.push(FieldError::too_long(&path, EXPRESSION_BYTES));
        }
        match device_selectors::check(expression) {
            Ok(()) => {}
            Err(device_selectors::SelectorError::Invalid(why)) => errors.invalid(&path, expression, why),
            Err(device_selectors::SelectorError::TooComplex) => {
                errors.forbidden(&path, "too complex, exceeds cost limit");
            }
        }
    });
}

fn validate_toleration(toleration: &Value, path: &Path, errors: &mut ErrorList) {
    let key = text(toleration, "/key");
    if !key.is_empty() {
        errors.extend(validate_label_name(key, &path.child("key")));
    }
    let value = text(toleration, "/value");
    match text(toleration, "/operator") {
        "Exists" if !value.is_empty() => {
            errors.invalid(&path.child("value"), value, "must be empty for operator `Exists`");
        }
        "Exists" => {}
        "Equal" => label_value(&path.child("value"), value, errors),
        "" => errors.required(&path.child("operator")),
        operator => errors.not_supported(&path.child("operator"), operator, &["Equal", "Exists"]),
    }
    let effect = text(toleration, "/effect");
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        errors.not_supported(&path.child("effect"), effect, &EFFECTS);
    }
}
