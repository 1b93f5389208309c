//! Validation of containers, init containers and ephemeral containers.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::{names, sorting::Gather as _};

use super::mounts::{self, Volumes};
use super::{env, probes, resources, security};
use crate::field_errors::FieldErrors;
use crate::kinds::pod::resources::is_sidecar;
use crate::object::{integer, is_set, items, text};

/// Properties of the pod that the rules for containers need.
pub(super) struct Surroundings<'a> {
    /// Valid volumes.
    pub(super) volumes: Volumes<'a>,
    /// Names of the resource claims.
    pub(super) claims: BTreeSet<&'a str>,
    /// Termination grace period.
    pub(super) grace: Option<i64>,
    /// Whether the pod uses the host's user namespace.
    pub(super) host_users: bool,
}

const NO_POLICY: &str = "must specify restartPolicy when restart rules are used";
const NOT_IN_EPHEMERAL: &str = "cannot be set for an Ephemeral Container";

/// Fields that ephemeral containers must not set, in the order of the API.
const EPHEMERAL_FORBIDDEN: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Validates all containers of a spec.
pub(super) fn validate(spec: &Value, around: &Surroundings<'_>, path: &Path, errors: &mut ErrorList) {
    validate_regular(spec, around, &path.child("containers"), errors);
    validate_init(spec, around, &path.child("initContainers"), errors);
    validate_ephemeral(spec, around, &path.child("ephemeralContainers"), errors);
}

fn validate_regular(spec: &Value, around: &Surroundings<'_>, path: &Path, errors: &mut ErrorList) {
    let containers = items(spec, "/containers");
    if containers.is_empty() {
        return errors.required(path);
    }
    let mut names = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let at = path.index(index);
        validate_any(spec, container, around, &at, errors);
        let name = text(container, "/name");
        if !names.insert(name) {
            errors.duplicate(&at.child("name"), name);
        }
        probes::validate_lifecycle(container, around.grace, &at, errors);
        probes::validate_probes(container, around.grace, &at, errors);
        validate_restart_policy(container, &at, errors);
    }
    validate_host_ports(containers.iter().enumerate(), path, errors);
}

fn validate_init(spec: &Value, around: &Surroundings<'_>, path: &Path, errors: &mut ErrorList) {
    let mut names: BTreeSet<_> = items(spec, "/containers").iter().map(|container| text(container, "/name")).gather();
    for (index, container) in items(spec, "/initContainers").iter().enumerate() {
        let at = path.index(index);
        validate_any(spec, container, around, &at, errors);
        validate_init_restart_policy(container, &at, errors);
        let name = text(container, "/name");
        if names.contains(name) {
            errors.duplicate(&at.child("name"), name);
        } else if !name.is_empty() {
            names.insert(name);
        }
        // Init containers run one by one, so the ports of each are checked alone; kube-apiserver reports index 0 here.
        validate_host_ports(std::iter::once((0, container)), path, errors);
        if is_sidecar(container) {
            probes::validate_lifecycle(container, around.grace, &at, errors);
            probes::validate_probes(container, around.grace, &at, errors);
        } else {
            probes::forbid_on_init_container(container, &at, errors);
            for (policy_index, policy) in items(container, "/resizePolicy").iter().enumerate() {
                if text(policy, "/restartPolicy") == "RestartContainer" {
                    let at = at.child("resizePolicy").index(policy_index).child("restartPolicy");
                    let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                    errors.invalid(&at, "RestartContainer", detail);
                }
            }
        }
    }
}

fn validate_ephemeral(spec: &Value, around: &Surroundings<'_>, path: &Path, errors: &mut ErrorList) {
    let others: BTreeSet<_> = items(spec, "/containers")
        .iter()
        .chain(items(spec, "/initContainers"))
        .map(|container| text(container, "/name"))
        .gather();
    let mut names = others.clone();
    for (index, container) in items(spec, "/ephemeralContainers").iter().enumerate() {
        let at = path.index(index);
        validate_any(spec, container, around, &at, errors);
        validate_image_space(container, &at, errors);
        let (name, target) = (text(container, "/name"), text(container, "/targetContainerName"));
        if !names.insert(name) {
            errors.duplicate(&at.child("name"), name);
        }
        if !target.is_empty() && !others.contains(target) {
            errors.not_found(&at.child("targetContainerName"), target);
        }
        for field in EPHEMERAL_FORBIDDEN {
            let is_pointer = !matches!(field, "ports" | "resources" | "resizePolicy" | "restartPolicyRules");
            if container.get(field).is_some_and(|value| is_nonzero(value) || is_pointer && !value.is_null()) {
                errors.forbidden(&at.child(field), NOT_IN_EPHEMERAL);
            }
        }
        for (index, mount) in items(container, "/volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if mount.get(field).is_some_and(is_nonzero) {
                    errors.forbidden(&at.child("volumeMounts").index(index).child(field), NOT_IN_EPHEMERAL);
                }
            }
        }
    }
}

/// Returns whether a value differs from Go's zero value.
pub(super) fn is_nonzero(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(yes) => *yes,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => fields.values().any(is_nonzero),
    }
}

/// Validates the rules for all types of containers.
fn validate_any(spec: &Value, container: &Value, around: &Surroundings<'_>, path: &Path, errors: &mut ErrorList) {
    let name = text(container, "/name");
    if name.is_empty() {
        errors.required(&path.child("name"));
    } else {
        errors.dns_label(&path.child("name"), name);
    }
    errors.nonempty(&path.child("image"), text(container, "/image"));
    let policies = ["File", "FallbackToLogsOnError"];
    errors.one_of(&path.child("terminationMessagePolicy"), text(container, "/terminationMessagePolicy"), &policies);
    validate_ports(items(container, "/ports"), &path.child("ports"), errors);
    env::validate(container, path, errors);
    mounts::validate(container, &around.volumes, path, errors);
    validate_pull_policy(text(container, "/imagePullPolicy"), &path.child("imagePullPolicy"), errors);
    resources::validate_container(container, &around.claims, &path.child("resources"), errors);
    validate_resize_policy(container, text(spec, "/restartPolicy"), &path.child("resizePolicy"), errors);
    security::validate_container(container, around.host_users, &path.child("securityContext"), errors);
}

/// Validates the image pull policy.
pub(super) fn validate_pull_policy(policy: &str, path: &Path, errors: &mut ErrorList) {
    errors.one_of(path, policy, &["Always", "IfNotPresent", "Never"]);
}

/// Rejects leading and trailing spaces in the image of a pod; templates may have them.
pub(super) fn validate_image_space(container: &Value, path: &Path, errors: &mut ErrorList) {
    let image = text(container, "/image");
    if image.trim().len() != image.len() {
        errors.invalid(&path.child("image"), image, "must not have leading or trailing whitespace");
    }
}

fn validate_ports(ports: &[Value], path: &Path, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let at = path.index(index);
        let (name, protocol) = (text(port, "/name"), text(port, "/protocol"));
        if !name.is_empty() {
            let problems = names::is_valid_port_name(name);
            if problems.is_empty() && !seen.insert(name) {
                errors.duplicate(&at.child("name"), name);
            }
            errors.invalid_each(&at.child("name"), name, problems);
        }
        match integer(port, "/containerPort").unwrap_or_default() {
            0 => errors.required(&at.child("containerPort")),
            number => errors.invalid_each(&at.child("containerPort"), number, names::is_valid_port_num(number)),
        }
        match integer(port, "/hostPort").unwrap_or_default() {
            0 => {}
            number => errors.invalid_each(&at.child("hostPort"), number, names::is_valid_port_num(number)),
        }
        errors.one_of(&at.child("protocol"), protocol, &["SCTP", "TCP", "UDP"]);
    }
}

/// Rejects duplicate host ports.
fn validate_host_ports<'a>(containers: impl Iterator<Item = (usize, &'a Value)>, path: &Path, errors: &mut ErrorList) {
    let mut taken = BTreeSet::new();
    for (index, container) in containers {
        for (port_index, port) in items(container, "/ports").iter().enumerate() {
            let number = integer(port, "/hostPort").unwrap_or_default();
            if number == 0 {
                continue;
            }
            let key = format!("{}/{}/{number}", text(port, "/protocol"), text(port, "/hostIP"));
            if taken.contains(&key) {
                errors.duplicate(&path.index(index).child("ports").index(port_index).child("hostPort"), &key);
            }
            taken.insert(key);
        }
    }
}

/// Requires that container ports are host ports if the pod uses the host network.
pub(super) fn validate_host_network(spec: &Value, is_pod: bool, path: &Path, errors: &mut ErrorList) {
    if spec.get("hostNetwork").and_then(Value::as_bool) != Some(true) {
        return;
    }
    for (index, container) in items(spec, "/containers").iter().enumerate() {
        for (port_index, port) in items(container, "/ports").iter().enumerate() {
            let host = integer(port, "/hostPort").unwrap_or_default();
            if (is_pod || host != 0) && host != integer(port, "/containerPort").unwrap_or_default() {
                let at = path.child("containers").index(index).child("ports").index(port_index).child("hostPort");
                errors.invalid(&at, host, "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}

fn validate_resize_policy(container: &Value, restart_policy: &str, path: &Path, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, policy) in items(container, "/resizePolicy").iter().enumerate() {
        let (resource, restart) = (text(policy, "/resourceName"), text(policy, "/restartPolicy"));
        if !seen.insert(resource) {
            errors.duplicate(&path.index(index), resource);
        }
        errors.one_of(path, resource, &["cpu", "memory"]);
        errors.one_of(path, restart, &["NotRequired", "RestartContainer"]);
        if restart_policy == "Never" && restart != "NotRequired" {
            errors.invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
    }
}

/// Rejects restart policy rules on an init container without a restart policy of its own.
fn validate_init_restart_policy(container: &Value, path: &Path, errors: &mut ErrorList) {
    if is_set(container, "/restartPolicy") {
        validate_restart_policy(container, path, errors);
    } else if !items(container, "/restartPolicyRules").is_empty() {
        errors.required_because(&path.child("restartPolicy"), NO_POLICY);
    }
}

fn validate_restart_policy(container: &Value, path: &Path, errors: &mut ErrorList) {
    let rules = items(container, "/restartPolicyRules");
    let policy_path = path.child("restartPolicy");
    if is_set(container, "/restartPolicy") {
        let policy = text(container, "/restartPolicy");
        let supported = ["Always", "Never", "OnFailure"];
        if !supported.contains(&policy) {
            errors.not_supported(&policy_path, policy, &supported);
        }
    } else if !rules.is_empty() {
        errors.required_because(&policy_path, NO_POLICY);
    }
    let path = path.child("restartPolicyRules");
    if rules.len() > 20 {
        errors.push(FieldError::too_many(&path, rules.len(), 20));
    }
    for (index, rule) in rules.iter().enumerate() {
        let at = path.index(index);
        let action = text(rule, "/action");
        if !matches!(action, "Restart" | "RestartAllContainers") {
            errors.not_supported(&at.child("action"), action, &["Restart", "RestartAllContainers"]);
        }
        if !is_set(rule, "/exitCodes") {
            errors.required_because(&at.child("exitCodes"), "must be specified");
            continue;
        }
        let at = at.child("exitCodes");
        let operator = text(rule, "/exitCodes/operator");
        if !matches!(operator, "In" | "NotIn") {
            errors.not_supported(&at.child("operator"), operator, &["In", "NotIn"]);
        }
        let values = items(rule, "/exitCodes/values").len();
        if values > 255 {
            errors.push(FieldError::too_many(&at.child("values"), values, 255));
        }
    }
}
