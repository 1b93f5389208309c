//! Validation of HorizontalPodAutoscalers.

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::names;

use crate::field_errors::FieldErrors;
use crate::object::{integer, is_set, items, text};
use crate::resource_list::{is_extended, is_native, is_standard_for_containers, quantity};

const MAX_WINDOW: i64 = 3600;
const MAX_PERIOD: i64 = 1800;
const METRICS: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];
const SELECT_POLICIES: &[&str] = &["Disabled", "Max", "Min"];
const POLICIES: &[&str] = &["Percent", "Pods"];
/// Metric sources, in the order of validation.
const SOURCES: [(&str, &str); 5] = [
    ("object", "Object"),
    ("external", "External"),
    ("pods", "Pods"),
    ("resource", "Resource"),
    ("containerResource", "ContainerResource"),
];

/// Accepted values of `apiVersion`.
#[derive(Clone, Copy)]
struct Versions {
    any: bool,
    without_group: bool,
}

/// Validates a new or changed object of `autoscaling/v2`.
pub(super) fn validate(object: &Value, old: Option<&Value>) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let least_allowed = i64::from(old.is_none_or(|old| integer(old, "/spec/minReplicas") != Some(0)));
    let (least, most) = (integer(spec, "/minReplicas"), integer(spec, "/maxReplicas").unwrap_or_default());
    if let Some(least) = least.filter(|least| *least < least_allowed) {
        let detail = format!("must be greater than or equal to {least_allowed}");
        errors.invalid(&path.child("minReplicas"), least, detail);
    }
    let at = path.child("maxReplicas");
    match most {
        0 => errors.required_because(&at, "must be set and greater than 0"),
        ..0 => errors.invalid(&at, most, "must be greater than or equal to 1"),
        _ => {}
    }
    if least.is_some_and(|least| most < least) {
        errors.invalid(&at, most, "must be greater than or equal to `minReplicas`");
    }
    let target = spec.get("scaleTargetRef").unwrap_or(&Value::Null);
    let same = |field: &str| {
        old.is_some_and(|old| text(old, &format!("/spec/scaleTargetRef/{field}")) == text(target, &format!("/{field}")))
    };
    let any = same("apiVersion") && same("kind");
    let versions = Versions { any, without_group: text(target, "/kind") == "ReplicationController" };
    validate_reference(target, versions, &path.child("scaleTargetRef"), &mut errors);
    validate_metrics(spec, old, &path.child("metrics"), &mut errors);
    for direction in ["scaleUp", "scaleDown"] {
        if let Some(rules) = spec.pointer(&format!("/behavior/{direction}")).filter(|rules| !rules.is_null()) {
            validate_rules(rules, &path.child("behavior").child(direction), &mut errors);
        }
    }
    errors
}

fn validate_reference(reference: &Value, versions: Versions, path: &Path, errors: &mut ErrorList) {
    for field in ["kind", "name"] {
        let value = text(reference, &format!("/{field}"));
        let path = path.child(field);
        errors.nonempty(&path, value);
        errors.invalid_each(&path, value, names::is_path_segment_name(value));
    }
    let version = text(reference, "/apiVersion");
    if let Some(problem) = version_problem(version, versions) {
        errors.invalid(&path.child("apiVersion"), version, problem);
    }
}

fn version_problem(version: &str, versions: Versions) -> Option<String> {
    if versions.any {
        return None;
    }
    match version.split('/').collect::<Vec<_>>().as_slice() {
        [_, _, _, ..] => Some(format!("unexpected GroupVersion string: {version}")),
        [_] | ["", _] if !versions.without_group => Some("apiVersion must specify API group".to_owned()),
        _ => None,
    }
}

fn validate_metrics(spec: &Value, old: Option<&Value>, path: &Path, errors: &mut ErrorList) {
    let strict = Versions { any: false, without_group: true };
    let was_wrong = |metric: &Value| {
        text(metric, "/type") == "Object"
            && is_set(metric, "/object")
            && version_problem(text(metric, "/object/describedObject/apiVersion"), strict).is_some()
    };
    let any = old.is_some_and(|old| items(old, "/spec/metrics").iter().any(was_wrong));
    for (index, metric) in items(spec, "/metrics").iter().enumerate() {
        validate_metric(metric, Versions { any, ..strict }, &path.index(index), errors);
    }
    let from_outside = |metric: &Value| matches!(text(metric, "/type"), "Object" | "External");
    if integer(spec, "/minReplicas") == Some(0) && !items(spec, "/metrics").iter().any(from_outside) {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden(path, detail);
    }
}

fn validate_metric(metric: &Value, versions: Versions, path: &Path, errors: &mut ErrorList) {
    let kind = text(metric, "/type");
    if kind.is_empty() {
        errors.required_because(&path.child("type"), "must specify a metric source type");
    }
    if !METRICS.contains(&kind) {
        errors.not_supported(&path.child("type"), kind, METRICS);
    }
    let present: Vec<_> = SOURCES.iter().filter(|(field, _)| is_set(metric, &format!("/{field}"))).collect();
    if let Some((field, _)) = present.first() {
        validate_source(field, &metric[*field], versions, &path.child(field), errors);
    }
    let expected = SOURCES.iter().find(|(_, name)| *name == kind);
    match expected {
        Some((field, _)) if !is_set(metric, &format!("/{field}")) => {
            errors.required_because(&path.child(field), "must populate information for the given metric source");
        }
        Some(_) => {}
        None => errors.not_supported(&path.child("type"), kind, METRICS),
    }
    if present.len() > 1 {
        for (field, name) in present {
            if *name != kind {
                errors.forbidden(&path.child(field), "must populate the given metric source only");
            }
        }
    }
}

fn validate_source(kind: &str, source: &Value, versions: Versions, path: &Path, errors: &mut ErrorList) {
    let target_path = path.child("target");
    let has = |field: &str| is_set(source, &format!("/target/{field}"));
    if kind == "object" {
        let reference = source.get("describedObject").unwrap_or(&Value::Null);
        validate_reference(reference, versions, &path.child("describedObject"), errors);
    }
    match kind {
        "object" | "external" | "pods" => {
            let name = text(source, "/metric/name");
            let path = path.child("metric").child("name");
            if name.is_empty() {
                errors.required_because(&path, "must specify a metric name");
            }
            errors.invalid_each(&path, name, names::is_path_segment_name(name));
        }
        _ => validate_resource(kind, source, path, errors),
    }
    validate_target(source.get("target").unwrap_or(&Value::Null), &target_path, errors);
    let average = target_path.child("averageValue");
    match kind {
        "object" if !has("value") && !has("averageValue") => {
            errors.required_because(&average, "must set either a target value or averageValue");
        }
        "external" if !has("value") && !has("averageValue") => {
            errors.required_because(&average, "must set either a target value for metric or a per-pod target");
        }
        "external" if has("value") && has("averageValue") => {
            let detail = "may not set both a target value for metric and a per-pod target";
            errors.forbidden(&target_path.child("value"), detail);
        }
        "pods" if !has("averageValue") => {
            errors.required_because(&average, "must specify a positive target averageValue");
        }
        "resource" | "containerResource" if !has("averageUtilization") && !has("averageValue") => {
            let detail = "must set either a target raw value or a target utilization";
            errors.required_because(&target_path.child("averageUtilization"), detail);
        }
        "resource" | "containerResource" if has("averageUtilization") && has("averageValue") => {
            errors.forbidden(&average, "may not set both a target raw value and a target utilization");
        }
        _ => {}
    }
}

fn validate_resource(kind: &str, source: &Value, path: &Path, errors: &mut ErrorList) {
    let name = text(source, "/name");
    if name.is_empty() {
        errors.required_because(&path.child("name"), "must specify a resource name");
    }
    if kind == "resource" {
        return;
    }
    if !name.is_empty() {
        let path = path.child("name");
        errors.qualified_name(&path, name);
        if !name.contains('/') && !is_standard_for_containers(name) {
            errors.invalid(&path, name, "must be a standard resource for containers");
        }
        if name.contains('/') && !is_native(name) && !is_extended(name) {
            errors.invalid(&path, name, "doesn't follow extended resource name standard");
        }
    }
    let container = text(source, "/container");
    if container.is_empty() {
        errors.required_because(&path.child("container"), "must specify a container");
    } else {
        errors.dns_label(&path.child("container"), container);
    }
}

fn validate_target(target: &Value, path: &Path, errors: &mut ErrorList) {
    let kind = text(target, "/type");
    if kind.is_empty() {
        errors.required_because(&path.child("type"), "must specify a metric target type");
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        errors.invalid(&path.child("type"), kind, "must be either Utilization, Value, or AverageValue");
    }
    for field in ["value", "averageValue"] {
        let amount = target.get(field).and_then(quantity);
        if let Some(amount) = amount.filter(|amount| amount.sign() != 1) {
            errors.invalid(&path.child(field), amount.to_string(), "must be positive");
        }
    }
    if let Some(percent) = integer(target, "/averageUtilization").filter(|percent| *percent < 1) {
        errors.invalid(&path.child("averageUtilization"), percent, "must be greater than 0");
    }
}

fn validate_rules(rules: &Value, path: &Path, errors: &mut ErrorList) {
    let at = path.child("stabilizationWindowSeconds");
    match integer(rules, "/stabilizationWindowSeconds") {
        Some(window @ ..0) => errors.invalid(&at, window, "must be greater than or equal to zero"),
        Some(window) if window > MAX_WINDOW => {
            errors.invalid(&at, window, format!("must be less than or equal to {MAX_WINDOW}"));
        }
        _ => {}
    }
    let select = text(rules, "/selectPolicy");
    if is_set(rules, "/selectPolicy") && !SELECT_POLICIES.contains(&select) {
        errors.not_supported(&path.child("selectPolicy"), select, SELECT_POLICIES);
    }
    let at = path.child("policies");
    if items(rules, "/policies").is_empty() {
        errors.required_because(&at, "must specify at least one Policy");
    }
    for (index, policy) in items(rules, "/policies").iter().enumerate() {
        let at = at.index(index);
        let kind = text(policy, "/type");
        if !POLICIES.contains(&kind) {
            errors.not_supported(&at.child("type"), kind, POLICIES);
        }
        for field in ["value", "periodSeconds"] {
            let number = policy.get(field).and_then(Value::as_i64).unwrap_or_default();
            if number <= 0 {
                errors.invalid(&at.child(field), number, "must be greater than zero");
            }
            if field == "periodSeconds" && number > MAX_PERIOD {
                errors.invalid(&at.child(field), number, format!("must be less than or equal to {MAX_PERIOD}"));
            }
        }
    }
    let tolerance = rules.get("tolerance").and_then(quantity);
    if let Some(tolerance) = tolerance.filter(|tolerance| tolerance.sign() < 0) {
        errors.invalid(&path.child("tolerance"), tolerance.to_string(), "must be greater than or equal to 0");
    }
}
