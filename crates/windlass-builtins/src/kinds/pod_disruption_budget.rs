//! PodDisruptionBudgets.

pub mod eviction;

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::label_selector::{LabelSelectorOptions, validate_label_selector};

use super::internal_types::{self, Field, OPTIONAL, Shape};
use super::{conditions, int_or_percent};
use crate::columns::{self, Column, Printer, column};
use crate::field_errors::FieldErrors;
use crate::object::{integer, is_set, text};
use crate::strategy::Strategy;

/// Strategy of PodDisruptionBudgets.
#[derive(Debug, Clone, Copy)]
pub struct PodDisruptionBudget;

const COLUMNS: &[Column] = &[
    columns::NAME,
    column("Min Available", "string", "The minimum number of pods that must be available."),
    column("Max Unavailable", "string", "The maximum number of pods that may be unavailable."),
    column("Allowed Disruptions", "integer", "Calculated number of pods that may be disrupted at this time."),
    columns::AGE,
];

const SPEC: &[Field] = &[
    ("MinAvailable", "minAvailable", OPTIONAL),
    ("Selector", "selector", Shape::Selector),
    ("MaxUnavailable", "maxUnavailable", OPTIONAL),
    ("UnhealthyPodEvictionPolicy", "unhealthyPodEvictionPolicy", OPTIONAL),
];

const POLICIES: &[&str] = &["AlwaysAllow", "IfHealthyBudget"];

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for PodDisruptionBudget {
    fn validate(&self, object: &Value) -> ErrorList {
        validate(object, false)
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let selector = old.pointer("/spec/selector");
        let had_problems =
            !validate_label_selector(selector, LabelSelectorOptions::default(), &Path::root()).is_empty();
        validate(object, had_problems)
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, _old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if subresource != "status" {
            return errors;
        }
        let path = Path::new("status");
        conditions::validate(object, "/status/conditions", &path.child("conditions"), &mut errors);
        for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            errors.nonnegative(&path.child(field), integer(object, &format!("/status/{field}")));
        }
        errors
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let bound = |pointer| match object.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => "N/A".to_owned(),
    };
    vec![
        columns::name(object),
        bound("/spec/minAvailable").into(),
        bound("/spec/maxUnavailable").into(),
        integer(object, "/status/disruptionsAllowed").unwrap_or_default().into(),
        columns::age(object, now),
    ]
}

fn validate(object: &Value, allow_invalid_values: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let spec = object.get("spec").unwrap_or(&Value::Null);
    if is_set(spec, "/minAvailable") && is_set(spec, "/maxUnavailable") {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.invalid_shown(&path, internal_types::show(spec, SPEC), detail);
    }
    for field in ["minAvailable", "maxUnavailable"] {
        if let Some(value) = spec.get(field).filter(|value| !value.is_null()) {
            int_or_percent::validate(value, &path.child(field), &mut errors);
            int_or_percent::not_more_than_all(value, &path.child(field), &mut errors);
        }
    }
    let options = LabelSelectorOptions { allow_invalid_values, ..LabelSelectorOptions::default() };
    errors.extend(validate_label_selector(spec.get("selector"), options, &path.child("selector")));
    let policy = text(spec, "/unhealthyPodEvictionPolicy");
    if is_set(spec, "/unhealthyPodEvictionPolicy") && !POLICIES.contains(&policy) {
        errors.not_supported(&path.child("unhealthyPodEvictionPolicy"), policy, POLICIES);
    }
    errors
}

#[cfg(test)]
mod tests;
