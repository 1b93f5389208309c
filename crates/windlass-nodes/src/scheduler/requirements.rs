//! Scheduling requirements of a pod, parsed once.

use std::sync::Arc;

use k8s_openapi::{
    api::core::v1::{
        NodeSelector, Pod, PodAffinityTerm, PreferredSchedulingTerm, Toleration, TopologySpreadConstraint,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

use windlass_loops::scheduling::{self, Labels};

use super::resources::Resources;
use crate::host_ports::HostPort;

/// The scheduling requirements of a pod.
#[derive(Debug, Clone)]
pub(super) struct PodRequirements {
    pub(super) name: String,
    pub(super) class: Arc<EquivalenceClass>,
    pub(super) resources: Resources,
    pub(super) ports: Vec<HostPort>,
    pub(super) priority: i32,
    pub(super) preempts: bool,
    pub(super) node_selector: Labels,
    pub(super) required: Option<NodeSelector>,
    pub(super) preferred: Vec<PreferredSchedulingTerm>,
    pub(super) tolerations: Vec<Toleration>,
    /// Required affinity terms.
    pub(super) pod_affinity: Vec<AffinityTerm>,
    /// Preferred affinity terms by weight; the weight of anti-affinity terms is negative.
    pub(super) preferred_pod_affinity: Vec<(i64, AffinityTerm)>,
    pub(super) topology_spread: Vec<TopologySpreadConstraint>,
    pub(super) claims: Vec<String>,
}

/// The properties of a pod that matter to other pods. Pods of one template share them.
#[derive(Debug)]
pub(super) struct EquivalenceClass {
    /// Equal for equal classes.
    pub(super) key: Arc<str>,
    pub(super) namespace: String,
    pub(super) labels: Labels,
    /// Required anti-affinity terms.
    pub(super) pod_anti_affinity: Vec<AffinityTerm>,
}

/// A term of inter-pod affinity or anti-affinity.
#[derive(Debug, Clone)]
pub(super) struct AffinityTerm {
    selector: Option<LabelSelector>,
    namespaces: Vec<String>,
    namespace_selector: Option<LabelSelector>,
    pub(super) topology_key: String,
}

impl PodRequirements {
    pub(super) fn of(pod: &Pod) -> Self {
        let spec = pod.spec.clone().unwrap_or_default();
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let resources = Resources::requested_by(&spec);
        let ports = HostPort::all_of(&spec);
        let affinity = spec.affinity.unwrap_or_default();
        let nodes = affinity.node_affinity.unwrap_or_default();
        let pod_affinity = affinity.pod_affinity.unwrap_or_default();
        let pod_anti_affinity = affinity.pod_anti_affinity.unwrap_or_default();
        let terms = |terms: Option<Vec<PodAffinityTerm>>| -> Vec<AffinityTerm> {
            terms.into_iter().flatten().map(|term| AffinityTerm::of(term, &namespace)).collect()
        };
        let preferred =
            pod_affinity.preferred_during_scheduling_ignored_during_execution.into_iter().flatten().map(|one| (1, one));
        let avoided = pod_anti_affinity
            .preferred_during_scheduling_ignored_during_execution
            .into_iter()
            .flatten()
            .map(|one| (-1, one));
        let preferred = preferred
            .chain(avoided)
            .map(|(sign, one)| (sign * i64::from(one.weight), AffinityTerm::of(one.pod_affinity_term, &namespace)));
        // Claims of generic ephemeral volumes are not waited for: nothing creates them.
        let volumes = spec.volumes.unwrap_or_default();
        let claims = volumes.into_iter().filter_map(|volume| Some(volume.persistent_volume_claim?.claim_name));
        Self {
            name: pod.metadata.name.clone().unwrap_or_default(),
            resources,
            ports,
            priority: spec.priority.unwrap_or_default(),
            preempts: spec.preemption_policy.as_deref() != Some("Never"),
            node_selector: spec.node_selector.unwrap_or_default(),
            required: nodes.required_during_scheduling_ignored_during_execution,
            preferred: nodes.preferred_during_scheduling_ignored_during_execution.unwrap_or_default(),
            tolerations: spec.tolerations.unwrap_or_default(),
            pod_affinity: terms(pod_affinity.required_during_scheduling_ignored_during_execution),
            preferred_pod_affinity: preferred.collect(),
            topology_spread: spec.topology_spread_constraints.unwrap_or_default(),
            claims: claims.collect(),
            class: Arc::new(EquivalenceClass::new(
                namespace.clone(),
                labels,
                terms(pod_anti_affinity.required_during_scheduling_ignored_during_execution),
            )),
        }
    }

    /// Returns whether the pod's node selector and affinity match a node.
    pub(super) fn matches_node(&self, name: &str, labels: &Labels) -> bool {
        let selected = self.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value));
        let wanted = |required: &NodeSelector| {
            required.node_selector_terms.iter().any(|term| scheduling::term_selects(term, name, labels))
        };
        selected && self.required.as_ref().is_none_or(wanted)
    }
}

impl EquivalenceClass {
    fn new(namespace: String, labels: Labels, pod_anti_affinity: Vec<AffinityTerm>) -> Self {
        // The debug text of all fields differs for different classes.
        let key = format!("{namespace}\0{labels:?}\0{pod_anti_affinity:?}");
        Self { key: key.into(), namespace, labels, pod_anti_affinity }
    }
}

impl AffinityTerm {
    fn of(term: PodAffinityTerm, namespace: &str) -> Self {
        let mut namespaces = term.namespaces.unwrap_or_default();
        // Without namespaces, the term applies to the pod's own.
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.push(namespace.to_owned());
        }
        Self {
            selector: term.label_selector,
            namespaces,
            namespace_selector: term.namespace_selector,
            topology_key: term.topology_key,
        }
    }

    /// Returns whether the term selects pods of this class. `of_namespace` returns the labels of a namespace.
    pub(super) fn selects(&self, class: &EquivalenceClass, of_namespace: impl Fn(&str) -> Labels) -> bool {
        let namespaces = || {
            self.namespaces.contains(&class.namespace)
                || self.namespace_selector.is_some()
                    && scheduling::selects(self.namespace_selector.as_ref(), &of_namespace(&class.namespace))
        };
        scheduling::selects(self.selector.as_ref(), &class.labels) && namespaces()
    }
}
