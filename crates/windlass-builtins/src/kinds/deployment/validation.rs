//! Validation of Deployments.

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path, quote};

use crate::field_errors::FieldErrors;
use crate::kinds::{int_or_percent, pod_template};
use crate::object::{integer, is_set, text};

/// Validates the spec of a Deployment.
pub(super) fn validate(deployment: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let spec = deployment.get("spec").unwrap_or(&Value::Null);
    errors.nonnegative(&path.child("replicas"), integer(spec, "/replicas"));
    pod_template::validate_selector(spec, &path, &mut errors);
    pod_template::validate_for_replicas(spec, &path, &mut errors);
    validate_strategy(spec.get("strategy").unwrap_or(&Value::Null), &path.child("strategy"), &mut errors);
    errors.nonnegative(&path.child("minReadySeconds"), integer(spec, "/minReadySeconds"));
    errors.nonnegative(&path.child("revisionHistoryLimit"), integer(spec, "/revisionHistoryLimit"));
    if let Some(deadline) = integer(spec, "/progressDeadlineSeconds") {
        let path = path.child("progressDeadlineSeconds");
        errors.nonnegative(&path, Some(deadline));
        if deadline <= integer(spec, "/minReadySeconds").unwrap_or_default() {
            errors.invalid(&path, deadline, "must be greater than minReadySeconds");
        }
    }
    errors
}

fn validate_strategy(strategy: &Value, path: &Path, errors: &mut ErrorList) {
    match text(strategy, "/type") {
        "Recreate" => {
            if is_set(strategy, "/rollingUpdate") {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errors.forbidden(&path.child("rollingUpdate"), detail);
            }
        }
        "RollingUpdate" => match strategy.get("rollingUpdate").filter(|update| !update.is_null()) {
            Some(update) => validate_rolling_update(update, &path.child("rollingUpdate"), errors),
            None => errors.required_because(&path.child("rollingUpdate"), "this should be defaulted and never be nil"),
        },
        other => {
            let error = FieldError::not_supported(path, &other.into(), &["Recreate", "RollingUpdate"]);
            errors.push(FieldError { value: Some(show_strategy(strategy)), ..error });
        }
    }
}

/// Formats a strategy as messages do, with the field names of kube-apiserver's internal type.
fn show_strategy(strategy: &Value) -> String {
    let update = match strategy.get("rollingUpdate").filter(|update| !update.is_null()) {
        Some(update) => {
            let field = |name: &str| update.get(name).map_or("0".to_owned(), Value::to_string);
            format!("{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}", field("maxUnavailable"), field("maxSurge"))
        }
        None => "null".to_owned(),
    };
    format!("{{\"Type\":{},\"RollingUpdate\":{update}}}", quote(text(strategy, "/type")))
}

fn validate_rolling_update(update: &Value, path: &Path, errors: &mut ErrorList) {
    let zero = Value::from(0);
    let field = |name: &str| update.get(name).filter(|value| !value.is_null()).unwrap_or(&zero);
    let (unavailable, surge) = (field("maxUnavailable"), field("maxSurge"));
    int_or_percent::validate(unavailable, &path.child("maxUnavailable"), errors);
    int_or_percent::validate(surge, &path.child("maxSurge"), errors);
    let path = path.child("maxUnavailable");
    if int_or_percent::amount(unavailable) == 0 && int_or_percent::amount(surge) == 0 {
        errors.invalid(&path, unavailable.clone(), "may not be 0 when `maxSurge` is 0");
    }
    int_or_percent::not_more_than_all(unavailable, &path, errors);
}

/// Validates the status of a Deployment.
pub(super) fn validate_status(deployment: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status");
    let status = deployment.get("status").unwrap_or(&Value::Null);
    let number = |name: &str| status.get(name).and_then(Value::as_i64);
    for field in [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ] {
        errors.nonnegative(&path.child(field), number(field));
    }
    let count = |name| number(name).unwrap_or_default();
    not_more_than_replicas(status, &["updatedReplicas", "readyReplicas", "availableReplicas"], &path, &mut errors);
    if count("availableReplicas") > count("readyReplicas") {
        let detail = "cannot be greater than readyReplicas";
        errors.invalid(&path.child("availableReplicas"), count("availableReplicas"), detail);
    }
    collision_count_grows(deployment, old, &mut errors);
    errors
}

/// Requires that none of these counts exceeds the number of replicas.
pub(in crate::kinds) fn not_more_than_replicas(status: &Value, fields: &[&str], path: &Path, errors: &mut ErrorList) {
    let count = |name: &str| status.get(name).and_then(Value::as_i64).unwrap_or_default();
    for field in fields {
        if count(field) > count("replicas") {
            errors.invalid(&path.child(field), count(field), "cannot be greater than status.replicas");
        }
    }
}

/// Requires that the number of name collisions never decreases.
pub(in crate::kinds) fn collision_count_grows(object: &Value, old: &Value, errors: &mut ErrorList) {
    let (now, before) = (integer(object, "/status/collisionCount"), integer(old, "/status/collisionCount"));
    if before.is_some_and(|before| now.is_none_or(|now| now < before)) {
        let path = Path::new("status").child("collisionCount");
        errors.invalid(&path, now.unwrap_or_default(), "cannot be decremented");
    }
}
