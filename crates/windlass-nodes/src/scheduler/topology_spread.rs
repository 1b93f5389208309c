//! Topology spread constraints.

use std::collections::HashMap;

use windlass_loops::scheduling::{Labels, selects, tolerates};

use super::{cluster::Cluster, decide::FilterFailure, requirements::PodRequirements};

/// The current distribution of pods for each topology spread constraint of a pod.
#[derive(Debug, Default)]
pub(super) struct TopologySpread {
    constraints: Vec<Constraint>,
}

#[derive(Debug)]
struct Constraint {
    key: String,
    required: bool,
    max_skew: i64,
    /// Whether the pod itself matches the constraint's selector.
    counts_itself: bool,
    /// Number of matching pods per eligible domain.
    domains: HashMap<String, i64>,
    least: i64,
}

impl TopologySpread {
    pub(super) fn of(cluster: &Cluster, requirements: &PodRequirements) -> Self {
        let constraints = requirements.topology_spread.iter().map(|constraint| {
            let key = constraint.topology_key.clone();
            let same = |labels: &Labels| {
                let keys = constraint.match_label_keys.iter().flatten();
                let mut keys = keys.filter(|key| requirements.class.labels.contains_key(*key));
                selects(constraint.label_selector.as_ref(), labels)
                    && keys.all(|key| labels.get(key) == requirements.class.labels.get(key))
            };
            let affinity = constraint.node_affinity_policy.as_deref() != Some("Ignore");
            let taints = constraint.node_taints_policy.as_deref() == Some("Honor");
            let mut domains: HashMap<String, i64> = HashMap::new();
            let mut counted: HashMap<&str, &str> = HashMap::new();
            for (name, machine) in &cluster.machines {
                let Some(facts) = &machine.node else { continue };
                let tainted = || {
                    let repels = |effect: &str| matches!(effect, "NoSchedule" | "NoExecute");
                    facts
                        .taints
                        .iter()
                        .any(|taint| repels(&taint.effect) && !tolerates(&requirements.tolerations, taint))
                };
                if affinity && !requirements.matches_node(name, &facts.labels) || taints && tainted() {
                    continue;
                }
                if let Some(value) = facts.labels.get(&key) {
                    domains.entry(value.clone()).or_default();
                    counted.insert(name, value);
                }
            }
            let groups = cluster.groups.values().filter(|group| group.class.namespace == requirements.class.namespace);
            for group in groups.filter(|group| same(&group.class.labels)) {
                for (node, count) in &group.on {
                    let domain = counted.get(node.as_str()).and_then(|value| domains.get_mut(*value));
                    if let Some(domain) = domain {
                        *domain += i64::try_from(*count).unwrap_or(i64::MAX);
                    }
                }
            }
            let few = constraint.min_domains.is_some_and(|least| domains.len() < usize::try_from(least).unwrap_or(0));
            Constraint {
                required: constraint.when_unsatisfiable != "ScheduleAnyway",
                max_skew: constraint.max_skew.into(),
                counts_itself: same(&requirements.class.labels),
                least: if few { 0 } else { domains.values().min().copied().unwrap_or_default() },
                domains,
                key,
            }
        });
        Self { constraints: constraints.collect() }
    }

    pub(super) fn filter(&self, labels: &Labels) -> Option<FilterFailure> {
        for constraint in self.constraints.iter().filter(|constraint| constraint.required) {
            let Some(value) = labels.get(&constraint.key) else {
                return Some(FilterFailure::unresolvable(
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                ));
            };
            let count = constraint.domains.get(value).copied().unwrap_or_default();
            if count + i64::from(constraint.counts_itself) - constraint.least > constraint.max_skew {
                return Some(FilterFailure::resolvable("node(s) didn't match pod topology spread constraints"));
            }
        }
        None
    }

    /// The number of matching pods in the node's domains, for constraints that only express a preference.
    pub(super) fn crowding(&self, labels: &Labels) -> i64 {
        let preferred = self.constraints.iter().filter(|constraint| !constraint.required);
        let counts = preferred.map(|constraint| {
            let value = labels.get(&constraint.key);
            // Nodes without the label come last.
            value.map_or(i64::from(u16::MAX), |value| constraint.domains.get(value).copied().unwrap_or_default())
        });
        counts.sum()
    }
}
