//! What the scheduler knows of nodes and of the pods on them, kept current change by change.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Taint};
use windlass::key::ObjectKey;

use windlass_loops::scheduling::Labels;

use super::{
    resources::Resources,
    wish::{Port, Shape, Wish},
};

/// Nodes, and the pods that have a place on one.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) machines: BTreeMap<String, Machine>,
    /// Pods with a place, by uid.
    placed: HashMap<String, Placed>,
    /// How many pods of a shape are where.
    pub(super) groups: HashMap<Arc<str>, Group>,
    /// Those that do not want others near them.
    pub(super) repelling: HashSet<Arc<str>>,
    pub(super) namespaces: HashMap<String, Labels>,
    pub(super) claims: HashMap<ObjectKey, Claim>,
}

/// What matters of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// It has a volume.
    Bound,
    /// It waits for one.
    Unbound,
    /// Its volume is gone.
    Lost,
    /// It is being deleted.
    Leaving,
}

impl Claim {
    pub(super) fn of(claim: &PersistentVolumeClaim) -> Self {
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        match phase {
            _ if claim.metadata.deletion_timestamp.is_some() => Self::Leaving,
            Some("Bound") => Self::Bound,
            Some("Lost") => Self::Lost,
            _ => Self::Unbound,
        }
    }
}

/// A node, and what is used of it. One that is not known yet may be used already.
#[derive(Debug, Default)]
pub(super) struct Machine {
    pub(super) node: Option<Facts>,
    pub(super) used: Resources,
    pub(super) ports: Vec<Port>,
    /// Uids of the pods on it.
    pub(super) pods: HashSet<String>,
}

/// What matters of a node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Facts {
    pub(super) labels: Labels,
    pub(super) taints: Vec<Taint>,
    pub(super) unschedulable: bool,
    pub(super) allocatable: Resources,
}

/// A pod with a place.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) node: String,
    pub(super) wish: Arc<Wish>,
}

/// Pods of one shape.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) shape: Arc<Shape>,
    pub(super) on: HashMap<String, usize>,
}

impl Facts {
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
    /// A node is there, or has changed. Answers whether that matters.
    pub(super) fn node_is(&mut self, node: &Node) -> bool {
        let name = node.metadata.name.clone().unwrap_or_default();
        let facts = Some(Facts::of(node));
        let machine = self.machines.entry(name).or_default();
        let changed = machine.node != facts;
        machine.node = facts;
        changed
    }

    /// A node is gone. Pods on it may stay for a while.
    pub(super) fn node_is_gone(&mut self, name: &str) {
        if let Some(machine) = self.machines.get_mut(name) {
            machine.node = None;
            if machine.pods.is_empty() {
                self.machines.remove(name);
            }
        }
    }

    /// How many nodes there are.
    pub(super) fn nodes(&self) -> usize {
        self.machines.values().filter(|machine| machine.node.is_some()).count()
    }

    /// The labels of a namespace.
    pub(super) fn labels_of(&self, namespace: &str) -> Labels {
        self.namespaces.get(namespace).cloned().unwrap_or_default()
    }

    /// What is wrong with a claim of a pod's, if something is.
    pub(super) fn wrong_claim(&self, wish: &Wish) -> Option<String> {
        wish.claims.iter().find_map(|name| {
            let key = ObjectKey::namespaced(&wish.shape.namespace, name);
            match self.claims.get(&key) {
                Some(Claim::Bound) => None,
                Some(Claim::Unbound) => Some("pod has unbound immediate PersistentVolumeClaims".to_owned()),
                Some(Claim::Lost) => {
                    Some(format!("persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume"))
                }
                Some(Claim::Leaving) => Some(format!("persistentvolumeclaim \"{name}\" is being deleted")),
                None => Some(format!("persistentvolumeclaim \"{name}\" not found")),
            }
        })
    }

    /// A pod with a place.
    pub(super) fn placed(&self, uid: &str) -> Option<&Placed> {
        self.placed.get(uid)
    }

    /// A pod is on a node, or about to be.
    pub(super) fn place(&mut self, uid: &str, node: &str, wish: &Arc<Wish>) {
        if let Some(before) = self.placed.get(uid) {
            if before.node == node && before.wish.shape.key == wish.shape.key && before.wish.resources == wish.resources
            {
                return;
            }
            self.displace(uid);
        }
        let machine = self.machines.entry(node.to_owned()).or_default();
        machine.used.add(&wish.resources);
        machine.ports.extend(wish.ports.iter().cloned());
        machine.pods.insert(uid.to_owned());
        let shape = &wish.shape;
        let group = self.groups.entry(shape.key.clone());
        let group = group.or_insert_with(|| Group { shape: shape.clone(), on: HashMap::new() });
        *group.on.entry(node.to_owned()).or_default() += 1;
        if !shape.apart.is_empty() {
            self.repelling.insert(shape.key.clone());
        }
        self.placed.insert(uid.to_owned(), Placed { node: node.to_owned(), wish: wish.clone() });
    }

    /// A pod is not on a node any more. Answers whether it was.
    pub(super) fn displace(&mut self, uid: &str) -> bool {
        let Some(Placed { node, wish }) = self.placed.remove(uid) else { return false };
        if let Some(machine) = self.machines.get_mut(&node) {
            machine.used.subtract(&wish.resources);
            for port in &wish.ports {
                if let Some(place) = machine.ports.iter().position(|used| used == port) {
                    machine.ports.swap_remove(place);
                }
            }
            machine.pods.remove(uid);
            if machine.pods.is_empty() && machine.node.is_none() {
                self.machines.remove(&node);
            }
        }
        let key = &wish.shape.key;
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
