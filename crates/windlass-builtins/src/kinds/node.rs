//! Nodes.

mod validation;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::names::cidr_warnings;

use crate::columns::{AGE, Column, NAME, Printer, age, column, name, or_none, wide};
use crate::object::{boolean, carry_over, copy, entries, is_set, items, remove, set, text};
use crate::strategy::{Strategy, WriteContext};

/// Strategy of Nodes.
#[derive(Debug, Clone, Copy)]
pub struct Node;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for Node {
    fn default(&self, object: &mut Value) {
        if !is_set(object, "/status/allocatable") && is_set(object, "/status/capacity") {
            let capacity = copy(object, "/status/capacity");
            set(object, "/status/allocatable", capacity);
        }
        // `podCIDR` takes precedence if the two differ.
        let single = text(object, "/spec/podCIDR");
        let first = text(object, "/spec/podCIDRs/0");
        if !single.is_empty() && single != first {
            let all = vec![Value::from(single)];
            set(object, "/spec/podCIDRs", all);
        } else if !first.is_empty() {
            let first = first.to_owned();
            set(object, "/spec/podCIDR", first);
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        remove(object, "/spec/configSource");
        remove(object, "/status/config");
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validation::node(object)
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, _context: &WriteContext<'_>) {
        carry_over(object, old, "/status");
        if !is_set(old, "/spec/configSource") {
            remove(object, "/spec/configSource");
        }
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = validation::node(object);
        errors.extend(validation::update(object, old));
        errors
    }

    fn prepare_for_subresource_update(
        &self,
        subresource: &str,
        object: &mut Value,
        old: &Value,
        _context: &WriteContext<'_>,
    ) {
        if subresource == "status" {
            carry_over(object, old, "/spec");
            if !is_set(old, "/status/config") {
                remove(object, "/status/config");
            }
        }
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, old: &Value) -> ErrorList {
        if subresource == "status" { validation::update(object, old) } else { ErrorList::new() }
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if is_set(object, "/spec/configSource") {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !text(object, "/spec/externalID").is_empty() {
            warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
        }
        let path = Path::new("spec").child("podCIDRs");
        for (i, range) in items(object, "/spec/podCIDRs").iter().enumerate() {
            warnings.extend(cidr_warnings(&path.index(i), range.as_str().unwrap_or_default()));
        }
        warnings
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("spec.unschedulable", boolean(object, "/spec/unschedulable").unwrap_or_default().to_string())]
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let info = |field: &str| match text(object, &format!("/status/nodeInfo/{field}")) {
        "" => "<unknown>".to_owned(),
        text => text.to_owned(),
    };
    let mut kernel = info("kernelVersion");
    let architecture = text(object, "/status/nodeInfo/architecture");
    if !architecture.is_empty() {
        kernel = format!("{kernel} ({architecture})");
    }
    vec![
        name(object),
        status(object).into(),
        or_none(&roles(object)).into(),
        age(object, now),
        text(object, "/status/nodeInfo/kubeletVersion").into(),
        or_none(address(object, "InternalIP")).into(),
        or_none(address(object, "ExternalIP")).into(),
        info("osImage").into(),
        kernel.into(),
        info("containerRuntimeVersion").into(),
    ]
}

/// `TaintNodesByCondition`: no pods are scheduled to a new node until it is ready.
pub fn add_not_ready_taint(node: &mut Value) {
    let mut taints = items(node, "/spec/taints").to_vec();
    let is_not_ready =
        |taint: &Value| text(taint, "/key") == "node.kubernetes.io/not-ready" && text(taint, "/effect") == "NoSchedule";
    if !taints.iter().any(is_not_ready) {
        taints.push(json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}));
        set(node, "/spec/taints", taints);
    }
}

fn status(node: &Value) -> String {
    let ready = items(node, "/status/conditions").iter().rev().find(|condition| text(condition, "/type") == "Ready");
    let mut status = match ready.map(|condition| text(condition, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if boolean(node, "/spec/unschedulable") == Some(true) {
        status.push_str(",SchedulingDisabled");
    }
    status
}

/// Returns the roles in a node's labels, sorted.
fn roles(node: &Value) -> String {
    let mut roles: Vec<_> = entries(node, "/metadata/labels")
        .filter_map(|(key, value)| match key {
            "kubernetes.io/role" => value.as_str(),
            _ => key.strip_prefix("node-role.kubernetes.io/"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    roles.join(",")
}

fn address<'a>(node: &'a Value, kind: &str) -> &'a str {
    let address = items(node, "/status/addresses").iter().find(|address| text(address, "/type") == kind);
    address.map(|address| text(address, "/address")).unwrap_or_default()
}

const COLUMNS: &[Column] = &[
    NAME,
    column("Status", "string", "The status of the node"),
    column("Roles", "string", "The roles of the node"),
    AGE,
    column("Version", "string", "Kubelet Version reported by the node."),
    wide(
        "Internal-IP",
        "string",
        "List of addresses reachable to the node. Queried from cloud provider, if available. More info: https://kubernetes.io/docs/reference/node/node-status/#addresses Note: This field is declared as mergeable, but the merge key is not sufficiently unique, which can cause data corruption when it is merged. Callers should instead use a full-replacement patch. See https://pr.k8s.io/79391 for an example. Consumers should assume that addresses can change during the lifetime of a Node. However, there are some exceptions where this may not be possible, such as Pods that inherit a Node's address in its own status or consumers of the downward API (status.hostIP).",
    ),
    wide(
        "External-IP",
        "string",
        "List of addresses reachable to the node. Queried from cloud provider, if available. More info: https://kubernetes.io/docs/reference/node/node-status/#addresses Note: This field is declared as mergeable, but the merge key is not sufficiently unique, which can cause data corruption when it is merged. Callers should instead use a full-replacement patch. See https://pr.k8s.io/79391 for an example. Consumers should assume that addresses can change during the lifetime of a Node. However, there are some exceptions where this may not be possible, such as Pods that inherit a Node's address in its own status or consumers of the downward API (status.hostIP).",
    ),
    wide(
        "OS-Image",
        "string",
        "OS Image reported by the node from /etc/os-release (e.g. Debian GNU/Linux 7 (wheezy)).",
    ),
    wide(
        "Kernel-Version",
        "string",
        "Kernel Version reported by the node from 'uname -r' (e.g. 3.16.0-0.bpo.4-amd64).",
    ),
    wide(
        "Container-Runtime",
        "string",
        "ContainerRuntime Version reported by the node through runtime remote API (e.g. containerd://1.4.2).",
    ),
];

#[cfg(test)]
mod tests;
