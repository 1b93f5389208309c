//! Validation of updates.

use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, Path, show};

use super::{has_condition, policies, validation};
use crate::diff::same;
use crate::field_errors::FieldErrors;
use crate::kinds::internal_types;
use crate::kinds::pod_template;
use crate::object::{boolean, carry_over, copy, integer, is_set, list_mut, map, remove, set, text};

/// Validates a changed job. kube-apiserver validates the spec twice, so its errors are listed twice.
pub(super) fn validate(job: &Value, old: &Value) -> ErrorList {
    let had_labels = [validation::JOB_NAME, validation::CONTROLLER_UID]
        .iter()
        .all(|label| map(old, "/spec/template/metadata/labels").is_some_and(|labels| labels.contains_key(*label)));
    let mut errors = validation::validate(job, had_labels);
    let (spec, old_spec) = (job.get("spec").unwrap_or(&Value::Null), old.get("spec").unwrap_or(&Value::Null));
    let path = Path::new("spec");
    validation::validate_spec(spec, &path, &mut errors);
    validate_completions(spec, old_spec, &path, &mut errors);
    let selector = |value: &Value| if value.is_null() { show(value) } else { pod_template::show_selector(value) };
    fixed(spec, old_spec, "selector", selector, &mut errors);
    validate_template(spec, old, &path.child("template"), &mut errors);
    fixed(spec, old_spec, "completionMode", show, &mut errors);
    let failure = |value: &Value| internal_types::show_pointer(value, policies::FAILURE_POLICY);
    fixed(spec, old_spec, "podFailurePolicy", failure, &mut errors);
    fixed(spec, old_spec, "backoffLimitPerIndex", show, &mut errors);
    fixed(spec, old_spec, "managedBy", show, &mut errors);
    let success = |value: &Value| internal_types::show_pointer(value, policies::SUCCESS_POLICY);
    fixed(spec, old_spec, "successPolicy", success, &mut errors);
    errors
}

/// Requires that a field of the spec is unchanged.
fn fixed(spec: &Value, old: &Value, field: &str, show: impl Fn(&Value) -> String, errors: &mut ErrorList) {
    let (new, old) = (spec.get(field).unwrap_or(&Value::Null), old.get(field).unwrap_or(&Value::Null));
    immutable(new, old, &Path::new("spec").child(field), show, errors);
}

fn immutable(new: &Value, old: &Value, path: &Path, show: impl Fn(&Value) -> String, errors: &mut ErrorList) {
    if !same(new, old) {
        errors.invalid_shown(path, show(new), "field is immutable");
    }
}

/// The completions of an indexed job may change only together with its parallelism, those of other jobs never.
fn validate_completions(spec: &Value, old: &Value, path: &Path, errors: &mut ErrorList) {
    if text(spec, "/completionMode") != "Indexed" {
        return fixed(spec, old, "completions", show, errors);
    }
    let completions = integer(spec, "/completions");
    if completions.is_some()
        && completions != integer(old, "/completions")
        && completions != integer(spec, "/parallelism")
    {
        let detail = format!("can only be modified in tandem with {}", path.child("parallelism"));
        errors.invalid(&path.child("completions"), completions, detail);
    }
}

/// Of the template, only scheduling directives and resources may change, and only while the job is suspended without
/// active pods.
fn validate_template(spec: &Value, old: &Value, path: &Path, errors: &mut ErrorList) {
    let template = copy(spec, "/template");
    let mut before = copy(old, "/spec/template");
    let suspended = boolean(old, "/spec/suspend") == Some(true);
    let rests = suspended
        && (!is_set(old, "/status/startTime") || has_condition(old, "Suspended", "True"))
        && integer(old, "/status/active").unwrap_or_default() == 0;
    if !rests {
        return immutable(&template, &before, path, internal_types::show_template, errors);
    }
    allow_scheduling(&template, &mut before);
    let (spec, mut before) = (copy(&template, "/spec"), copy(&before, "/spec"));
    for kind in ["containers", "initContainers"] {
        allow_resources(&spec, &mut before, kind);
    }
    immutable(&spec, &before, &path.child("spec"), internal_types::show_pod_spec, errors);
}

/// Copies the scheduling directives.
fn allow_scheduling(template: &Value, before: &mut Value) {
    match (is_set(template, "/spec/affinity"), is_set(before, "/spec/affinity")) {
        (false, true) => {
            remove(before, "/spec/affinity/nodeAffinity");
            if map(before, "/spec/affinity").is_some_and(|affinity| affinity.values().all(Value::is_null)) {
                remove(before, "/spec/affinity");
            }
        }
        (true, had) => {
            if !had {
                set(before, "/spec/affinity", json!({}));
            }
            carry_over(before, template, "/spec/affinity/nodeAffinity");
        }
        (false, false) => {}
    }
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        carry_over(before, template, &format!("/spec/{field}"));
    }
}

/// Copies the resources of containers with the same name.
fn allow_resources(spec: &Value, before: &mut Value, kind: &str) {
    let new = spec.get(kind).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let old = list_mut(before, kind);
    if new.len() != old.len() {
        return;
    }
    for (new, old) in new.iter().zip(old) {
        if new.get("name") == old.get("name") {
            carry_over(old, new, "/resources");
        }
    }
}
