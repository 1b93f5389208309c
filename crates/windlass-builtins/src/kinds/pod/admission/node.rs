//! Plugins that compare a pod with its node: `PodTopologyLabels`, `NodeDeclaredFeatureValidator` and
//! `PodResizeValidator`.

use serde_json::Value;
use windlass_schema::quantity::Quantity;

use super::super::resources::{aggregate, is_sidecar};
use crate::object::{copy, items, set, text};
use crate::resource_list::{ResourceList, add, list};

/// Labels of a node that its pods have too.
const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// `PodTopologyLabels`: copies the zone and the region of a node to a pod or a Binding.
pub fn copy_topology_labels(object: &mut Value, node: &Value) {
    let labels = node.pointer("/metadata/labels");
    for label in TOPOLOGY {
        if let Some(value) = labels.and_then(|labels| labels.get(label)) {
            let mut own = copy(object, "/metadata/labels");
            own[label] = value.clone();
            set(object, "/metadata/labels", own);
        }
    }
}

/// `NodeDeclaredFeatureValidator`: returns the features that an update of a pod needs and its node does not declare.
pub fn missing_features(pod: &Value, old: &Value, node: &Value) -> Vec<&'static str> {
    needed_features(pod, old)
        .into_iter()
        .filter(|name| !items(node, "/status/declaredFeatures").iter().any(|have| have == name))
        .collect()
}

/// Returns the features of nodes that an update of a pod needs.
pub fn needed_features(pod: &Value, old: &Value) -> Vec<&'static str> {
    let resources = |part: &Value| ["requests", "limits"].map(|kind| list(part, &format!("/resources/{kind}")));
    let mut needed = Vec::new();
    if pod.pointer("/spec/resources") != old.pointer("/spec/resources")
        && resources(&pod["spec"]) != resources(&old["spec"])
    {
        needed.push("InPlacePodLevelResourcesVerticalScaling");
    }
    let pairs = items(old, "/spec/initContainers").iter().zip(items(pod, "/spec/initContainers"));
    if pairs.filter(|(old, _)| !is_sidecar(old)).any(|(old, new)| resources(old) != resources(new)) {
        needed.push("InPlacePodVerticalScalingInitContainers");
    }
    needed
}

/// Reasons why a node cannot resize a pod.
#[derive(Debug, PartialEq, Eq)]
pub struct ResizeRejection {
    /// The reason in the cause of the error.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

/// `PodResizeValidator`: checks whether a node can resize a pod and has room for it.
///
/// # Errors
/// Returns why it cannot.
pub fn check_resize(pod: &Value, node: &Value) -> Result<(), ResizeRejection> {
    let system = node["metadata"]["labels"]["kubernetes.io/os"].as_str();
    if let Some(system) = system.filter(|system| *system != "linux") {
        let name = text(node, "/metadata/name");
        let message = format!("pod resize is only supported on linux nodes, node {name:?} is {system:?}");
        return Err(ResizeRejection { reason: "UnsupportedPlatform", message });
    }
    let requests = requests(pod);
    let allocatable = list(node, "/status/allocatable");
    let zero = Quantity::zero();
    let mut lacking = Vec::new();
    for (name, amount) in [("cpu", Quantity::milli_value as fn(&Quantity) -> i64), ("memory", Quantity::value)] {
        let (wanted, have) = (requests.get(name).unwrap_or(&zero), allocatable.get(name).unwrap_or(&zero));
        if wanted > have {
            lacking.push(format!("{name}, requested: {}, allocatable: {}", amount(wanted), amount(have)));
        }
    }
    if lacking.is_empty() {
        return Ok(());
    }
    let message = format!("node didn't have enough allocatable resources: {}", lacking.join("; "));
    Err(ResizeRejection { reason: "NodeCapacity", message })
}

/// Returns what a pod requests: its own requests where it states them, else those of its containers, and the overhead.
fn requests(pod: &Value) -> ResourceList {
    let spec = &pod["spec"];
    let mut requests = aggregate(spec, "requests");
    requests.extend(list(spec, "/resources/requests"));
    add(&mut requests, &list(spec, "/overhead"));
    requests
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn zone_and_region_are_copied_from_the_node() {
        let node = json!({"metadata": {"labels": {
            "topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "topology.kubernetes.io/rack": "x",
        }}});
        let mut pod = json!({"metadata": {"name": "p", "labels": {"topology.kubernetes.io/zone": "own", "a": "b"}}});
        copy_topology_labels(&mut pod, &node);
        let expected = json!({"a": "b", "topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"});
        assert_eq!(pod["metadata"]["labels"], expected);
        let mut pod = json!({"metadata": {"name": "p"}});
        copy_topology_labels(&mut pod, &json!({"metadata": {"name": "n"}}));
        assert_eq!(pod, json!({"metadata": {"name": "p"}}), "there is nothing to copy");
        copy_topology_labels(&mut pod, &node);
        assert_eq!(pod["metadata"]["labels"]["topology.kubernetes.io/zone"], "z");
    }

    #[test]
    fn resizing_a_pod_as_a_whole_and_init_containers_needs_features() {
        let pod = |whole: &str, init: &str, sidecar: &str| {
            let requests = |cpu: &str| json!({"requests": {"cpu": cpu}});
            json!({"spec": {"resources": requests(whole), "initContainers": [
                {"resources": requests(init)}, {"restartPolicy": "Always", "resources": requests(sidecar)},
            ]}})
        };
        let old = pod("1", "1", "1");
        assert!(needed_features(&pod("1000m", "1", "2"), &old).is_empty());
        assert_eq!(needed_features(&pod("2", "1", "1"), &old), ["InPlacePodLevelResourcesVerticalScaling"]);
        let both = pod("2", "2", "1");
        assert_eq!(missing_features(&both, &old, &json!({})).len(), 2);
        let node = json!({"status": {"declaredFeatures": ["InPlacePodLevelResourcesVerticalScaling"]}});
        assert_eq!(missing_features(&both, &old, &node), ["InPlacePodVerticalScalingInitContainers"]);
    }

    #[test]
    fn a_resized_pod_fits_its_node() {
        let node = json!({
            "metadata": {"name": "n", "labels": {"kubernetes.io/os": "linux"}},
            "status": {"allocatable": {"cpu": "1", "memory": "1Ki"}},
        });
        let pod = |cpu: &str, memory: &str| {
            json!({"spec": {"overhead": {"cpu": "500m"}, "containers": [
                {"resources": {"requests": {"cpu": cpu, "memory": memory}}},
            ]}})
        };
        assert_eq!(check_resize(&pod("500m", "1024"), &node), Ok(()));
        let rejected = check_resize(&pod("501m", "1025"), &node).expect_err("it does not fit");
        let message = "node didn't have enough allocatable resources: cpu, requested: 1001, allocatable: 1000; memory, \
                       requested: 1025, allocatable: 1024";
        assert_eq!(rejected, ResizeRejection { reason: "NodeCapacity", message: message.to_owned() });
        let windows = json!({"metadata": {"name": "w", "labels": {"kubernetes.io/os": "windows"}}});
        let rejected = check_resize(&pod("1", "1"), &windows).expect_err("not on Windows");
        let message = "pod resize is only supported on linux nodes, node \"w\" is \"windows\"";
        assert_eq!(rejected, ResizeRejection { reason: "UnsupportedPlatform", message: message.to_owned() });
    }
}
