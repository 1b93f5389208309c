//! The Node objects of simulated machines. Pure.

use std::{net::Ipv4Addr, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

/// Annotation of user-created nodes that, with the value [`FAKE`], makes the plane run them like its own.
pub(super) const NODE_ANNOTATION: &str = "windlass.dev/node";
/// See [`NODE_ANNOTATION`].
pub(super) const FAKE: &str = "fake";

const KUBELET_VERSION: &str = "v1.36.4";

/// The nodes that the plane registers at start.
#[derive(Debug, Clone)]
pub(super) struct Fleet {
    names: Arc<[String]>,
}

impl Fleet {
    /// A fleet of this many nodes: `node-1`, `node-2` and so on.
    pub(super) fn new(count: usize) -> Self {
        Self { names: (1..=count).map(|number| format!("node-{number}")).collect() }
    }

    /// The address of a machine. Nodes that users add are in another network.
    pub(super) fn address(&self, name: &str) -> Ipv4Addr {
        match self.names.iter().position(|known| known == name) {
            Some(index) => host_address(index),
            None => {
                let digest = super::containers::digest(&[name]);
                let host = u32::from_str_radix(&digest[..4], 16).unwrap_or_default();
                Ipv4Addr::from(u32::from(Ipv4Addr::new(172, 19, 0, 0)) + host)
            }
        }
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// A node of the fleet, as a kubelet registers it.
    pub(super) fn node(&self, index: usize, now: Timestamp) -> Value {
        let name = &self.names[index];
        let cidr = pod_network(index);
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": name,
                "labels": labels(name),
                "annotations": {NODE_ANNOTATION: FAKE, "node.alpha.kubernetes.io/ttl": "0"},
            },
            "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
            "status": status(name, &host_address(index).to_string(), None, now),
        })
    }
}

/// Returns whether a node is simulated here: it is part of the fleet or has the annotation.
pub(super) fn runs(node: &Node) -> bool {
    let annotations = node.metadata.annotations.as_ref();
    annotations.and_then(|annotations| annotations.get(NODE_ANNOTATION)).is_some_and(|value| value == FAKE)
}

/// The labels that a kubelet sets on its node.
pub(super) fn labels(name: &str) -> Value {
    json!({
        "beta.kubernetes.io/arch": ARCHITECTURE,
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": ARCHITECTURE,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
    })
}

const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };

/// Features that a kubelet of this version has and that not all supported versions have: updates of pods may need them.
const DECLARED_FEATURES: [&str; 4] = [
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
];

/// A node's status as a kubelet reports it. Capacity, allocatable and addresses in `present` are kept.
pub(super) fn status(name: &str, address: &str, present: Option<&Value>, now: Timestamp) -> Value {
    let kept = |field: &str| present.and_then(|status| status.get(field)).filter(|value| is_something(value)).cloned();
    let capacity = json!({
        "cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti", "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
    });
    let capacity = kept("capacity").unwrap_or(capacity);
    let allocatable = kept("allocatable").unwrap_or_else(|| capacity.clone());
    let addresses = json!([{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]);
    json!({
        "capacity": capacity,
        "allocatable": allocatable,
        "conditions": conditions(present, now),
        "addresses": kept("addresses").unwrap_or(addresses),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "declaredFeatures": DECLARED_FEATURES,
        "nodeInfo": {
            "architecture": ARCHITECTURE,
            "bootID": identity(name, 1),
            "containerRuntimeVersion": "containerd://2.2.0",
            "kernelVersion": "6.12.0-windlass",
            "kubeProxyVersion": "",
            "kubeletVersion": KUBELET_VERSION,
            "machineID": identity(name, 2).replace('-', ""),
            "operatingSystem": "linux",
            "osImage": "Windlass simulated node",
            "systemUUID": identity(name, 3),
        },
    })
}

fn is_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

const CONDITIONS: [(&str, &str, &str, &str); 4] = [
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
];

/// The conditions of a ready node, with a current heartbeat. Conditions of other types are kept.
pub(super) fn conditions(present: Option<&Value>, now: Timestamp) -> Value {
    let present = present.and_then(|status| status["conditions"].as_array());
    let find = |kind: &str| present.into_iter().flatten().find(|condition| condition["type"] == kind);
    let mut conditions: Vec<Value> = CONDITIONS
        .iter()
        .map(|(kind, status, reason, message)| {
            let since = find(kind).filter(|condition| condition["status"] == *status);
            let since =
                since.map_or_else(|| json!(now.to_string()), |condition| condition["lastTransitionTime"].clone());
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": now.to_string(), "lastTransitionTime": since,
            })
        })
        .collect();
    let known = |condition: &&Value| CONDITIONS.iter().any(|(kind, ..)| condition["type"] == *kind);
    conditions.extend(present.into_iter().flatten().filter(|condition| !known(condition)).cloned());
    conditions.into()
}

/// A stable identifier in the format of a UUID.
fn identity(name: &str, salt: u8) -> String {
    let hex = super::containers::digest(&[name, &salt.to_string()]);
    format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[12..15], &hex[15..18], &hex[18..30])
}

/// The address of a machine of the fleet, in the network that kind uses.
fn host_address(index: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(172, 18, 0, 2)).wrapping_add(u32::try_from(index).unwrap_or(u32::MAX)))
}

/// The pod network of a node: `10.244.N.0/24`.
fn pod_network(index: usize) -> String {
    let base = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 244, 0, 0)).wrapping_add((index as u32).wrapping_mul(256)));
    format!("{base}/24")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_networks_are_consecutive() {
        assert_eq!(pod_network(0), "10.244.0.0/24");
        assert_eq!(pod_network(257), "10.245.1.0/24");
        assert_eq!(host_address(300).to_string(), "172.18.1.46");
    }

    #[test]
    fn a_condition_keeps_its_time_while_unchanged_and_others_are_kept() {
        let early = Timestamp::from_second(1000).unwrap();
        let late = Timestamp::from_second(2000).unwrap();
        let mut before = json!({"conditions": conditions(None, early)});
        before["conditions"][3]["status"] = "False".into();
        before["conditions"].as_array_mut().unwrap().push(json!({"type": "Mine", "status": "True"}));
        let after = conditions(Some(&before), late);
        assert_eq!(after[0]["lastTransitionTime"], early.to_string());
        assert_eq!(after[0]["lastHeartbeatTime"], late.to_string());
        assert_eq!(after[3]["lastTransitionTime"], late.to_string());
        assert_eq!(after[4]["type"], "Mine");
    }
}
