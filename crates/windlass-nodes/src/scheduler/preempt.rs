//! Which pods have to go so that a more important one has a place: pure.

use super::{
    cluster::{Cluster, Facts, Machine},
    near::Neighbours,
    resources::Resources,
    spread::Spread,
    wish::{Port, Wish},
};

/// Pods that have to go, by uid, and the node that they leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Preemption {
    pub(super) node: String,
    pub(super) victims: Vec<String>,
}

/// The node where the least important and fewest pods have to go, among those that are `crowded`. None if there is
/// nothing that would help.
pub(super) fn preempt(cluster: &Cluster, wish: &Wish, crowded: &[String]) -> Option<Preemption> {
    if !wish.preempts {
        return None;
    }
    // What others want of it does not change by what goes: only room does.
    let (neighbours, spread) = (Neighbours::of(cluster, wish), Spread::of(cluster, wish));
    let candidates = crowded.iter().filter_map(|name| {
        let machine = cluster.machines.get(name)?;
        let facts = machine.node.as_ref()?;
        if spread.obstacle(&facts.labels).or_else(|| neighbours.obstacle(&facts.labels)).is_some() {
            return None;
        }
        let victims = victims(cluster, machine, facts, wish)?;
        let priority = |uid: &String| cluster.placed(uid).map_or(i32::MIN, |placed| placed.wish.priority);
        let highest = victims.iter().map(priority).max()?;
        Some((highest, victims.len(), Preemption { node: name.clone(), victims }))
    });
    let best = candidates.min_by(|a, b| (a.0, a.1, &a.2.node).cmp(&(b.0, b.1, &b.2.node)));
    best.map(|(_, _, preemption)| preemption)
}

/// The pods of a node that have to go: as few and as unimportant as possible.
fn victims(cluster: &Cluster, machine: &Machine, facts: &Facts, wish: &Wish) -> Option<Vec<String>> {
    let placed = |uid: &String| cluster.placed(uid).map(|placed| placed.wish.clone());
    let pods = machine.pods.iter().filter_map(|uid| Some((placed(uid)?, uid.clone())));
    let mut lower: Vec<_> = pods.filter(|(other, _)| other.priority < wish.priority).collect();
    lower.sort_by(|a, b| b.0.priority.cmp(&a.0.priority).then_with(|| a.1.cmp(&b.1)));
    let mut room = Room { used: machine.used.clone(), ports: machine.ports.clone() };
    for (other, _) in &lower {
        room.without(other);
    }
    if !room.has_place(facts, wish) {
        return None;
    }
    // The most important first, those that can stay do.
    let mut victims = Vec::new();
    for (other, uid) in lower {
        let mut with = Room { used: room.used.clone(), ports: room.ports.clone() };
        with.used.add(&other.resources);
        with.ports.extend(other.ports.iter().cloned());
        if with.has_place(facts, wish) {
            room = with;
        } else {
            victims.push(uid);
        }
    }
    Some(victims).filter(|victims| !victims.is_empty())
}

/// What of a node is used.
struct Room {
    used: Resources,
    ports: Vec<Port>,
}

impl Room {
    fn without(&mut self, wish: &Wish) {
        self.used.subtract(&wish.resources);
        for port in &wish.ports {
            if let Some(place) = self.ports.iter().position(|used| used == port) {
                self.ports.swap_remove(place);
            }
        }
    }

    fn has_place(&self, facts: &Facts, wish: &Wish) -> bool {
        let conflicts = wish.ports.iter().any(|port| self.ports.iter().any(|used| used.conflicts(port)));
        !conflicts && facts.allocatable.lacking(&self.used, &wish.resources).0.is_empty()
    }
}
