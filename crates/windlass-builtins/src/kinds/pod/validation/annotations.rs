//! Validation of annotations in general, and of the annotations that have a meaning on pods.

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::names;

use super::{each_container, paths, scheduling};
use crate::field_errors::FieldErrors;
use crate::object::{entries, items, text};

/// Annotation of a mirror pod, which represents a static pod of a node.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
/// Prefix of the annotation with a container's AppArmor profile; the container's name follows.
pub(crate) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
/// Annotation with the seccomp profile of a pod.
pub(crate) const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
/// Prefix of the annotation with a container's seccomp profile; the container's name follows.
pub(crate) const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SIZE_LIMIT: usize = 256 * 1024;

/// Returns an annotation from an object's metadata.
pub(crate) fn annotation<'a>(metadata: &'a Value, key: &str) -> Option<&'a str> {
    metadata.get("annotations")?.get(key)?.as_str()
}

/// Validates the annotations of any object.
pub(crate) fn validate(metadata: &Value, path: &Path, errors: &mut ErrorList) {
    let mut size = 0;
    for (key, value) in entries(metadata, "/annotations") {
        errors.invalid_each(path, key, names::is_qualified_name(&key.to_lowercase()));
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > SIZE_LIMIT {
        errors.push(FieldError::too_long(path, SIZE_LIMIT));
    }
}

/// Validates the annotations that have a meaning on pods.
pub(crate) fn validate_of_pod(metadata: &Value, spec: &Value, path: &Path, errors: &mut ErrorList) {
    if metadata.get("annotations").and_then(Value::as_object).is_none_or(|all| all.is_empty()) {
        return;
    }
    if let Some(value) = annotation(metadata, MIRROR).filter(|_| text(spec, "/nodeName").is_empty()) {
        errors.invalid(&path.key(MIRROR), value, "must set spec.nodeName if mirror pod annotation is set");
    }
    if let Some(tolerations) = annotation(metadata, TOLERATIONS).filter(|tolerations| !tolerations.is_empty()) {
        match serde_json::from_str::<Value>(tolerations) {
            Ok(Value::Array(tolerations)) => {
                scheduling::validate_tolerations(&tolerations, &path.child(TOLERATIONS), errors);
            }
            Ok(_) => {
                let detail = "json: cannot unmarshal object into Go value of type []core.Toleration";
                errors.invalid(path, TOLERATIONS, detail);
            }
            Err(error) => errors.invalid(path, TOLERATIONS, error.to_string()),
        }
    }
    if let Some(cost) = annotation(metadata, DELETION_COST).filter(|cost| !is_cost(cost)) {
        errors.invalid(&path.key(DELETION_COST), cost, "must be a 32bit integer");
    }
    if let Some(profile) = annotation(metadata, SECCOMP_POD) {
        validate_seccomp(profile, &path.child(SECCOMP_POD), errors);
    }
    for (key, value) in entries(metadata, "/annotations") {
        if key.starts_with(SECCOMP_CONTAINER) {
            validate_seccomp(value.as_str().unwrap_or_default(), &path.child(key), errors);
        }
    }
    for (key, value) in entries(metadata, "/annotations") {
        let Some(name) = key.strip_prefix(APP_ARMOR) else { continue };
        let mut is_known = false;
        each_container(spec, path, |container, _| is_known |= text(container, "/name") == name);
        if !is_known {
            errors.invalid(&path.key(key), name, "container not found");
        }
        let profile = value.as_str().unwrap_or_default();
        if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with("localhost/") {
            errors.invalid(&path.key(key), profile, format!("invalid AppArmor profile name: \"{profile}\""));
        }
    }
}

fn is_cost(cost: &str) -> bool {
    let starts_well = matches!(cost.as_bytes(), [b'0'] | [b'-' | b'1'..=b'9', ..]);
    starts_well && cost.parse::<i32>().is_ok()
}

fn validate_seccomp(profile: &str, path: &Path, errors: &mut ErrorList) {
    if matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    match profile.strip_prefix("localhost/") {
        Some(local) => paths::local_descending(local, path, errors),
        None => errors.invalid(path, profile, "must be a valid seccomp profile"),
    }
}

/// Requires that the profiles in annotations and in fields are equal if both are set.
pub(super) fn validate_agreement(metadata: &Value, spec: &Value, path: &Path, errors: &mut ErrorList) {
    if metadata.get("annotations").is_none() {
        return;
    }
    let of_pod = |field: &str| spec.pointer(&format!("/securityContext/{field}")).filter(|profile| !profile.is_null());
    if let (Some(profile), Some(annotation)) = (of_pod("seccompProfile"), annotation(metadata, SECCOMP_POD)) {
        let at = path.child("securityContext").child("seccompProfile");
        disagree("seccomp", &["runtime/default", "docker/default"], annotation, profile, &at, errors);
    }
    each_container(spec, path, |container, at| {
        let profile = container.pointer("/securityContext/seccompProfile").filter(|profile| !profile.is_null());
        let key = format!("{SECCOMP_CONTAINER}{}", text(container, "/name"));
        if let (Some(profile), Some(annotation)) = (profile, annotation(metadata, &key)) {
            let at = at().child("securityContext").child("seccompProfile");
            disagree("seccomp", &["runtime/default", "docker/default"], annotation, profile, &at, errors);
        }
    });
    if text(spec, "/os/name") == "windows" {
        return;
    }
    each_container(spec, path, |container, at| {
        let own = container.pointer("/securityContext/appArmorProfile").filter(|profile| !profile.is_null());
        let key = format!("{APP_ARMOR}{}", text(container, "/name"));
        if let (Some(profile), Some(annotation)) = (own.or(of_pod("appArmorProfile")), annotation(metadata, &key)) {
            let at = at().child("securityContext").child("appArmorProfile");
            disagree("apparmor", &["runtime/default"], annotation, profile, &at, errors);
        }
    });
}

fn disagree(what: &str, defaults: &[&str], annotation: &str, profile: &Value, path: &Path, errors: &mut ErrorList) {
    let is_type_same = match text(profile, "/type") {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => defaults.contains(&annotation),
        "Localhost" => annotation.starts_with("localhost/"),
        _ => true,
    };
    if !is_type_same {
        errors.forbidden(&path.child("type"), format!("{what} type in annotation and field must match"));
    } else if text(profile, "/type") == "Localhost"
        && annotation.strip_prefix("localhost/") != profile.get("localhostProfile").and_then(Value::as_str)
    {
        let detail = format!("{what} profile in annotation and field must match");
        errors.forbidden(&path.child("localhostProfile"), detail);
    }
}

/// Requires that immutable annotations do not change. Annotations with a meaning are validated again, as in
/// kube-apiserver.
pub(super) fn validate_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let path = Path::new("metadata").child("annotations");
    let is_fixed = |key: &str| key.starts_with(APP_ARMOR) || key == MIRROR;
    for (key, value) in entries(old, "/metadata/annotations").filter(|(key, _)| is_fixed(key)) {
        if new.pointer("/metadata/annotations").and_then(|all| all.get(key)) != Some(value) {
            let what = if key == MIRROR { "mirror pod annotation" } else { "AppArmor annotations" };
            errors.forbidden(&path.key(key), format!("may not remove or update {what}"));
        }
    }
    for (key, _) in entries(new, "/metadata/annotations").filter(|(key, _)| is_fixed(key)) {
        if old.pointer("/metadata/annotations").and_then(|all| all.get(key)).is_none() {
            let what = if key == MIRROR { "mirror pod annotation" } else { "AppArmor annotations" };
            errors.forbidden(&path.key(key), format!("may not add {what}"));
        }
    }
    let part = |name| new.get(name).unwrap_or(&Value::Null);
    validate_of_pod(part("metadata"), part("spec"), &path, errors);
}

/// Returns whether a pod is a mirror pod.
pub(super) fn is_mirror(pod: &Value) -> bool {
    annotation(pod.get("metadata").unwrap_or(&Value::Null), MIRROR).is_some()
}

/// Forbids ephemeral containers on create.
pub(super) fn forbid_ephemeral(spec: &Value, path: &Path, detail: &str, errors: &mut ErrorList) {
    if !items(spec, "/ephemeralContainers").is_empty() {
        errors.forbidden(&path.child("ephemeralContainers"), detail);
    }
}
