//! What a pod wants of a node, read once.

use std::sync::Arc;

use k8s_openapi::{
    api::core::v1::{
        NodeSelector, Pod, PodAffinityTerm, PreferredSchedulingTerm, Toleration, TopologySpreadConstraint,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

use windlass_loops::scheduling::{self, Labels};

use super::resources::Resources;

/// What a pod wants of a node.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    pub(super) name: String,
    pub(super) shape: Arc<Shape>,
    pub(super) resources: Resources,
    pub(super) ports: Vec<Port>,
    pub(super) priority: i32,
    pub(super) preempts: bool,
    pub(super) node_selector: Labels,
    pub(super) required: Option<NodeSelector>,
    pub(super) preferred: Vec<PreferredSchedulingTerm>,
    pub(super) tolerations: Vec<Toleration>,
    /// What it wants to be near of.
    pub(super) near: Vec<Term>,
    /// The same if possible, or rather not, with a weight.
    pub(super) rather: Vec<(i64, Term)>,
    pub(super) spread: Vec<TopologySpreadConstraint>,
    pub(super) claims: Vec<String>,
}

/// What other pods see of a pod. Pods of one template share it.
#[derive(Debug)]
pub(super) struct Shape {
    /// The same for the same shapes.
    pub(super) key: Arc<str>,
    pub(super) namespace: String,
    pub(super) labels: Labels,
    /// What it does not want to be near of.
    pub(super) apart: Vec<Term>,
}

/// Pods that one wants to be near of, or not.
#[derive(Debug, Clone)]
pub(super) struct Term {
    selector: Option<LabelSelector>,
    namespaces: Vec<String>,
    namespace_selector: Option<LabelSelector>,
    pub(super) topology_key: String,
}

/// A port of a node's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Port {
    address: String,
    protocol: String,
    port: i32,
}

impl Wish {
    pub(super) fn of(pod: &Pod) -> Self {
        let spec = pod.spec.clone().unwrap_or_default();
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let resources = Resources::asked_by(&spec);
        let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let ports = containers.flat_map(|container| container.ports.iter().flatten()).filter_map(|port| {
            let number = port.host_port.filter(|port| *port > 0)?;
            let address = port.host_ip.clone().filter(|address| !address.is_empty());
            Some(Port {
                address: address.unwrap_or_else(|| "0.0.0.0".to_owned()),
                protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                port: number,
            })
        });
        let ports = ports.collect();
        let affinity = spec.affinity.unwrap_or_default();
        let nodes = affinity.node_affinity.unwrap_or_default();
        let near = affinity.pod_affinity.unwrap_or_default();
        let apart = affinity.pod_anti_affinity.unwrap_or_default();
        let terms = |terms: Option<Vec<PodAffinityTerm>>| -> Vec<Term> {
            terms.into_iter().flatten().map(|term| Term::of(term, &namespace)).collect()
        };
        let rather =
            near.preferred_during_scheduling_ignored_during_execution.into_iter().flatten().map(|one| (1, one));
        let rather_not =
            apart.preferred_during_scheduling_ignored_during_execution.into_iter().flatten().map(|one| (-1, one));
        let rather = rather
            .chain(rather_not)
            .map(|(sign, one)| (sign * i64::from(one.weight), Term::of(one.pod_affinity_term, &namespace)));
        // Claims that are made for a pod's own volumes are not waited for: nobody makes them.
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
            near: terms(near.required_during_scheduling_ignored_during_execution),
            rather: rather.collect(),
            spread: spec.topology_spread_constraints.unwrap_or_default(),
            claims: claims.collect(),
            shape: Arc::new(Shape::new(
                namespace.clone(),
                labels,
                terms(apart.required_during_scheduling_ignored_during_execution),
            )),
        }
    }

    /// Whether it may be on a node of this name and these labels.
    pub(super) fn chooses(&self, name: &str, labels: &Labels) -> bool {
        let selected = self.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value));
        let wanted = |required: &NodeSelector| {
            required.node_selector_terms.iter().any(|term| scheduling::term_selects(term, name, labels))
        };
        selected && self.required.as_ref().is_none_or(wanted)
    }
}

impl Shape {
    fn new(namespace: String, labels: Labels, apart: Vec<Term>) -> Self {
        // Debug text of what is told apart: no two different shapes have the same.
        let key = format!("{namespace}\0{labels:?}\0{apart:?}");
        Self { key: key.into(), namespace, labels, apart }
    }
}

impl Term {
    fn of(term: PodAffinityTerm, namespace: &str) -> Self {
        let mut namespaces = term.namespaces.unwrap_or_default();
        // Nothing said means its own.
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

    /// Whether it is about pods of this shape. `of_namespace` gives the labels of a namespace.
    pub(super) fn is_about(&self, shape: &Shape, of_namespace: impl Fn(&str) -> Labels) -> bool {
        let namespaces = || {
            self.namespaces.contains(&shape.namespace)
                || self.namespace_selector.is_some()
                    && scheduling::selects(self.namespace_selector.as_ref(), &of_namespace(&shape.namespace))
        };
        scheduling::selects(self.selector.as_ref(), &shape.labels) && namespaces()
    }
}

impl Port {
    /// Whether two cannot be on one node.
    pub(super) fn conflicts(&self, other: &Self) -> bool {
        let everywhere = |port: &Self| port.address == "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address || everywhere(self) || everywhere(other))
    }
}
