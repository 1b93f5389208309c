//! Validation of pods, with the messages and the order of kube-apiserver. Metadata is validated elsewhere, for all
//! kinds alike.
//!
//! Each topic has its own file; this one defines the order.

pub(crate) mod annotations;
pub(crate) mod claims;
mod containers;
mod env;
mod mounts;
mod network;
pub(crate) mod paths;
mod probes;
mod projected;
mod resize;
pub(crate) mod resources;
pub(crate) mod scheduling;
mod security;
mod status;
mod update;
pub(crate) mod volumes;
mod windows;

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::names;

use self::containers::Surroundings;
use crate::field_errors::FieldErrors;
use crate::kinds::label_selector;
use crate::object::{boolean, integer, is_set, items, text};

pub(crate) use claims::validate_spec as validate_claim;
pub(super) use resize::validate_resize;
pub(super) use security::validate_app_armor;
pub(super) use status::validate_status;
pub(super) use update::{validate_ephemeral_containers, validate_update};

/// Validates a new pod.
pub fn validate_create(pod: &Value) -> ErrorList {
    let mut errors = validate_any(pod);
    let (metadata, spec, path) = parts(pod);
    annotations::forbid_ephemeral(spec, &path, "cannot be set on create", &mut errors);
    if !text(spec, "/nodeName").is_empty() && !items(spec, "/schedulingGates").is_empty() {
        errors.forbidden(&path.child("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
    annotations::validate_agreement(metadata, spec, &path, &mut errors);
    errors
}

/// Validates the rules that apply to new and changed pods.
pub(super) fn validate_any(pod: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let (metadata, spec, path) = parts(pod);
    annotations::validate_of_pod(metadata, spec, &Path::new("metadata").child("annotations"), &mut errors);
    validate_spec(spec, Some(metadata), &path, &mut errors);
    projected::forbid_tokens_without_account(spec, &path, &mut errors);
    for kind in ["containers", "initContainers"] {
        for (index, container) in items(spec, &format!("/{kind}")).iter().enumerate() {
            containers::validate_image_space(container, &path.child(kind).index(index), &mut errors);
        }
    }
    errors
}

/// Validates a pod template at `path`.
pub fn validate_template(template: &Value, path: &Path, errors: &mut ErrorList) {
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    let spec = template.get("spec").unwrap_or(&Value::Null);
    label_selector::validate_labels(metadata, "/labels", &path.child("labels"), errors);
    annotations::validate(metadata, &path.child("annotations"), errors);
    annotations::validate_of_pod(metadata, spec, &path.child("annotations"), errors);
    let path = path.child("spec");
    validate_spec(spec, None, &path, errors);
    annotations::validate_agreement(metadata, spec, &path, errors);
    annotations::forbid_ephemeral(spec, &path, "ephemeral containers not allowed in pod template", errors);
}

/// Validates the spec of a pod, with its metadata, or of a template, without.
fn validate_spec(spec: &Value, metadata: Option<&Value>, path: &Path, errors: &mut ErrorList) {
    let is_pod = metadata.is_some();
    let grace = integer(spec, "/terminationGracePeriodSeconds");
    if grace.is_none() {
        errors.required(&path.child("terminationGracePeriodSeconds"));
    }
    let pod_name = metadata.map(|metadata| text(metadata, "/name")).unwrap_or_default();
    let is_static = metadata.is_some_and(|metadata| annotations::annotation(metadata, annotations::MIRROR).is_some());
    let volumes = volumes::validate(spec, pod_name, is_pod, &path.child("volumes"), errors);
    let claims = resources::validate_pod_claims(spec, is_static, &path.child("resourceClaims"), errors);
    let host_users = boolean(spec, "/hostUsers").unwrap_or(true);
    let around = Surroundings { volumes, claims, grace, host_users };
    containers::validate(spec, &around, path, errors);
    resources::validate_pod(spec, &around.claims, path, errors);
    containers::validate_host_network(spec, is_pod, path, errors);
    let policies = ["Always", "OnFailure", "Never"];
    errors.one_of(&path.child("restartPolicy"), text(spec, "/restartPolicy"), &policies);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    errors.one_of(&path.child("dnsPolicy"), text(spec, "/dnsPolicy"), &policies);
    label_selector::validate_labels(spec, "/nodeSelector", &path.child("nodeSelector"), errors);
    security::validate_pod(spec, &path.child("securityContext"), errors);
    scheduling::validate_affinity(spec, &path.child("affinity"), errors);
    network::validate_dns(spec, &path.child("dnsConfig"), errors);
    scheduling::validate_gates(spec, path, errors);
    scheduling::validate_spread(spec, &path.child("topologySpreadConstraints"), errors);
    windows::validate_host_process(spec, path, errors);
    security::validate_host_users(spec, path, errors);
    network::validate_hostname_override(spec, path, errors);
    validate_scalars(spec, path, errors);
    windows::validate_os(spec, path, errors);
    env::validate_file_volumes(spec, path, errors);
}

fn validate_scalars(spec: &Value, path: &Path, errors: &mut ErrorList) {
    for field in ["serviceAccountName", "nodeName"] {
        let name = spec.get(field).and_then(Value::as_str).unwrap_or_default();
        if !name.is_empty() {
            errors.dns_subdomain(&path.child(field), name);
        }
    }
    let most = i64::from(i32::MAX);
    if let Some(seconds) = integer(spec, "/activeDeadlineSeconds").filter(|seconds| !(1..=most).contains(seconds)) {
        errors.invalid(&path.child("activeDeadlineSeconds"), seconds, names::inclusive_range_error(1, most));
    }
    for field in ["hostname", "subdomain"] {
        let name = spec.get(field).and_then(Value::as_str).unwrap_or_default();
        if !name.is_empty() {
            errors.dns_label(&path.child(field), name);
        }
    }
    scheduling::validate_tolerations(items(spec, "/tolerations"), &path.child("tolerations"), errors);
    network::validate_host_aliases(spec, &path.child("hostAliases"), errors);
    let class = text(spec, "/priorityClassName");
    if !class.is_empty() {
        errors.dns_subdomain(&path.child("priorityClassName"), class);
    }
    if is_set(spec, "/runtimeClassName") {
        errors.dns_subdomain(&path.child("runtimeClassName"), text(spec, "/runtimeClassName"));
    }
    if is_set(spec, "/preemptionPolicy") {
        let policies = ["PreemptLowerPriority", "Never"];
        errors.one_of(&path.child("preemptionPolicy"), text(spec, "/preemptionPolicy"), &policies);
    }
    resources::validate_overhead(spec, path, errors);
}

/// Returns the metadata and the spec of a pod, and the path of the spec.
fn parts(pod: &Value) -> (&Value, &Value, Path) {
    let field = |name| pod.get(name).unwrap_or(&Value::Null);
    (field("metadata"), field("spec"), Path::new("spec"))
}

/// Calls `visit` with every container of a spec: init containers, containers, ephemeral containers. The path is built
/// only on demand.
pub(crate) fn each_container(spec: &Value, path: &Path, mut visit: impl FnMut(&Value, &dyn Fn() -> Path)) {
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        let containers = spec.get(kind).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (index, container) in containers.iter().enumerate() {
            visit(container, &|| path.child(kind).index(index));
        }
    }
}

#[cfg(test)]
mod tests;
