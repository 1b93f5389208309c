//! Pod templates inside workloads: defaulting, validation, and the selector that must fit them; and the kind that is
//! nothing but a template.

mod kind;

use std::borrow::Cow;

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path, show};
use windlass_schema::names;

use super::pod;
use super::pod::report::Report;
use super::pod::validation::selectors;
use crate::columns;
use crate::object::{entries, integer, is_set, items, map, text};

pub use kind::PodTemplate;

/// Fills in the template of a workload, at `/spec/template`.
pub fn default(workload: &mut Value) {
    default_at(workload, "/spec/template");
}

/// Fills in a template, if there is one.
pub(super) fn default_at(object: &mut Value, pointer: &str) {
    if let Some(template) = object.pointer_mut(pointer).filter(|template| template.is_object()) {
        pod::defaults::template(template);
    }
}

/// Drops fields of features that are off from the template of a workload.
pub fn drop_disabled(workload: &mut Value) {
    drop_disabled_at(workload, "/spec/template");
}

/// Drops fields of features that are off from a template.
pub(super) fn drop_disabled_at(object: &mut Value, pointer: &str) {
    if let Some(template) = object.pointer_mut(pointer) {
        pod::drop_disabled(template);
    }
}

/// Validates the selector of a workload, which must be there and not be empty.
pub fn validate_selector(spec: &Value, path: &Path, errors: &mut ErrorList) {
    let path = path.child("selector");
    if !is_set(spec, "/selector") {
        return errors.required(&path);
    }
    selectors::validate(spec.get("selector"), &path, errors);
    if is_empty_selector(&spec["selector"]) {
        errors.invalid_shown(&path, show_selector(&spec["selector"]), "empty selector is invalid for deployment");
    }
}

/// Validates the template of a workload that keeps a number of pods: the selector selects its pods, and they run on.
pub fn validate_for_replicas(spec: &Value, path: &Path, errors: &mut ErrorList) {
    let selector = spec.get("selector").filter(|selector| !selector.is_null());
    let mut problems = ErrorList::new();
    selectors::validate(selector, &Path::root(), &mut problems);
    if let (false, Some(selector)) = (problems.is_empty(), selector) {
        return errors.invalid_shown(&path.child("selector"), show_selector(selector), "invalid label selector");
    }
    let path = path.child("template");
    let template = spec.get("template").unwrap_or(&Value::Null);
    validate_selected(selector.is_some_and(|selector| selects(selector, template)), template, &path, errors);
    pod::validation::validate_template(template, &path, errors);
    validate_runs_on(template, &path, "ReplicaSet", errors);
}

/// The selector of a workload selects the pods of its template.
pub(super) fn validate_selected(is_selected: bool, template: &Value, path: &Path, errors: &mut ErrorList) {
    if !is_selected {
        let labels = template.pointer("/metadata/labels").unwrap_or(&Value::Null);
        let detail = "`selector` does not match template `labels`";
        errors.invalid_shown(&path.child("metadata").child("labels"), show(labels), detail);
    }
}

/// The pods of a workload that keeps a number of them do not end by themselves.
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

/// The selector of a workload cannot change.
pub fn validate_selector_unchanged(object: &Value, old: &Value, errors: &mut ErrorList) {
    let (new, old) = (object.pointer("/spec/selector"), old.pointer("/spec/selector"));
    if new != old {
        let path = Path::new("spec").child("selector");
        errors.invalid_shown(&path, new.map_or("null".to_owned(), show_selector), "field is immutable");
    }
}

/// Warnings about a workload: about its name, when it is new, and about a template that is new or may have changed.
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

/// The warning about a name that does not fit into the names of pods.
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

/// Warnings about the template of a workload.
pub(super) fn template_warnings(workload: &Value) -> Vec<String> {
    let template = workload.pointer("/spec/template").unwrap_or(&Value::Null);
    pod::template_warnings(template, &Path::new("spec").child("template"))
}

/// Whether an update has changed nothing that counts.
pub(super) fn same_generation(object: &Value, old: &Value) -> bool {
    integer(object, "/metadata/generation") == integer(old, "/metadata/generation")
}

/// Whether a selector asks for nothing, and so selects everything.
pub(super) fn is_empty_selector(selector: &Value) -> bool {
    map(selector, "/matchLabels").is_none_or(|labels| labels.is_empty())
        && items(selector, "/matchExpressions").is_empty()
}

/// Whether a valid selector selects the pods of a template.
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

/// A selector as a message shows it: labels before expressions.
pub fn show_selector(selector: &Value) -> String {
    let fields: Vec<_> = ["matchLabels", "matchExpressions"]
        .iter()
        .filter_map(|field| selector.get(*field).map(|value| format!("\"{field}\":{value}")))
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// A selector as one line of text, as a query has it; empty when it selects everything.
pub fn selector_text(workload: &Value) -> Cow<'static, str> {
    match columns::selector(workload, "/spec/selector") {
        text if text == "<none>" => Cow::Borrowed(""),
        text => Cow::Owned(text),
    }
}
