//! Values that are a number or a percentage: `3`, `"25%"`.

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::names;

use crate::field_errors::FieldErrors;

/// Validates a number that is not negative, or a percentage.
pub(super) fn validate(value: &Value, path: &Path, errors: &mut ErrorList) {
    match value {
        Value::String(text) => errors.invalid_each(path, text.as_str(), names::is_valid_percent(text)),
        value => errors.nonnegative(path, value.as_i64()),
    }
}

/// Requires a percentage of at most 100%.
pub(super) fn not_more_than_all(value: &Value, path: &Path, errors: &mut ErrorList) {
    if percent(value).is_some_and(|percent| percent > 100) {
        errors.invalid(path, value.clone(), "must not be greater than 100%");
    }
}

/// Returns the number or the number of percent; 0 for any other value.
pub(super) fn amount(value: &Value) -> i64 {
    let number = || value.as_i64().or_else(|| value.as_str()?.parse().ok());
    percent(value).or_else(number).unwrap_or_default()
}

fn percent(value: &Value) -> Option<i64> {
    let text = value.as_str()?;
    if !names::is_valid_percent(text).is_empty() {
        return None;
    }
    Some(text.trim_end_matches('%').parse().unwrap_or(i64::MAX))
}
