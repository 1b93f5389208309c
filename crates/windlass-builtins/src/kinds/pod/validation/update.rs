//! Validation of updates.

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::names;

use super::{annotations, containers, scheduling};
use crate::diff::{diff, same};
use crate::field_errors::FieldErrors;
use crate::kinds::internal_types::{show_ephemeral_container, show_pod_spec};
use crate::object::{carry_over, entries, integer, items, remove, set, text};

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                         `spec.tolerations` (only additions to existing tolerations),\
                         `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Validates an ordinary update of a pod.
pub(in crate::kinds::pod) fn validate_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = super::validate_any(new);
    annotations::validate_update(new, old, &mut errors);
    let path = Path::new("spec");
    for kind in ["containers", "initContainers"] {
        if !validate_images(new, old, kind, &path.child(kind), &mut errors) {
            return errors;
        }
    }
    if !validate_deadline(new, old, &path.child("activeDeadlineSeconds"), &mut errors) {
        return errors;
    }
    validate_tolerations(new, old, &path.child("tolerations"), &mut errors);
    validate_gates(new, old, &path.child("schedulingGates"), &mut errors);
    let (new_spec, old_spec) = (&new["spec"], &old["spec"]);
    if same(new_spec, old_spec) {
        return errors;
    }
    let masked = mask(new_spec, old_spec, &path, &mut errors);
    if !same(&masked, old_spec) {
        let differences = diff(&show_pod_spec(old_spec), &show_pod_spec(&masked));
        errors.forbidden(&path, format!("pod updates may not change fields other than {UPDATABLE}\n{differences}"));
    }
    errors
}

/// Validates the images; returns whether the containers correspond, so that they can be compared further.
fn validate_images(new: &Value, old: &Value, kind: &str, path: &Path, errors: &mut ErrorList) -> bool {
    let pointer = format!("/spec/{kind}");
    let containers = items(new, &pointer);
    if containers.len() != items(old, &pointer).len() {
        errors.forbidden(path, "pod updates may not add or remove containers");
        return false;
    }
    for (index, container) in containers.iter().enumerate() {
        errors.nonempty(&path.index(index).child("image"), text(container, "/image"));
        containers::validate_image_space(container, &path.index(index), errors);
    }
    true
}

/// Allows setting or shortening the active deadline; returns whether it has changed.
fn validate_deadline(new: &Value, old: &Value, path: &Path, errors: &mut ErrorList) -> bool {
    let seconds = |pod| integer(pod, "/spec/activeDeadlineSeconds");
    let most = i64::from(i32::MAX);
    match (seconds(new), seconds(old)) {
        (Some(new), _) if !(0..=most).contains(&new) => {
            errors.invalid(path, new, names::inclusive_range_error(0, most));
            false
        }
        (Some(new), Some(old)) if old < new => {
            errors.invalid(path, new, "must be less than or equal to previous value");
            false
        }
        (None, Some(_)) => {
            errors.invalid(path, Value::Null, "must not update from a positive integer to nil value");
            true
        }
        _ => true,
    }
}

fn validate_tolerations(new: &Value, old: &Value, path: &Path, errors: &mut ErrorList) {
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        remove(&mut toleration, "/tolerationSeconds");
        toleration
    };
    let tolerations = items(new, "/spec/tolerations");
    let kept: Vec<_> = tolerations.iter().map(without_seconds).collect();
    if items(old, "/spec/tolerations").iter().any(|old| !kept.contains(&without_seconds(old))) {
        return errors.forbidden(path, "existing toleration can not be modified except its tolerationSeconds");
    }
    scheduling::validate_tolerations(tolerations, path, errors);
}

fn validate_gates(new: &Value, old: &Value, path: &Path, errors: &mut ErrorList) {
    let (gates, before) = (items(new, "/spec/schedulingGates"), items(old, "/spec/schedulingGates"));
    let has = |gates: &[Value], name: &str| gates.iter().any(|gate| text(gate, "/name") == name);
    for (index, gate) in gates.iter().enumerate() {
        let name = text(gate, "/name");
        if !has(before, name) && !has(&gates[index + 1..], name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(&path.index(index).child("name"), detail);
        }
    }
}

/// Returns the new spec with all mutable fields restored.
fn mask(new: &Value, old: &Value, path: &Path, errors: &mut ErrorList) -> Value {
    let mut masked = new.clone();
    for kind in ["containers", "initContainers"] {
        let old_containers = old.get(kind).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let containers = masked.get_mut(kind).and_then(Value::as_array_mut);
        for (container, old) in containers.into_iter().flatten().zip(old_containers) {
            carry_over(container, old, "/image");
        }
    }
    for field in ["/activeDeadlineSeconds", "/schedulingGates", "/tolerations"] {
        carry_over(&mut masked, old, field);
    }
    if integer(old, "/terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0)
        && integer(&masked, "/terminationGracePeriodSeconds") == Some(1)
    {
        carry_over(&mut masked, old, "/terminationGracePeriodSeconds");
    }
    if !items(old, "/schedulingGates").is_empty() {
        mask_of_gated(&mut masked, old, path, errors);
    }
    masked
}

/// Restores the fields of a gated pod that may be narrowed: node selector and node affinity.
fn mask_of_gated(masked: &mut Value, old: &Value, path: &Path, errors: &mut ErrorList) {
    let is_kept = |(key, value): (&str, &Value)| masked.get("nodeSelector").and_then(|all| all.get(key)) == Some(value);
    if !entries(old, "/nodeSelector").all(is_kept) {
        let selector = masked.get("nodeSelector").cloned().unwrap_or_default();
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(&path.child("nodeSelector"), selector, detail);
    }
    carry_over(masked, old, "/nodeSelector");
    let affinity = |spec: &Value| spec.pointer("/affinity/nodeAffinity").cloned().unwrap_or_default();
    let (new_affinity, old_affinity) = (affinity(masked), affinity(old));
    if same(&new_affinity, &old_affinity) {
        return;
    }
    validate_node_affinity(&new_affinity, &old_affinity, &path.child("affinity").child("nodeAffinity"), errors);
    let has_others = ["podAffinity", "podAntiAffinity"]
        .iter()
        .any(|kind| masked.pointer(&format!("/affinity/{kind}")).is_some_and(|affinity| !affinity.is_null()));
    if old.get("affinity").is_none_or(Value::is_null) && !has_others {
        remove(masked, "/affinity");
    } else if old_affinity.is_null() {
        remove(masked, "/affinity/nodeAffinity");
    } else {
        set(masked, "/affinity/nodeAffinity", old_affinity);
    }
}

fn validate_node_affinity(new: &Value, old: &Value, path: &Path, errors: &mut ErrorList) {
    let pointer = format!("/{REQUIRED}/nodeSelectorTerms");
    let (new, old) = (items(new, &pointer), items(old, &pointer));
    let path = path.child(REQUIRED).child("nodeSelectorTerms");
    if old.is_empty() {
        return;
    }
    if old.len() != new.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.invalid_shown(&path, show_terms(new), detail);
    }
    for (index, (new, old)) in new.iter().zip(old).enumerate() {
        let lists = ["/matchExpressions", "/matchFields"];
        let is_empty = |term: &Value| lists.iter().all(|list| items(term, list).is_empty());
        let only_adds = |list: &&str| items(new, list).starts_with(items(old, list));
        if is_empty(old) && !is_empty(new) || !lists.iter().all(only_adds) {
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.invalid_shown(&path.index(index), show_term(new), detail);
        }
    }
}

fn show_terms(terms: &[Value]) -> String {
    if terms.is_empty() {
        return "null".to_owned();
    }
    format!("[{}]", terms.iter().map(show_term).collect::<Vec<_>>().join(","))
}

/// Formats a term as in messages, with the field names of kube-apiserver's internal type.
fn show_term(term: &Value) -> String {
    let list = |field: &str| match term.get(field).and_then(Value::as_array) {
        None => "null".to_owned(),
        Some(requirements) => {
            let shown: Vec<_> = requirements
                .iter()
                .map(|requirement| {
                    let field = |name: &str| requirement.get(name).unwrap_or(&Value::Null);
                    let (key, operator, values) = (field("key"), field("operator"), field("values"));
                    format!("{{\"Key\":{key},\"Operator\":{operator},\"Values\":{values}}}")
                })
                .collect();
            format!("[{}]", shown.join(","))
        }
    };
    format!("{{\"MatchExpressions\":{},\"MatchFields\":{}}}", list("matchExpressions"), list("matchFields"))
}

/// Validates an update of the ephemeral containers, which may be added but not changed or removed.
pub(in crate::kinds::pod) fn validate_ephemeral_containers(new: &Value, old: &Value) -> ErrorList {
    let mut errors = super::validate_any(new);
    annotations::validate_update(new, old, &mut errors);
    if annotations::is_mirror(old) {
        errors.clear();
        errors.forbidden_at_all("static pods do not support ephemeral containers");
        return errors;
    }
    let path = Path::new("spec").child("ephemeralContainers");
    let containers = items(new, "/spec/ephemeralContainers");
    for old in items(old, "/spec/ephemeralContainers") {
        let name = text(old, "/name");
        match containers.iter().rev().find(|container| text(container, "/name") == name) {
            None => {
                errors.forbidden(&path, format!("existing ephemeral containers \"{name}\" may not be removed\n"));
            }
            Some(new) if !same(old, new) => {
                let differences = diff(&show_ephemeral_container(old), &show_ephemeral_container(new));
                let detail = format!("existing ephemeral containers \"{name}\" may not be changed\n{differences}");
                errors.forbidden(&path, detail);
            }
            Some(_) => {}
        }
    }
    errors
}
