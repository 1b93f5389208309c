//! The scheduler's view of nodes and the pods on them, updated incrementally.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Taint};
use windlass::key::ObjectKey;

use windlass_loops::scheduling::Labels;

use super::{
    requirements::{EquivalenceClass, PodRequirements},
    resources::Resources,
};
use crate::host_ports::HostPort;

/// Nodes, and the pods that are placed on them.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) machines: BTreeMap<String, NodeInfo>,
    /// Placed pods, by UID.
    placed: HashMap<String, Placed>,
    /// The placement of pods, by the key of their equivalence class.
    pub(super) groups: HashMap<Arc<str>, Group>,
    /// Classes with pod anti-affinity.
    pub(super) repelling: HashSet<Arc<str>>,
    pub(super) namespaces: HashMap<String, Labels>,
    pub(super) claims: HashMap<ObjectKey, Claim>,
}

/// The state of a persistent volume claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// Bound to a volume.
    Bound,
    /// Not bound yet.
    Unbound,
    /// Its volume is missing.
    Lost,
    /// Being deleted.
    Terminating,
}

impl Claim {
    pub(super) fn of(claim: &PersistentVolumeClaim) -> Self {
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        match phase {
            _ if claim.metadata.deletion_timestamp.is_some() => Self::Terminating,
            Some("Bound") => Self::Bound,
            Some("Lost") => Self::Lost,
            _ => Self::Unbound,
        }
    }
}

/// A node and its usage. Pods may be placed on a node before it is known.
#[derive(Debug, Default)]
pub(super) struct NodeInfo {
    pub(super) node: Option<NodeFacts>,
    pub(super) used: Resources,
    pub(super) ports: Vec<HostPort>,
    /// UIDs of the pods on it.
    pub(super) pods: HashSet<String>,
}

/// The parts of a node that matter for scheduling.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NodeFacts {
    pub(super) labels: Labels,
    pub(super) taints: Vec<Taint>,
    pub(super) unschedulable: bool,
    pub(super) allocatable: Resources,
}

/// A placed pod.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) node: String,
    pub(super) requirements: Arc<PodRequirements>,
}

/// The placement of the pods of one class: their number per node.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) class: Arc<EquivalenceClass>,
    pub(super) on: HashMap<String, usize>,
}

impl NodeFacts {
    fn of(node: &Node) -> Self {
        let spec = node.spec.as_ref();
        let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        Self {
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: spec.and_then(|spec| spec.taints.clone()).unwrap_or_default(),
            unschedulable: spec.and_then(|spec| spec.unschedulable).unwrap_or_default(),
            allocatable: Resources::of(allocatable),
        }
    }
}

impl Cluster {
    /// Adds or updates a node. Returns whether the change matters for scheduling.
    pub(super) fn update_node(&mut self, node: &Node) -> bool {
        let name = node.metadata.name.clone().unwrap_or_default();
        let facts = Some(NodeFacts::of(node));
        let machine = self.machines.entry(name).or_default();
        let changed = machine.node != facts;
        machine.node = facts;
        changed
    }

    /// Removes a node. Its pods may stay for a while.
    pub(super) fn remove_node(&mut self, name: &str) {
        if let Some(machine) = self.machines.get_mut(name) {
            machine.node = None;
            if machine.pods.is_empty() {
                self.machines.remove(name);
            }
        }
    }

    /// The number of nodes.
    pub(super) fn nodes(&self) -> usize {
        self.machines.values().filter(|machine| machine.node.is_some()).count()
    }

    /// The labels of a namespace.
    pub(super) fn labels_of(&self, namespace: &str) -> Labels {
        self.namespaces.get(namespace).cloned().unwrap_or_default()
    }

    /// Returns why a claim of the pod prevents scheduling, if one does.
    pub(super) fn claim_error(&self, requirements: &PodRequirements) -> Option<String> {
        requirements.claims.iter().find_map(|name| {
            let key = ObjectKey::namespaced(&requirements.class.namespace, name);
            match self.claims.get(&key) {
                Some(Claim::Bound) => None,
                Some(Claim::Unbound) => Some("pod has unbound immediate PersistentVolumeClaims".to_owned()),
                Some(Claim::Lost) => {
                    Some(format!("persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume"))
                }
                Some(Claim::Terminating) => Some(format!("persistentvolumeclaim \"{name}\" is being deleted")),
                None => Some(format!("persistentvolumeclaim \"{name}\" not found")),
            }
        })
    }

    /// Returns a placed pod.
    pub(super) fn placed(&self, uid: &str) -> Option<&Placed> {
        self.placed.get(uid)
    }

    /// Places a pod on a node.
    pub(super) fn place(&mut self, uid: &str, node: &str, requirements: &Arc<PodRequirements>) {
        if let Some(before) = self.placed.get(uid) {
            if before.node == node
                && before.requirements.class.key == requirements.class.key
                && before.requirements.resources == requirements.resources
            {
                return;
            }
            self.displace(uid);
        }
        let machine = self.machines.entry(node.to_owned()).or_default();
        machine.used.add(&requirements.resources);
        machine.ports.extend(requirements.ports.iter().cloned());
        machine.pods.insert(uid.to_owned());
        let class = &requirements.class;
        let group = self.groups.entry(class.key.clone());
        let group = group.or_insert_with(|| Group { class: class.clone(), on: HashMap::new() });
        *group.on.entry(node.to_owned()).or_default() += 1;
        if !class.pod_anti_affinity.is_empty() {
            self.repelling.insert(class.key.clone());
        }
        self.placed.insert(uid.to_owned(), Placed { node: node.to_owned(), requirements: requirements.clone() });
    }

    /// Removes a pod from its node. Returns whether it was placed.
    pub(super) fn displace(&mut self, uid: &str) -> bool {
        let Some(Placed { node, requirements }) = self.placed.remove(uid) else { return false };
        if let Some(machine) = self.machines.get_mut(&node) {
            machine.used.subtract(&requirements.resources);
            for port in &requirements.ports {
                if let Some(place) = machine.ports.iter().position(|used| used == port) {
                    machine.ports.swap_remove(place);
                }
            }
            machine.pods.remove(uid);
            if machine.pods.is_empty() && machine.node.is_none() {
                self.machines.remove(&node);
            }
        }
        let key = &requirements.class.key;
        if let Some(group) = self.groups.get_mut(key) {
            if let Some(count) = group.on.get_mut(&node) {
                *count -= 1;
                if *count == 0 {
                    group.on.remove(&node);
                }
            }
            if group.on.is_empty() {
                self.groups.remove(key);
                self.repelling.remove(key);
            }
        }
        true
    }
}
