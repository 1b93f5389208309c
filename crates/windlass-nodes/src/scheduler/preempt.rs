//! Selecting victims of preemption. Pure.
use windlass_schema::sorting;

use super::{
    cluster::{Cluster, NodeFacts, NodeInfo},
    pod_affinity::PodAffinity,
    requirements::PodRequirements,
    resources::Resources,
    topology_spread::TopologySpread,
};
use crate::host_ports::HostPort;

/// A node and the victims on it, by UID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Preemption {
    pub(super) node: String,
    pub(super) victims: Vec<String>,
}

/// Selects, among `resolvable_nodes`, the node whose victims have the lowest priority and are fewest. Returns `None` if
/// preemption does not help.
pub(super) fn preempt(
    cluster: &Cluster,
    requirements: &PodRequirements,
    resolvable_nodes: &[String],
) -> Option<Preemption> {
    if !requirements.preempts {
        return None;
    }
    // Preemption only frees resources and ports; affinity and spreading are evaluated with the victims still in place.
    let (pod_affinity, spread) = (PodAffinity::of(cluster, requirements), TopologySpread::of(cluster, requirements));
    let candidates = resolvable_nodes.iter().filter_map(|name| {
        let machine = cluster.machines.get(name)?;
        let facts = machine.node.as_ref()?;
        if spread.filter(&facts.labels).or_else(|| pod_affinity.filter(&facts.labels)).is_some() {
            return None;
        }
        let victims = victims(cluster, machine, facts, requirements)?;
        let priority = |uid: &String| cluster.placed(uid).map_or(i32::MIN, |placed| placed.requirements.priority);
        let highest = victims.iter().map(priority).max()?;
        Some((highest, victims.len(), Preemption { node: name.clone(), victims }))
    });
    let best = candidates.min_by(|a, b| (a.0, a.1, &a.2.node).cmp(&(b.0, b.1, &b.2.node)));
    best.map(|(_, _, preemption)| preemption)
}

/// The victims on a node: as few and of as low priority as possible.
fn victims(
    cluster: &Cluster,
    machine: &NodeInfo,
    facts: &NodeFacts,
    requirements: &PodRequirements,
) -> Option<Vec<String>> {
    let placed = |uid: &String| cluster.placed(uid).map(|placed| placed.requirements.clone());
    let pods = machine.pods.iter().filter_map(|uid| Some((placed(uid)?, uid.clone())));
    let mut lower: Vec<_> = pods.filter(|(other, _)| other.priority < requirements.priority).collect();
    sorting::sort_by(&mut lower, |a, b| b.0.priority.cmp(&a.0.priority).then_with(|| a.1.cmp(&b.1)));
    let mut room = Room { used: machine.used.clone(), ports: machine.ports.clone() };
    for (other, _) in &lower {
        room.without(other);
    }
    if !room.has_place(facts, requirements) {
        return None;
    }
    // Reprieve as many pods as possible, highest priority first.
    let mut victims = Vec::new();
    for (other, uid) in lower {
        let mut with = Room { used: room.used.clone(), ports: room.ports.clone() };
        with.used.add(&other.resources);
        with.ports.extend(other.ports.iter().cloned());
        if with.has_place(facts, requirements) {
            room = with;
        } else {
            victims.push(uid);
        }
    }
    Some(victims).filter(|victims| !victims.is_empty())
}

/// Resources and host ports in use on a node.
struct Room {
    used: Resources,
    ports: Vec<HostPort>,
}

impl Room {
    fn without(&mut self, requirements: &PodRequirements) {
        self.used.subtract(&requirements.resources);
        for port in &requirements.ports {
            if let Some(place) = self.ports.iter().position(|used| used == port) {
                self.ports.swap_remove(place);
            }
        }
    }

    fn has_place(&self, facts: &NodeFacts, requirements: &PodRequirements) -> bool {
        let conflicts = requirements.ports.iter().any(|port| self.ports.iter().any(|used| used.conflicts(port)));
        !conflicts && facts.allocatable.lacking(&self.used, &requirements.resources).0.is_empty()
    }
}
