//! Validation of labels and label selectors in pods and workloads.

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::label_selector::{LabelSelectorOptions, validate_label_selector};
use windlass_schema::names;

use crate::field_errors::FieldErrors;
use crate::object::entries;

/// Validates the labels in a field.
pub(crate) fn validate_labels(object: &Value, pointer: &str, path: &Path, errors: &mut ErrorList) {
    for (key, value) in entries(object, pointer) {
        errors.qualified_name(path, key);
        let value = value.as_str().unwrap_or_default();
        errors.invalid_each(path, value, names::is_valid_label_value(value));
    }
}

/// Validates a label selector, which may be absent.
pub(crate) fn validate(selector: Option<&Value>, path: &Path, errors: &mut ErrorList) {
    errors.extend(validate_label_selector(selector, LabelSelectorOptions::default(), path));
}
