//! The status of a request, which changes once.

use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, Path};

use super::{certificate, problem};
use crate::diff::same;
use crate::field_errors::FieldErrors;
use crate::kinds::conditions;
use crate::object::{copy, items, text};

/// The ways in which a request ends.
pub(super) const OUTCOMES: [&str; 3] = ["Issued", "Denied", "Failed"];

/// Validates an update of the status.
pub(super) fn validate(object: &Value, old: &Value) -> ErrorList {
    let path = Path::new("status");
    let mut errors = ErrorList::new();
    validate_conditions(object, &path.child("conditions"), &mut errors);
    if !errors.is_empty() {
        return errors;
    }
    let (new, before) = (copy(object, "/status"), copy(old, "/status"));
    if OUTCOMES.iter().any(|kind| has(old, kind)) {
        if !same(&new, &before) {
            problem(&path, "immutable after PodCertificateRequest is issued, denied, or failed", &mut errors);
        }
    } else if has(object, "Denied") || has(object, "Failed") {
        if !same(&new, &json!({"conditions": new["conditions"]})) {
            let detail = "non-condition status fields must be empty when denying or failing the PodCertificateRequest";
            problem(&path, detail, &mut errors);
        }
    } else if has(object, "Issued") {
        certificate::validate(object, &mut errors);
    } else if !same(&new, &before) {
        let detail = "status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\"";
        problem(&path, detail, &mut errors);
    }
    errors
}

fn has(object: &Value, kind: &str) -> bool {
    let mut conditions = items(object, "/status/conditions").iter();
    conditions.any(|condition| text(condition, "/type") == kind && text(condition, "/status") == "True")
}

/// Allows at most one condition. It must be an outcome, with status `True`.
fn validate_conditions(object: &Value, path: &Path, errors: &mut ErrorList) {
    let mut known = 0;
    for (at, condition) in items(object, "/status/conditions").iter().enumerate() {
        let (kind, status) = (text(condition, "/type"), text(condition, "/status"));
        // The dot before the index is kube-apiserver's.
        let path = path.child(&format!("[{at}]"));
        if !OUTCOMES.contains(&kind) {
            errors.not_supported(&path.child("type"), kind, &OUTCOMES);
            continue;
        }
        known += 1;
        if known > 1 {
            let detail = "There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"";
            errors.invalid(&path.child("type"), kind, detail);
        }
        if status != "True" {
            errors.not_supported(&path.child("status"), status, &["True"]);
        }
    }
    conditions::validate(object, "/status/conditions", path, errors);
}
