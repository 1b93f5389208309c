//! Defaults of a job, and the generated selector that matches only its own pods.

use serde_json::{Map, Value};

use super::validation::{CONTROLLER_UID, JOB_NAME, LEGACY_CONTROLLER_UID, LEGACY_JOB_NAME};
use crate::kinds::pod_template;
use crate::object::{boolean, is_set, list_mut, map, set, set_default, set_default_text, text};

/// Applies the defaults of a job.
pub(super) fn default(job: &mut Value) {
    if !job.get("spec").is_some_and(Value::is_object) {
        return;
    }
    if !is_set(job, "/spec/completions") && !is_set(job, "/spec/parallelism") {
        set(job, "/spec/completions", 1);
    }
    set_default(job, "/spec/parallelism", 1);
    let limit = if is_set(job, "/spec/backoffLimitPerIndex") { i32::MAX } else { 6 };
    set_default(job, "/spec/backoffLimit", limit);
    // If the selector is yet to be generated, the labels are set at the same time, from those of the template.
    if is_set(job, "/spec/selector") || boolean(job, "/spec/manualSelector") == Some(true) {
        default_labels(job);
    }
    set_default(job, "/spec/completionMode", "NonIndexed");
    set_default(job, "/spec/suspend", false);
    let policy = if is_set(job, "/spec/podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    set_default(job, "/spec/podReplacementPolicy", policy);
    set_default(job, "/spec/manualSelector", false);
    if let Some(spec) = job.get_mut("spec") {
        default_pod_conditions(spec);
    }
    pod_template::default(job);
}

/// Sets the default status of the conditions in a failure policy.
pub(in crate::kinds) fn default_pod_conditions(spec: &mut Value) {
    let Some(policy) = spec.get_mut("podFailurePolicy") else { return };
    for rule in list_mut(policy, "rules") {
        for pattern in list_mut(rule, "onPodConditions") {
            set_default_text(pattern, "/status", "True");
        }
    }
}

/// Prepares a new job: unless the selector is manual, its pods get unique labels.
pub(super) fn create(job: &mut Value) {
    if boolean(job, "/spec/manualSelector") != Some(true) {
        generate_selector(job);
    }
    default_labels(job);
    pod_template::drop_disabled(job);
}

fn generate_selector(job: &mut Value) {
    let name = text(job, "/metadata/name").to_owned();
    let uid = text(job, "/metadata/uid").to_owned();
    let mut labels = map(job, "/spec/template/metadata/labels").cloned().unwrap_or_default();
    for (key, value) in
        [(LEGACY_JOB_NAME, &name), (JOB_NAME, &name), (LEGACY_CONTROLLER_UID, &uid), (CONTROLLER_UID, &uid)]
    {
        labels.entry(key).or_insert_with(|| value.as_str().into());
    }
    set(job, "/spec/template/metadata/labels", labels);
    let mut selected = map(job, "/spec/selector/matchLabels").cloned().unwrap_or_default();
    selected.entry(CONTROLLER_UID).or_insert_with(|| uid.into());
    set(job, "/spec/selector/matchLabels", selected);
}

/// A job without labels gets those of its template.
fn default_labels(job: &mut Value) {
    if let Some(labels) = shared_labels(job) {
        set(job, "/metadata/labels", labels);
    }
}

/// Returns the labels of the template, unless the job has its own.
pub(super) fn shared_labels(job: &Value) -> Option<Map<String, Value>> {
    let labels = map(job, "/spec/template/metadata/labels").filter(|labels| !labels.is_empty())?;
    map(job, "/metadata/labels").is_none_or(Map::is_empty).then(|| labels.clone())
}
