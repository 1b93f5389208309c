//! Inter-pod affinity and anti-affinity.

use std::collections::{HashMap, HashSet};

use windlass_loops::scheduling::Labels;

use super::{
    cluster::{Cluster, Group},
    decide::FilterFailure,
    requirements::{AffinityTerm, PodRequirements},
};

/// The effect of placed pods on an unscheduled one. A topology domain is a key and value of a node label.
#[derive(Debug, Default)]
pub(super) struct PodAffinity {
    /// For each required affinity term: the topology key, and the values of the domains that satisfy it.
    required: Vec<(String, HashSet<String>)>,
    /// Domains that the pod's own anti-affinity rules out.
    forbidden: HashSet<(String, String)>,
    /// Domains that the anti-affinity of placed pods rules out.
    forbidden_by_others: HashSet<(String, String)>,
    /// Weights of domains, from preferred terms.
    weights: HashMap<(String, String), i64>,
}

impl PodAffinity {
    pub(super) fn of(cluster: &Cluster, requirements: &PodRequirements) -> Self {
        let mut found = Self::default();
        let selects = |term: &AffinityTerm, group: &Group| term.selects(&group.class, |name| cluster.labels_of(name));
        for key in &cluster.repelling {
            let Some(group) = cluster.groups.get(key) else { continue };
            for term in &group.class.pod_anti_affinity {
                if term.selects(&requirements.class, |name| cluster.labels_of(name)) {
                    found
                        .forbidden_by_others
                        .extend(domains(cluster, group, &term.topology_key).map(|(domain, _)| domain));
                }
            }
        }
        if requirements.pod_affinity.is_empty()
            && requirements.class.pod_anti_affinity.is_empty()
            && requirements.preferred_pod_affinity.is_empty()
        {
            return found;
        }
        found.required =
            requirements.pod_affinity.iter().map(|term| (term.topology_key.clone(), HashSet::new())).collect();
        for group in cluster.groups.values() {
            if !requirements.pod_affinity.is_empty()
                && requirements.pod_affinity.iter().all(|term| selects(term, group))
            {
                for (key, values) in &mut found.required {
                    values.extend(domains(cluster, group, key).map(|((_, value), _)| value));
                }
            }
            for term in requirements.class.pod_anti_affinity.iter().filter(|term| selects(term, group)) {
                found.forbidden.extend(domains(cluster, group, &term.topology_key).map(|(domain, _)| domain));
            }
            for (weight, term) in requirements.preferred_pod_affinity.iter().filter(|(_, term)| selects(term, group)) {
                for (domain, count) in domains(cluster, group, &term.topology_key) {
                    *found.weights.entry(domain).or_default() += weight * i64::try_from(count).unwrap_or(i64::MAX);
                }
            }
        }
        // The first pod of a group with affinity to itself may be placed in any domain.
        let nowhere = found.required.iter().all(|(_, values)| values.is_empty());
        if nowhere
            && requirements
                .pod_affinity
                .iter()
                .all(|term| term.selects(&requirements.class, |name| cluster.labels_of(name)))
        {
            let keys: Vec<String> = found.required.iter().map(|(key, _)| key.clone()).collect();
            for ((_, values), key) in found.required.iter_mut().zip(keys) {
                let facts = cluster.machines.values().filter_map(|machine| machine.node.as_ref());
                values.extend(facts.filter_map(|facts| facts.labels.get(&key).cloned()));
            }
        }
        found
    }

    pub(super) fn filter(&self, labels: &Labels) -> Option<FilterFailure> {
        let is_required =
            |(key, values): &(String, HashSet<String>)| labels.get(key).is_some_and(|value| values.contains(value));
        if !self.required.iter().all(is_required) {
            return Some(FilterFailure::unresolvable("node(s) didn't match pod affinity rules"));
        }
        let within =
            |domains: &HashSet<(String, String)>| domains.iter().any(|(key, value)| labels.get(key) == Some(value));
        if within(&self.forbidden) {
            return Some(FilterFailure::resolvable("node(s) didn't match pod anti-affinity rules"));
        }
        within(&self.forbidden_by_others)
            .then(|| FilterFailure::resolvable("node(s) didn't satisfy existing pods anti-affinity rules"))
    }

    /// The weight of the preferred terms that a node satisfies.
    pub(super) fn preference(&self, labels: &Labels) -> i64 {
        let weight = |((key, value), weight): (&(String, String), &i64)| {
            if labels.get(key) == Some(value) { *weight } else { 0 }
        };
        self.weights.iter().map(weight).sum()
    }
}

/// The domains of a group's pods for a topology key, with the number of pods.
fn domains<'a>(
    cluster: &'a Cluster,
    group: &'a Group,
    key: &'a str,
) -> impl Iterator<Item = ((String, String), usize)> + 'a {
    group.on.iter().filter_map(move |(node, count)| {
        let value = cluster.machines.get(node)?.node.as_ref()?.labels.get(key)?;
        Some(((key.to_owned(), value.clone()), *count))
    })
}
