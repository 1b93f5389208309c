//! Validation of DaemonSets.

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};

use crate::field_errors::FieldErrors;
use crate::kinds::deployment::collision_count_grows;
use crate::kinds::internal_types::{self, Field, NUMBER, TEXT, pointer};
use crate::kinds::label_selector;
use crate::kinds::{int_or_percent, pod, pod_template};
use crate::object::{integer, is_set, text};

const ROLLING_UPDATE: &[Field] = &[("MaxUnavailable", "maxUnavailable", NUMBER), ("MaxSurge", "maxSurge", NUMBER)];
const UPDATE_STRATEGY: &[Field] =
    &[("Type", "type", TEXT), ("RollingUpdate", "rollingUpdate", pointer(ROLLING_UPDATE))];

/// Validates the spec of a DaemonSet.
pub(super) fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let selector = spec.get("selector").filter(|selector| !selector.is_null());
    label_selector::validate(selector, &path.child("selector"), &mut errors);
    let (template, template_path) = (spec.get("template").unwrap_or(&Value::Null), path.child("template"));
    if errors.is_empty() {
        let selected = selector.is_some_and(|selector| pod_template::selects(selector, template));
        pod_template::validate_selected(selected, template, &template_path, &mut errors);
    }
    if let Some(selector) = selector.filter(|selector| pod_template::is_empty_selector(selector)) {
        let detail = "empty selector is invalid for daemonset";
        errors.invalid_shown(&path.child("selector"), pod_template::show_selector(selector), detail);
    }
    pod::validation::validate_template(template, &template_path, &mut errors);
    pod_template::validate_runs_on(template, &template_path, "DaemonSet", &mut errors);
    errors.nonnegative(&path.child("minReadySeconds"), integer(spec, "/minReadySeconds"));
    let strategy = spec.get("updateStrategy").unwrap_or(&Value::Null);
    validate_strategy(strategy, &path.child("updateStrategy"), &mut errors);
    errors.nonnegative(&path.child("revisionHistoryLimit"), integer(spec, "/revisionHistoryLimit"));
    errors
}

fn validate_strategy(strategy: &Value, path: &Path, errors: &mut ErrorList) {
    match text(strategy, "/type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let path = path.child("rollingUpdate");
            if is_set(strategy, "/rollingUpdate") {
                validate_rolling_update(&strategy["rollingUpdate"], &path, errors);
            } else {
                errors.required(&path);
            }
        }
        other => {
            let error = FieldError::not_supported(path, &other.into(), &["RollingUpdate", "OnDelete"]);
            errors.push(FieldError { value: Some(internal_types::show(strategy, UPDATE_STRATEGY)), ..error });
        }
    }
}

fn validate_rolling_update(update: &Value, path: &Path, errors: &mut ErrorList) {
    let zero = Value::from(0);
    let field = |name: &str| update.get(name).filter(|value| !value.is_null()).unwrap_or(&zero);
    let (unavailable, surge) = (field("maxUnavailable"), field("maxSurge"));
    let (unavailable_path, surge_path) = (path.child("maxUnavailable"), path.child("maxSurge"));
    int_or_percent::validate(unavailable, &unavailable_path, errors);
    int_or_percent::validate(surge, &surge_path, errors);
    int_or_percent::not_more_than_all(unavailable, &unavailable_path, errors);
    int_or_percent::not_more_than_all(surge, &surge_path, errors);
    match (int_or_percent::amount(unavailable) != 0, int_or_percent::amount(surge) != 0) {
        (true, true) => {
            errors.invalid(&surge_path, surge.clone(), "may not be set when maxUnavailable is non-zero");
        }
        (false, false) => errors.required_because(&unavailable_path, "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}

/// Validates the status of a DaemonSet.
pub(super) fn validate_status(object: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status");
    for field in [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ] {
        errors.nonnegative(&path.child(field), integer(object, &format!("/status/{field}")));
    }
    collision_count_grows(object, old, &mut errors);
    errors
}
