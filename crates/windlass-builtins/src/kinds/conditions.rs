//! Validation of `metav1.Condition` lists, as the newer kinds have them.

use std::collections::HashSet;

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::names;
use windlass_schema::object_meta::validate_label_name;

use crate::field_errors::FieldErrors;
use crate::object::{integer, items, text};

const STATUSES: &[&str] = &["False", "True", "Unknown"];
const REASON: &str = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?";
const MAX_REASON: usize = 1024;
const MAX_MESSAGE: usize = 32 * 1024;

/// Validates a list of conditions.
pub(super) fn validate(object: &Value, pointer: &str, path: &Path, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for (index, condition) in items(object, pointer).iter().enumerate() {
        let path = path.index(index);
        let kind = text(condition, "/type");
        if !seen.insert(kind) {
            errors.duplicate(&path.child("type"), kind);
        }
        errors.extend(validate_label_name(kind, &path.child("type")));
        let status = text(condition, "/status");
        if !STATUSES.contains(&status) {
            errors.not_supported(&path.child("status"), status, STATUSES);
        }
        if let Some(generation) = integer(condition, "/observedGeneration").filter(|generation| *generation < 0) {
            errors.invalid(&path.child("observedGeneration"), generation, "must be greater than or equal to zero");
        }
        errors.nonempty(&path.child("lastTransitionTime"), text(condition, "/lastTransitionTime"));
        let reason = text(condition, "/reason");
        errors.nonempty(&path.child("reason"), reason);
        if !reason.is_empty() && !is_reason(reason) {
            let message = "a condition reason must start with alphabetic character, optionally followed by a string of \
                           alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";
            let examples = ["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"];
            errors.invalid(&path.child("reason"), reason, names::regex_error(message, REASON, &examples));
        }
        if reason.len() > MAX_REASON {
            errors.push(FieldError::too_long(&path.child("reason"), MAX_REASON));
        }
        if text(condition, "/message").len() > MAX_MESSAGE {
            errors.push(FieldError::too_long(&path.child("message"), MAX_MESSAGE));
        }
    }
}

fn is_reason(reason: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = reason.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.iter().all(|byte| word(*byte) || matches!(byte, b',' | b':'))
        && bytes.last().is_some_and(|byte| word(*byte))
}
