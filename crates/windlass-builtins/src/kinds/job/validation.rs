//! Validation of Jobs.

use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, FieldError, Path, show};
use windlass_schema::names;

use super::policies;
use crate::field_errors::FieldErrors;
use crate::kinds::internal_types;
use crate::kinds::label_selector;
use crate::kinds::{pod, pod_template};
use crate::object::{boolean, integer, is_set, text};

/// Labels of a job's pods, and their legacy names.
pub(super) const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
pub(super) const JOB_NAME: &str = "batch.kubernetes.io/job-name";
pub(super) const LEGACY_CONTROLLER_UID: &str = "controller-uid";
pub(super) const LEGACY_JOB_NAME: &str = "job-name";

const MAX_PARALLELISM: i64 = 100_000;
const MAX_FAILED_INDEXES: i64 = 100_000;
/// Number of completions above which the following limits apply.
const MANY_COMPLETIONS: i64 = 100_000;
const MAX_PARALLELISM_OF_MANY: i64 = 10_000;
const MAX_FAILED_INDEXES_OF_MANY: i64 = 10_000;
const MAX_MANAGED_BY: usize = 63;
const PATH_CHARACTERS: &str = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";

/// Validates a new or changed job; old ones may lack the prefixed labels.
pub(super) fn validate(job: &Value, with_prefixed_labels: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_generated_selector(job, with_prefixed_labels, &mut errors);
    let spec = job.get("spec").unwrap_or(&Value::Null);
    validate_spec(spec, &Path::new("spec"), &mut errors);
    let completions = integer(spec, "/completions").unwrap_or_default();
    if text(spec, "/completionMode") == "Indexed" && completions > 0 {
        // The largest index is part of a pod's host name.
        let name = text(job, "/metadata/name");
        let host = format!("{name}-{}", completions - 1);
        if !names::is_dns1123_label(&host).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {host}");
            errors.invalid(&Path::new("metadata").child("name"), name, detail);
        }
    }
    errors
}

/// Requires the generated labels in the template, unless the selector is manual.
fn validate_generated_selector(job: &Value, with_prefixed_labels: bool, errors: &mut ErrorList) {
    let selector = job.pointer("/spec/selector").filter(|selector| !selector.is_null());
    let Some(selector) = selector.filter(|_| boolean(job, "/spec/manualSelector") != Some(true)) else { return };
    let (uid, name) = (text(job, "/metadata/uid"), text(job, "/metadata/name"));
    errors.nonempty(&Path::new("metadata").child("uid"), uid);
    let mut expected = vec![(LEGACY_CONTROLLER_UID, uid), (LEGACY_JOB_NAME, name)];
    if with_prefixed_labels {
        expected.extend([(CONTROLLER_UID, uid), (JOB_NAME, name)]);
    }
    let labels = job.pointer("/spec/template/metadata/labels").unwrap_or(&Value::Null);
    let path = Path::new("spec").child("template").child("metadata").child("labels");
    for (key, value) in &expected {
        match labels.get(*key) {
            None => errors.required_because(&path.key(key), format!("must be '{value}'")),
            Some(have) if have != value => {
                errors.invalid_shown(&path.key(key), show(labels), format!("must be '{value}'"));
            }
            Some(_) => {}
        }
    }
    let pod = json!({"metadata": {"labels": expected.into_iter().collect::<std::collections::BTreeMap<_, _>>()}});
    if is_valid_selector(selector) && !pod_template::selects(selector, &pod) {
        let shown = pod_template::show_selector(selector);
        errors.invalid_shown(&Path::new("spec").child("selector"), shown, "`selector` not auto-generated");
    }
}

/// Validates the spec of a job.
pub(super) fn validate_spec(spec: &Value, path: &Path, errors: &mut ErrorList) {
    validate_any_spec(spec, path, errors);
    let selector = spec.get("selector").filter(|selector| !selector.is_null());
    if selector.is_none() {
        errors.required(&path.child("selector"));
    }
    label_selector::validate(selector, &path.child("selector"), errors);
    if selector.is_none_or(is_valid_selector) {
        let template = spec.get("template").unwrap_or(&Value::Null);
        let selected = selector.is_some_and(|selector| pod_template::selects(selector, template));
        pod_template::validate_selected(selected, template, &path.child("template"), errors);
    }
}

/// Validates the spec of a job or of a job template, which has no selector yet.
pub(in crate::kinds) fn validate_any_spec(spec: &Value, path: &Path, errors: &mut ErrorList) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errors.nonnegative(&path.child(field), spec.get(field).and_then(Value::as_i64));
    }
    if is_set(spec, "/maxFailedIndexes") && !is_set(spec, "/backoffLimitPerIndex") {
        errors.required_because(&path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if is_set(spec, "/managedBy") {
        validate_managed_by(text(spec, "/managedBy"), &path.child("managedBy"), errors);
    }
    validate_completion_mode(spec, path, errors);
    if is_set(spec, "/podFailurePolicy") {
        policies::validate_failure(spec, &path.child("podFailurePolicy"), errors);
    }
    if is_set(spec, "/successPolicy") {
        let path = path.child("successPolicy");
        if text(spec, "/completionMode") == "Indexed" {
            policies::validate_success(spec, &path, errors);
        } else {
            let shown = internal_types::show(&spec["successPolicy"], policies::SUCCESS_POLICY);
            errors.invalid_shown(&path, shown, "requires indexed completion mode");
        }
    }
    if is_set(spec, "/podReplacementPolicy") {
        let has_policy = is_set(spec, "/podFailurePolicy");
        let supported: &[&str] = if has_policy { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        let policy = text(spec, "/podReplacementPolicy");
        if !supported.contains(&policy) {
            errors.not_supported(&path.child("podReplacementPolicy"), policy, supported);
        }
    }
    validate_template(spec, path, errors);
}

fn validate_template(spec: &Value, path: &Path, errors: &mut ErrorList) {
    let path = path.child("template");
    let template = spec.get("template").unwrap_or(&Value::Null);
    pod::validation::validate_template(template, &path, errors);
    let path = path.child("spec").child("restartPolicy");
    match text(template, "/spec/restartPolicy") {
        "" | "Always" => errors.required_because(&path, "valid values: \"OnFailure\", \"Never\""),
        "Never" => {}
        "OnFailure" if is_set(spec, "/podFailurePolicy") => {
            errors.invalid(&path, "OnFailure", "only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" => {}
        other => errors.not_supported(&path, other, &["OnFailure", "Never"]),
    }
}

fn validate_completion_mode(spec: &Value, path: &Path, errors: &mut ErrorList) {
    let mode = text(spec, "/completionMode");
    if is_set(spec, "/completionMode") && !matches!(mode, "NonIndexed" | "Indexed") {
        errors.not_supported(&path.child("completionMode"), mode, &["NonIndexed", "Indexed"]);
    }
    if mode == "Indexed" {
        validate_indexed(spec, path, errors);
    }
    if mode == "NonIndexed" || !is_set(spec, "/completionMode") {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(value) = spec.get(field).and_then(Value::as_i64) {
                errors.invalid(&path.child(field), value, "requires indexed completion mode");
            }
        }
    }
}

fn validate_indexed(spec: &Value, path: &Path, errors: &mut ErrorList) {
    let number = |field: &str| spec.get(field).and_then(Value::as_i64);
    let (completions, parallelism, failed) = (number("completions"), number("parallelism"), number("maxFailedIndexes"));
    if completions.is_none() {
        errors.required_because(&path.child("completions"), "when completion mode is Indexed");
    }
    let mut at_most = |field: &str, value: Option<i64>, most: i64, why: &str| {
        if let Some(value) = value.filter(|value| *value > most) {
            errors.invalid(&path.child(field), value, format!("must be less than or equal to {why}"));
        }
    };
    let why = format!("{MAX_PARALLELISM} when completion mode is Indexed");
    at_most("parallelism", parallelism, MAX_PARALLELISM, &why);
    if let Some(completions) = completions {
        at_most("maxFailedIndexes", failed, completions, "completions");
    }
    at_most("maxFailedIndexes", failed, MAX_FAILED_INDEXES, &MAX_FAILED_INDEXES.to_string());
    if completions.is_none_or(|completions| completions <= MANY_COMPLETIONS) || number("backoffLimitPerIndex").is_none()
    {
        return;
    }
    if failed.is_none() {
        let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        errors.required_because(&path.child("maxFailedIndexes"), detail);
    }
    let mut at_most_of_many = |field: &str, value: Option<i64>, most: i64| {
        if let Some(value) = value.filter(|value| *value > most) {
            let detail = format!(
                "must be less than or equal to {most} when completions are above {MANY_COMPLETIONS} and used with \
                 backoff limit per index"
            );
            errors.invalid(&path.child(field), value, detail);
        }
    };
    at_most_of_many("parallelism", parallelism, MAX_PARALLELISM_OF_MANY);
    at_most_of_many("maxFailedIndexes", failed, MAX_FAILED_INDEXES_OF_MANY);
}

/// Validates `managedBy`, which has the form `example.com/name`.
fn validate_managed_by(value: &str, path: &Path, errors: &mut ErrorList) {
    match value.split_once('/') {
        _ if value.is_empty() => errors.required(path),
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => {
            errors.invalid_each(path, host, names::is_dns1123_subdomain(host));
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
            if !rest.bytes().all(allowed) {
                errors.invalid(path, rest, names::regex_error("Invalid path", PATH_CHARACTERS, &[]));
            }
        }
        _ => errors.invalid(path, value, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
    if value.len() > MAX_MANAGED_BY {
        errors.push(FieldError::too_long(path, MAX_MANAGED_BY));
    }
}

fn is_valid_selector(selector: &Value) -> bool {
    let mut problems = ErrorList::new();
    label_selector::validate(Some(selector), &Path::root(), &mut problems);
    problems.is_empty()
}
