//! Ports of a node that pods occupy. Pure.

use k8s_openapi::api::core::v1::{Pod, PodSpec};

/// A host port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostPort {
    address: String,
    protocol: String,
    port: i32,
}

impl HostPort {
    /// Returns the host ports of a pod.
    pub(super) fn all_of(spec: &PodSpec) -> Vec<Self> {
        let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let ports = containers.flat_map(|container| container.ports.iter().flatten()).filter_map(|port| {
            let number = port.host_port.filter(|port| *port > 0)?;
            let address = port.host_ip.clone().filter(|address| !address.is_empty());
            Some(Self {
                address: address.unwrap_or_else(|| "0.0.0.0".to_owned()),
                protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                port: number,
            })
        });
        ports.collect()
    }

    /// Returns whether two host ports cannot be used on the same node.
    pub(super) fn conflicts(&self, other: &Self) -> bool {
        let everywhere = |port: &Self| port.address == "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address || everywhere(self) || everywhere(other))
    }
}

/// Returns whether a pod needs ports of its node, which has not accepted it yet.
pub(super) fn are_wanted(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let is_new = pod.metadata.deletion_timestamp.is_none() && status.is_none_or(|status| status.start_time.is_none());
    is_new && pod.spec.as_ref().is_some_and(|spec| !HostPort::all_of(spec).is_empty())
}

/// Returns whether a pod needs a port that another pod on its node uses. The scheduler prevents this, but a pod can also
/// name its node itself.
pub(super) fn are_taken<'a>(pod: &Pod, others: impl Iterator<Item = &'a Pod>) -> bool {
    let wanted = pod.spec.as_ref().map(HostPort::all_of).unwrap_or_default();
    let occupied = others.filter(|other| is_accepted(other) && other.metadata.uid != pod.metadata.uid);
    let mut occupied = occupied.flat_map(|other| other.spec.iter().flat_map(HostPort::all_of));
    occupied.any(|port| wanted.iter().any(|wanted| wanted.conflicts(&port)))
}

/// Returns whether the node of a pod has begun to run it, and it has not ended.
fn is_accepted(pod: &Pod) -> bool {
    pod.status.as_ref().is_some_and(|status| {
        status.start_time.is_some() && !matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, port: i32, status: serde_json::Value) -> Pod {
        let ports = json!([{"containerPort": 80, "hostPort": port}]);
        let spec = json!({"nodeName": "n", "containers": [{"name": "c", "ports": ports}]});
        serde_json::from_value(json!({"metadata": {"name": uid, "uid": uid}, "spec": spec, "status": status})).unwrap()
    }

    #[test]
    fn ports_are_taken_by_pods_that_the_node_has_accepted() {
        let started = |phase: &str| json!({"phase": phase, "startTime": "2026-01-01T00:00:00Z"});
        let waiting = || json!({"phase": "Pending"});
        for (new, other, expected) in [
            (pod("a", 80, waiting()), pod("b", 80, started("Running")), true),
            (pod("a", 80, waiting()), pod("b", 81, started("Running")), false),
            (pod("a", 80, waiting()), pod("b", 80, waiting()), false),
            (pod("a", 80, waiting()), pod("b", 80, started("Failed")), false),
            (pod("a", 80, waiting()), pod("a", 80, started("Running")), false),
            (pod("a", 80, started("Running")), pod("b", 80, started("Running")), false),
        ] {
            let taken = are_wanted(&new) && are_taken(&new, [&other].into_iter());
            assert_eq!(taken, expected, "{new:?} {other:?}");
        }
    }
}
