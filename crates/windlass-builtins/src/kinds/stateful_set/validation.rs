//! Validation of StatefulSets.

use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, Path};

use crate::diff::same;
use crate::field_errors::FieldErrors;
use crate::kinds::deployment::{collision_count_grows, not_more_than_replicas};
use crate::kinds::internal_types::{self, Field, NUMBER, OPTIONAL, TEXT, pointer};
use crate::kinds::label_selector;
use crate::kinds::pod::validation::{annotations, validate_claim};
use crate::kinds::{int_or_percent, pod, pod_template};
use crate::object::{copy, integer, is_set, items, remove, set, text};

const ROLLING_UPDATE: &[Field] = &[("Partition", "partition", NUMBER), ("MaxUnavailable", "maxUnavailable", OPTIONAL)];
const UPDATE_STRATEGY: &[Field] =
    &[("Type", "type", TEXT), ("RollingUpdate", "rollingUpdate", pointer(ROLLING_UPDATE))];

/// Mutable fields of the spec.
const MUTABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

/// Parts that an update does not validate again.
#[derive(Clone, Copy, Default)]
struct Skip {
    /// The service and the claims, which are immutable.
    fixed: bool,
    /// The template, because the old one was invalid too.
    template: bool,
}

/// Validates a new StatefulSet.
pub(super) fn validate(object: &Value) -> ErrorList {
    validate_spec(object, Skip::default())
}

/// Validates a changed StatefulSet.
pub(super) fn validate_update(object: &Value, old: &Value) -> ErrorList {
    let skip = Skip { fixed: true, template: false };
    let template = !validate_spec(old, skip).is_empty();
    let mut errors = validate_spec(object, Skip { template, ..skip });
    let fixed = |object: &Value| {
        let mut spec = copy(object, "/spec");
        for field in MUTABLE {
            remove(&mut spec, &format!("/{field}"));
        }
        spec
    };
    if !same(&fixed(object), &fixed(old)) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                      'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                      'minReadySeconds' are forbidden";
        errors.forbidden(&Path::new("spec"), detail);
    }
    errors
}

fn validate_spec(object: &Value, skip: Skip) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let spec = object.get("spec").unwrap_or(&Value::Null);
    match text(spec, "/podManagementPolicy") {
        "" => errors.required(&path.child("podManagementPolicy")),
        "OrderedReady" | "Parallel" => {}
        other => errors.invalid(&path.child("podManagementPolicy"), other, "must be 'OrderedReady' or 'Parallel'"),
    }
    let strategy = spec.get("updateStrategy").unwrap_or(&Value::Null);
    validate_strategy(strategy, &path.child("updateStrategy"), &mut errors);
    if is_set(spec, "/persistentVolumeClaimRetentionPolicy") {
        let path = path.child("persistentVolumeClaimRetentionPolicy");
        for field in ["whenDeleted", "whenScaled"] {
            let policy = text(spec, &format!("/persistentVolumeClaimRetentionPolicy/{field}"));
            if !matches!(policy, "Retain" | "Delete") {
                errors.not_supported(&path.child(field), policy, &["Retain", "Delete"]);
            }
        }
    }
    if !skip.fixed {
        for (index, claim) in items(spec, "/volumeClaimTemplates").iter().enumerate() {
            let path = path.child("volumeClaimTemplates").index(index).child("spec");
            validate_claim(claim.get("spec").unwrap_or(&Value::Null), Default::default(), &path, &mut errors);
        }
    }
    errors.nonnegative(&path.child("replicas"), integer(spec, "/replicas"));
    errors.nonnegative(&path.child("minReadySeconds"), integer(spec, "/minReadySeconds"));
    errors.nonnegative(&path.child("ordinals").child("start"), integer(spec, "/ordinals/start"));
    let service = text(spec, "/serviceName");
    if !skip.fixed && !service.is_empty() {
        errors.dns_label(&path.child("serviceName"), service);
    }
    validate_selector_and_template(spec, skip, &path, &mut errors);
    let template = spec.get("template").unwrap_or(&Value::Null);
    pod_template::validate_runs_on(template, &path.child("template"), "StatefulSet", &mut errors);
    errors
}

fn validate_strategy(strategy: &Value, path: &Path, errors: &mut ErrorList) {
    let update = strategy.get("rollingUpdate").filter(|update| !update.is_null());
    match (text(strategy, "/type"), update) {
        ("", _) => errors.required(path),
        ("OnDelete", Some(update)) => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            errors.invalid_shown(&path.child("rollingUpdate"), internal_types::show(update, ROLLING_UPDATE), detail);
        }
        ("RollingUpdate", Some(update)) => {
            let path = path.child("rollingUpdate");
            errors.nonnegative(&path.child("partition"), integer(update, "/partition"));
            if let Some(most) = update.get("maxUnavailable").filter(|most| !most.is_null()) {
                let path = path.child("maxUnavailable");
                int_or_percent::validate(most, &path, errors);
                if int_or_percent::amount(most) == 0 {
                    errors.invalid(&path, most.clone(), "cannot be 0");
                }
                int_or_percent::not_more_than_all(most, &path, errors);
            }
        }
        ("OnDelete" | "RollingUpdate", None) => {}
        _ => {
            let shown = internal_types::show(strategy, UPDATE_STRATEGY);
            errors.invalid_shown(path, shown, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

fn validate_selector_and_template(spec: &Value, skip: Skip, path: &Path, errors: &mut ErrorList) {
    let selector = spec.get("selector").filter(|selector| !selector.is_null());
    let selector_path = path.child("selector");
    let mut problems = ErrorList::new();
    label_selector::validate(selector, &selector_path, &mut problems);
    let is_valid = problems.is_empty();
    errors.extend(problems);
    match selector {
        None => errors.required(&selector_path),
        Some(selector) if pod_template::is_empty_selector(selector) => {
            let detail = "empty selector is invalid for statefulset";
            errors.invalid_shown(&selector_path, pod_template::show_selector(selector), detail);
        }
        Some(_) => {}
    }
    if let (false, Some(selector)) = (is_valid, selector) {
        return errors.invalid_shown(&selector_path, pod_template::show_selector(selector), "");
    }
    let path = path.child("template");
    let template = template_with_claims(spec);
    // An absent selector selects nothing, unlike an empty one.
    let selected = selector.is_some_and(|selector| pod_template::selects(selector, &template));
    pod_template::validate_selected(selected, &template, &path, errors);
    if !skip.template {
        pod::validation::validate_template(&template, &path, errors);
    }
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    label_selector::validate_labels(metadata, "/labels", &path.child("labels"), errors);
    annotations::validate(metadata, &path.child("annotations"), errors);
    let pod_spec = template.get("spec").unwrap_or(&Value::Null);
    annotations::validate_of_pod(metadata, pod_spec, &path.child("annotations"), errors);
}

/// Returns the template as for a pod: with a volume per claim, and the names that the controller chooses.
fn template_with_claims(spec: &Value) -> Value {
    let mut template = copy(spec, "/template");
    remove(&mut template, "/spec/subdomain");
    remove(&mut template, "/spec/hostname");
    let claims = items(spec, "/volumeClaimTemplates");
    if claims.is_empty() {
        return template;
    }
    let mut volumes: Vec<Value> = Vec::new();
    for name in claims.iter().map(|claim| text(claim, "/metadata/name")) {
        if volumes.iter().all(|volume| text(volume, "/name") != name) {
            volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        }
    }
    let is_claim = |volume: &&Value| claims.iter().any(|claim| text(claim, "/metadata/name") == text(volume, "/name"));
    volumes.extend(items(&template, "/spec/volumes").iter().filter(|volume| !is_claim(volume)).cloned());
    set(&mut template, "/spec/volumes", volumes);
    template
}

/// Validates the status of a StatefulSet.
pub(super) fn validate_status(object: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status");
    let status = object.get("status").unwrap_or(&Value::Null);
    let number = |name: &str| status.get(name).and_then(Value::as_i64);
    let counts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    for field in ["replicas"].into_iter().chain(counts).chain(["observedGeneration", "collisionCount"]) {
        errors.nonnegative(&path.child(field), number(field));
    }
    not_more_than_replicas(status, &counts, &path, &mut errors);
    let available = number("availableReplicas").unwrap_or_default();
    if available > number("readyReplicas").unwrap_or_default() {
        let detail = "cannot be greater than status.readyReplicas";
        errors.invalid(&path.child("availableReplicas"), available, detail);
    }
    collision_count_grows(object, old, &mut errors);
    errors
}
