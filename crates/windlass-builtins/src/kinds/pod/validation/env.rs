//! Validation of environment variables and their sources.

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::names;

use super::paths;
use crate::field_errors::FieldErrors;
use crate::object::{is_set, items, text};
use crate::resource_list::quantity;

/// Pod fields that a variable can refer to.
const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Pod fields that a file of a volume can refer to.
pub(super) const VOLUME_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// All pod fields that the downward API supports.
const DOWNWARD_FIELDS: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

const SIZES: &str = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";

/// Validates `env` and `envFrom` of a container.
pub(super) fn validate(container: &Value, path: &Path, errors: &mut ErrorList) {
    for (index, variable) in items(container, "/env").iter().enumerate() {
        let name = text(variable, "/name");
        if name.is_empty() {
            errors.required(&path.child("env").index(index).child("name"));
        } else {
            let problems = names::is_relaxed_env_var_name(name);
            errors.invalid_each(&path.child("env").index(index).child("name"), name, problems);
        }
        if let Some(source) = variable.get("valueFrom").filter(|source| !source.is_null()) {
            let at = path.child("env").index(index).child("valueFrom");
            validate_source(source, text(variable, "/value"), &at, errors);
        }
    }
    let path = path.child("envFrom");
    for (index, source) in items(container, "/envFrom").iter().enumerate() {
        let at = path.index(index);
        let prefix = text(source, "/prefix");
        if !prefix.is_empty() {
            errors.invalid_each(&at.child("prefix"), prefix, names::is_relaxed_env_var_name(prefix));
        }
        let mut sources = 0;
        for field in ["configMapRef", "secretRef"] {
            let Some(reference) = source.get(field).filter(|reference| !reference.is_null()) else { continue };
            sources += 1;
            let (name, at) = (text(reference, "/name"), at.child(field).child("name"));
            if name.is_empty() {
                errors.required(&at);
            } else {
                errors.invalid_each(&at, name, names::name_is_dns_subdomain(name, true));
            }
        }
        match sources {
            0 => errors.invalid(&path, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(&path, "", "may not have more than one field specified at a time"),
        }
    }
}

fn validate_source(source: &Value, value: &str, path: &Path, errors: &mut ErrorList) {
    let mut sources = 0;
    for field in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
        let Some(reference) = source.get(field).filter(|reference| !reference.is_null()) else { continue };
        sources += 1;
        let at = path.child(field);
        match field {
            "fieldRef" => validate_field_ref(reference, &ENV_FIELDS, &at, errors),
            "resourceFieldRef" => validate_resource_ref(reference, false, &at, errors),
            "fileKeyRef" => validate_file_key(reference, &at, errors),
            _ => validate_key(reference, &at, errors),
        }
    }
    if sources == 0 {
        let detail =
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.invalid(path, "", detail);
    } else if !value.is_empty() {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
}

fn validate_key(reference: &Value, path: &Path, errors: &mut ErrorList) {
    let (name, key) = (text(reference, "/name"), text(reference, "/key"));
    errors.dns_subdomain(&path.child("name"), name);
    if key.is_empty() {
        errors.required(&path.child("key"));
    } else {
        errors.invalid_each(&path.child("key"), key, names::is_config_map_key(key));
    }
}

fn validate_file_key(reference: &Value, path: &Path, errors: &mut ErrorList) {
    let (key, volume, file) = (text(reference, "/key"), text(reference, "/volumeName"), text(reference, "/path"));
    if key.is_empty() {
        errors.required(&path.child("key"));
    } else {
        errors.invalid_each(&path.child("key"), key, names::is_relaxed_env_var_name(key));
    }
    if volume.is_empty() {
        errors.required(&path.child("volumeName"));
    } else {
        errors.dns_label(&path.child("volumeName"), volume);
    }
    if file.is_empty() {
        errors.required(&path.child("path"));
    } else {
        paths::no_backsteps(file, &path.child("path"), errors);
    }
}

/// Validates a reference to a field of the pod itself.
pub(super) fn validate_field_ref(reference: &Value, allowed: &[&str], path: &Path, errors: &mut ErrorList) {
    let (version, field) = (text(reference, "/apiVersion"), text(reference, "/fieldPath"));
    if version.is_empty() {
        return errors.required(&path.child("apiVersion"));
    }
    if field.is_empty() {
        return errors.required(&path.child("fieldPath"));
    }
    let subscript = split_subscript(field);
    let problem = match subscript {
        _ if version != "v1" => format!("unsupported pod version: {version}"),
        Some(("metadata.annotations" | "metadata.labels", _)) => String::new(),
        Some(_) => format!("field label does not support subscript: {field}"),
        None if DOWNWARD_FIELDS.contains(&field) || field == "spec.host" => String::new(),
        None => format!("field label not supported: {field}"),
    };
    if !problem.is_empty() {
        return errors.invalid(&path.child("fieldPath"), field, format!("error converting fieldPath: {problem}"));
    }
    match subscript {
        Some(("metadata.annotations", key)) => errors.qualified_name(path, &key.to_lowercase()),
        Some((_, key)) => errors.qualified_name(path, key),
        None => {
            let field = if field == "spec.host" { "spec.nodeName" } else { field };
            if !allowed.contains(&field) {
                errors.not_supported(&path.child("fieldPath"), field, allowed);
            }
        }
    }
}

/// Splits `metadata.labels['app']` into `metadata.labels` and `app`.
fn split_subscript(field: &str) -> Option<(&str, &str)> {
    let (path, key) = field.strip_suffix("']")?.split_once("['")?;
    (!path.is_empty()).then_some((path, key))
}

/// Validates a reference to the requests or limits of a container. In a volume, it must name the container.
pub(super) fn validate_resource_ref(reference: &Value, in_volume: bool, path: &Path, errors: &mut ErrorList) {
    let resource = text(reference, "/resource");
    let is_huge_pages = resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-");
    if in_volume && text(reference, "/containerName").is_empty() {
        errors.required(&path.child("containerName"));
    } else if resource.is_empty() {
        errors.required(&path.child("resource"));
    } else if !RESOURCES.contains(&resource) && !is_huge_pages {
        errors.not_supported(&path.child("resource"), resource, &RESOURCES);
    }
    let Some(divisor) = reference.get("divisor").and_then(quantity).filter(|divisor| !divisor.is_zero()) else {
        return;
    };
    let what = match resource.split_once('.').map(|(_, what)| what) {
        Some("cpu") => "cpu",
        Some("memory") => "memory",
        Some("ephemeral-storage") => "local ephemeral storage",
        _ if is_huge_pages => "hugepages",
        _ => return,
    };
    let allowed = if what == "cpu" { "1m, 1" } else { SIZES };
    if !allowed.split(", ").any(|allowed| allowed == divisor.to_string()) {
        let allowed = if what == "cpu" { "1m and 1" } else { SIZES };
        let detail = format!("only divisor's values {allowed} are supported with the {what} resource");
        errors.invalid(&path.child("divisor"), resource, detail);
    }
}

/// Requires that variables read from files refer to an `emptyDir` volume of the pod.
pub(super) fn validate_file_volumes(spec: &Value, path: &Path, errors: &mut ErrorList) {
    super::each_container(spec, path, |container, at| {
        for (index, variable) in items(container, "/env").iter().enumerate() {
            let Some(name) = variable.pointer("/valueFrom/fileKeyRef").map(|file| text(file, "/volumeName")) else {
                continue;
            };
            let at = at().child("env").index(index).child("valueFrom").child("fileKeyRef").child("volumeName");
            match items(spec, "/volumes").iter().rev().find(|volume| text(volume, "/name") == name) {
                None => errors.not_found(&at, name),
                Some(volume) if !is_set(volume, "/emptyDir") => {
                    errors.invalid(&at, name, "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    });
}
