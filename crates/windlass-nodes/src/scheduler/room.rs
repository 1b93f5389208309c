//! Whether a node has room for a running pod that requests other resources than it has. Pure.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Node, Pod, PodSpec, ResourceRequirements};

use super::resources::Resources;

/// A resource that a node lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shortage {
    /// The reason, as in the status of a pod that a kubelet rejects: `OutOfcpu`.
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// Returns the first resource that a node lacks for the requests of a pod, in addition to the resources of the other pods
/// there.
pub(crate) fn shortage<'a>(pod: &Pod, node: &Node, others: impl Iterator<Item = &'a Pod>) -> Option<Shortage> {
    let wanted = Resources::requested_by(pod.spec.as_ref()?);
    let mut used = Resources::default();
    for other in others.filter(|other| other.metadata.uid != pod.metadata.uid && has_resources(other)) {
        used.add(&Resources::requested_by(&allocated(other)));
    }
    let capacity = Resources::of(node.status.as_ref().and_then(|status| status.allocatable.as_ref()));
    let checks = [("cpu", wanted.cpu, used.cpu, capacity.cpu), ("memory", wanted.memory, used.memory, capacity.memory)];
    let lacking = checks.into_iter().find(|(_, wanted, used, capacity)| *wanted > capacity.saturating_sub(*used));
    lacking.map(|(name, wanted, used, capacity)| Shortage {
        reason: format!("OutOf{name}"),
        message: format!(
            "Node didn't have enough resource: {name}, requested: {wanted}, used: {used}, capacity: {capacity}"
        ),
    })
}

/// Returns whether a pod occupies resources of its node.
fn has_resources(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.spec.is_some() && !matches!(phase, Some("Succeeded" | "Failed"))
}

/// Returns the spec of a pod with the requests that its node has allocated.
fn allocated(pod: &Pod) -> Cow<'_, PodSpec> {
    let (Some(spec), Some(status)) = (&pod.spec, &pod.status) else { return Cow::Owned(PodSpec::default()) };
    let mut with = Cow::Borrowed(spec);
    let statuses = [&status.container_statuses, &status.init_container_statuses];
    if statuses.into_iter().flatten().flatten().any(|status| status.resources.is_some()) {
        let spec = with.to_mut();
        let apply = |containers: &mut [Container], statuses: &Option<Vec<ContainerStatus>>| {
            for container in containers {
                let status = statuses.iter().flatten().find(|status| status.name == container.name);
                if let Some(status) = status.filter(|status| status.resources.is_some()) {
                    let resources = container.resources.get_or_insert_default();
                    resources.requests.clone_from(&status.allocated_resources);
                }
            }
        };
        apply(&mut spec.containers, &status.container_statuses);
        apply(spec.init_containers.as_deref_mut().unwrap_or_default(), &status.init_container_statuses);
    }
    if spec.resources.is_some() && status.allocated_resources.is_some() {
        let requests = status.allocated_resources.clone();
        with.to_mut().resources = Some(ResourceRequirements { requests, ..ResourceRequirements::default() });
        // The total includes the overhead.
        with.to_mut().overhead = None;
    }
    with
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, cpu: &str, status: Value) -> Pod {
        let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Mi"}}});
        let pod =
            json!({"metadata": {"name": name, "uid": name}, "spec": {"containers": [container]}, "status": status});
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn other_pods_have_what_their_node_has_allocated() {
        let node: Node =
            serde_json::from_value(json!({"status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}})).unwrap();
        let resized = json!({"containerStatuses": [{
            "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"},
        }]});
        let others = [
            pod("web", "2", json!({})),
            pod("resized", "1900m", resized),
            pod("ended", "2", json!({"phase": "Succeeded"})),
        ];
        assert_eq!(shortage(&pod("web", "1", json!({})), &node, others.iter()), None);
        let lacking = shortage(&pod("web", "1001m", json!({})), &node, others.iter()).unwrap();
        let message = "Node didn't have enough resource: cpu, requested: 1001, used: 1000, capacity: 2000";
        assert_eq!((lacking.reason.as_str(), lacking.message.as_str()), ("OutOfcpu", message));
    }
}
