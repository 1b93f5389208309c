//! Pod templates of workloads: defaults, validation, and the selector that must match them; and the PodTemplate kind.

mod kind;

use std::borrow::Cow;

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path, show};
use windlass_schema::names;

use super::pod;
use crate::columns;
use crate::field_errors::FieldErrors;
use crate::kinds::label_selector;
use crate::object::{entries, integer, is_set, items, map, text};

pub(crate) use kind::PRINTER;
pub use kind::PodTemplate;

/// Applies the defaults of the template of a workload, at `/spec/template`.
pub fn default(workload: &mut Value) {
    default_at(workload, "/spec/template");
}

/// Applies the defaults of a template, if there is one.
pub(super) fn default_at(object: &mut Value, pointer: &str) {
    if let Some(template) = object.pointer_mut(pointer).filter(|template| template.is_object()) {
        pod::defaults::template(template);
    }
}

/// Drops fields of disabled feature gates from the template of a workload.
pub fn drop_disabled(workload: &mut Value) {
    drop_disabled_at(workload, "/spec/template");
}

/// Drops fields of disabled feature gates from a template.
pub(super) fn drop_disabled_at(object: &mut Value, pointer: &str) {
    if let Some(template) = object.pointer_mut(pointer) {
        pod::drop_disabled(template);
    }
}

/// Validates the selector of a workload, which must be present and not empty.
pub fn validate_selector(spec: &Value, path: &Path, errors: &mut ErrorList) {
    let path = path.child("selector");
    if !is_set(spec, "/selector") {
        return errors.required(&path);
    }
    label_selector::validate(spec.get("selector"), &path, errors);
    if is_empty_selector(&spec["selector"]) {
        errors.invalid_shown(&path, show_selector(&spec["selector"]), "empty selector is invalid for deployment");
    }
}

/// Validates the template of a workload with replicas: the selector must match its pods, and these must restart always.
pub fn validate_for_replicas(spec: &Value, path: &Path, errors: &mut ErrorList) {
    let selector = spec.get("selector").filter(|selector| !selector.is_null());
    let mut problems = ErrorList::new();
    label_selector::validate(selector, &Path::root(), &mut problems);
    if let (false, Some(selector)) = (problems.is_empty(), selector) {
        return errors.invalid_shown(&path.child("selector"), show_selector(selector), "invalid label selector");
    }
    let path = path.child("template");
    let template = spec.get("template").unwrap_or(&Value::Null);
    validate_selected(selector.is_some_and(|selector| selects(selector, template)), template, &path, errors);
    pod::validation::validate_template(template, &path, errors);
    validate_runs_on(template, &path, "ReplicaSet", errors);
}

/// Requires that the selector of a workload matches the pods of its template.
pub(super) fn validate_selected(is_selected: bool, template: &Value, path: &Path, errors: &mut ErrorList) {
    if !is_selected {
        let labels = template.pointer("/metadata/labels").unwrap_or(&Value::Null);
        let detail = "`selector` does not match template `labels`";
        errors.invalid_shown(&path.child("metadata").child("labels"), show(labels), detail);
    }
}

/// Requires the restart policy `Always`, and no active deadline.
pub(super) fn validate_runs_on(template: &Value, path: &Path, kind: &str, errors: &mut ErrorList) {
    let path = path.child("spec");
    let policy = text(template, "/spec/restartPolicy");
    if policy != "Always" {
        errors.not_supported(&path.child("restartPolicy"), policy, &["Always"]);
    }
    if is_set(template, "/spec/activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden(&path.child("activeDeadlineSeconds"), detail);
    }
}

/// Requires an unchanged selector.
pub fn validate_selector_unchanged(object: &Value, old: &Value, errors: &mut ErrorList) {
    let (new, old) = (object.pointer("/spec/selector"), old.pointer("/spec/selector"));
    if new != old {
        let path = Path::new("spec").child("selector");
        let shown = new.filter(|new| !new.is_null()).map_or("null".to_owned(), show_selector);
        errors.invalid_shown(&path, shown, "field is immutable");
    }
}

/// Returns warnings about a workload: about its name on create, and about a template that is new or may have changed.
pub fn warnings(workload: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    match old {
        None => warnings.extend(name_warning(workload)),
        Some(old) if same_generation(workload, old) => return warnings,
        Some(_) => {}
    }
    warnings.extend(template_warnings(workload));
    warnings
}

/// Returns a warning about a name that is too long for the names of pods.
pub(super) fn name_warning(workload: &Value) -> Option<String> {
    let problems = names::is_dns1123_label(text(workload, "/metadata/name"));
    (!problems.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; \
             a DNS label is recommended: [{}]",
            problems.join(" ")
        )
    })
}

/// Returns warnings about the template of a workload.
pub(super) fn template_warnings(workload: &Value) -> Vec<String> {
    let template = workload.pointer("/spec/template").unwrap_or(&Value::Null);
    pod::template_warnings(template, &Path::new("spec").child("template"))
}

/// Returns whether an update has not changed the generation.
pub(super) fn same_generation(object: &Value, old: &Value) -> bool {
    integer(object, "/metadata/generation") == integer(old, "/metadata/generation")
}

/// Returns whether a selector is empty and therefore selects everything.
pub(super) fn is_empty_selector(selector: &Value) -> bool {
    map(selector, "/matchLabels").is_none_or(|labels| labels.is_empty())
        && items(selector, "/matchExpressions").is_empty()
}

/// Returns whether a valid selector matches the pods of a template.
pub(super) fn selects(selector: &Value, template: &Value) -> bool {
    let label = |key: &str| template.pointer("/metadata/labels").and_then(|labels| labels.get(key));
    entries(selector, "/matchLabels").all(|(key, value)| label(key) == Some(value))
        && items(selector, "/matchExpressions").iter().all(|expression| {
            let have = label(text(expression, "/key"));
            let is_listed = have.is_some_and(|have| items(expression, "/values").contains(have));
            match text(expression, "/operator") {
                "In" => is_listed,
                "NotIn" => !is_listed,
                "Exists" => have.is_some(),
                _ => have.is_none(),
            }
        })
}

/// Formats a selector as in messages: labels before expressions.
pub fn show_selector(selector: &Value) -> String {
    let fields: Vec<_> = ["matchLabels", "matchExpressions"]
        .iter()
        .filter_map(|field| selector.get(*field).map(|value| format!("\"{field}\":{value}")))
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// Returns a selector in the syntax of queries; empty if it selects everything.
pub fn selector_text(workload: &Value) -> Cow<'static, str> {
    // Those of ReplicationControllers are labels only.
    let labels = map(workload, "/spec/selector").is_some_and(|all| all.values().all(Value::is_string));
    let text = if labels { columns::labels } else { columns::selector };
    match text(workload, "/spec/selector") {
        text if text == "<none>" => Cow::Borrowed(""),
        text => Cow::Owned(text),
    }
}
