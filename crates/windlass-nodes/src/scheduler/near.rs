//! Pods that want to be near others, or not.

use std::collections::{HashMap, HashSet};

use windlass_loops::scheduling::Labels;

use super::{
    cluster::{Cluster, Group},
    decide::Obstacle,
    wish::{Term, Wish},
};

/// What pods that have a place mean for one that has none.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    /// For each thing to be near of: the key, and the values where that is.
    near: Vec<(String, HashSet<String>)>,
    /// Keys and values where it must not be, because of what it wants.
    apart: HashSet<(String, String)>,
    /// The same because of what others want.
    repelled: HashSet<(String, String)>,
    /// Weights of keys and values.
    rather: HashMap<(String, String), i64>,
}

impl Neighbours {
    pub(super) fn of(cluster: &Cluster, wish: &Wish) -> Self {
        let mut found = Self::default();
        let about = |term: &Term, group: &Group| term.is_about(&group.shape, |name| cluster.labels_of(name));
        for key in &cluster.repelling {
            let Some(group) = cluster.groups.get(key) else { continue };
            for term in &group.shape.apart {
                if term.is_about(&wish.shape, |name| cluster.labels_of(name)) {
                    found.repelled.extend(places(cluster, group, &term.topology_key).map(|(place, _)| place));
                }
            }
        }
        if wish.near.is_empty() && wish.shape.apart.is_empty() && wish.rather.is_empty() {
            return found;
        }
        found.near = wish.near.iter().map(|term| (term.topology_key.clone(), HashSet::new())).collect();
        for group in cluster.groups.values() {
            if !wish.near.is_empty() && wish.near.iter().all(|term| about(term, group)) {
                for (key, values) in &mut found.near {
                    values.extend(places(cluster, group, key).map(|((_, value), _)| value));
                }
            }
            for term in wish.shape.apart.iter().filter(|term| about(term, group)) {
                found.apart.extend(places(cluster, group, &term.topology_key).map(|(place, _)| place));
            }
            for (weight, term) in wish.rather.iter().filter(|(_, term)| about(term, group)) {
                for (place, count) in places(cluster, group, &term.topology_key) {
                    *found.rather.entry(place).or_default() += weight * i64::try_from(count).unwrap_or(i64::MAX);
                }
            }
        }
        // The first of those that want to be near each other has to be somewhere.
        let nowhere = found.near.iter().all(|(_, values)| values.is_empty());
        if nowhere && wish.near.iter().all(|term| term.is_about(&wish.shape, |name| cluster.labels_of(name))) {
            let keys: Vec<String> = found.near.iter().map(|(key, _)| key.clone()).collect();
            for ((_, values), key) in found.near.iter_mut().zip(keys) {
                let facts = cluster.machines.values().filter_map(|machine| machine.node.as_ref());
                values.extend(facts.filter_map(|facts| facts.labels.get(&key).cloned()));
            }
        }
        found
    }

    pub(super) fn obstacle(&self, labels: &Labels) -> Option<Obstacle> {
        let is_near =
            |(key, values): &(String, HashSet<String>)| labels.get(key).is_some_and(|value| values.contains(value));
        if !self.near.iter().all(is_near) {
            return Some(Obstacle::lasting("node(s) didn't match pod affinity rules"));
        }
        let within =
            |places: &HashSet<(String, String)>| places.iter().any(|(key, value)| labels.get(key) == Some(value));
        if within(&self.apart) {
            return Some(Obstacle::passing("node(s) didn't match pod anti-affinity rules"));
        }
        within(&self.repelled).then(|| Obstacle::passing("node(s) didn't satisfy existing pods anti-affinity rules"))
    }

    /// How much it would rather be there.
    pub(super) fn preference(&self, labels: &Labels) -> i64 {
        let weight = |((key, value), weight): (&(String, String), &i64)| {
            if labels.get(key) == Some(value) { *weight } else { 0 }
        };
        self.rather.iter().map(weight).sum()
    }
}

/// Where the pods of a group are, by a topology key.
fn places<'a>(
    cluster: &'a Cluster,
    group: &'a Group,
    key: &'a str,
) -> impl Iterator<Item = ((String, String), usize)> + 'a {
    group.on.iter().filter_map(move |(node, count)| {
        let value = cluster.machines.get(node)?.node.as_ref()?.labels.get(key)?;
        Some(((key.to_owned(), value.clone()), *count))
    })
}
