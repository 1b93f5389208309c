//! Scoring the feasible nodes.

use std::cmp::Ordering;

use windlass_loops::scheduling::{term_selects, tolerates};

use super::{
    cluster::{Cluster, NodeFacts, NodeInfo},
    pod_affinity::PodAffinity,
    requirements::PodRequirements,
    topology_spread::TopologySpread,
};

/// A feasible node.
pub(super) type Candidate<'a> = (&'a String, &'a NodeInfo, &'a NodeFacts);

/// The score of a node.
#[derive(Debug, Clone, Copy)]
struct Score {
    /// Preferences: node affinity, inter-pod affinity, topology spread, taints.
    asked: f64,
    /// Share of the node that would remain free.
    left: f64,
    /// Number of pods of the same class on the node.
    alike: usize,
}

/// Returns the best candidate, or `None` if there is none. Ties go to the first by name.
pub(super) fn best<'a>(
    cluster: &Cluster,
    requirements: &PodRequirements,
    candidates: &[Candidate<'a>],
    spread: &TopologySpread,
    pod_affinity: &PodAffinity,
) -> Option<&'a str> {
    if let [(only, ..)] = candidates {
        return Some(only);
    }
    let alike = cluster.groups.get(&requirements.class.key);
    let plain = requirements.preferred.is_empty()
        && requirements.topology_spread.is_empty()
        && requirements.preferred_pod_affinity.is_empty();
    let raw: Vec<[i64; 4]> = candidates
        .iter()
        .map(|(name, _, facts)| {
            let chosen = requirements.preferred.iter().filter(|one| term_selects(&one.preference, name, &facts.labels));
            let avoids = |effect: &str| effect == "PreferNoSchedule";
            let avoided = facts
                .taints
                .iter()
                .filter(|taint| avoids(&taint.effect) && !tolerates(&requirements.tolerations, taint));
            let avoided = -i64::try_from(avoided.count()).unwrap_or(i64::MAX);
            if plain {
                return [0, 0, 0, avoided];
            }
            let preferred = chosen.map(|one| i64::from(one.weight)).sum();
            [preferred, pod_affinity.preference(&facts.labels), -spread.crowding(&facts.labels), avoided]
        })
        .collect();
    let range = |part: usize| {
        let values = || raw.iter().map(|parts| parts[part]);
        (values().min().unwrap_or_default(), values().max().unwrap_or_default())
    };
    let ranges = [range(0), range(1), range(2), range(3)];
    // The default weights of kube-scheduler: node affinity 2, inter-pod affinity 2, topology spread 2, taints 3.
    let weights = [2.0, 2.0, 2.0, 3.0];
    let scored = candidates.iter().zip(&raw).map(|((name, machine, facts), parts)| {
        let asked = (0..4).map(|part| {
            let (least, most) = ranges[part];
            if most == least { 0.0 } else { weights[part] * (parts[part] - least) as f64 / (most - least) as f64 }
        });
        let alike = alike.and_then(|group| group.on.get(*name)).copied().unwrap_or_default();
        (Score { asked: asked.sum(), left: left(machine, facts, requirements), alike }, name.as_str())
    });
    let better = |a: &(Score, &str), b: &(Score, &str)| compare(&a.0, &b.0).then_with(|| b.1.cmp(a.1));
    scored.max_by(better).map(|(_, name)| name)
}

fn compare(a: &Score, b: &Score) -> Ordering {
    // In one sum, because neither part alone should fill a node with pods of one class while other nodes are empty.
    let total = |score: &Score| 10.0 * score.asked + score.left - 0.1 * score.alike as f64;
    total(a).total_cmp(&total(b))
}

/// The average share of CPU, memory and pods that would remain free.
fn left(machine: &NodeInfo, facts: &NodeFacts, requirements: &PodRequirements) -> f64 {
    let share = |all: i64, used: i64, wanted: i64| {
        if all <= 0 { 0.0 } else { (all - used - wanted).max(0) as f64 / all as f64 }
    };
    let (all, used, wanted) = (&facts.allocatable, &machine.used, &requirements.resources);
    let shares = [
        share(all.cpu, used.cpu, wanted.cpu),
        share(all.memory, used.memory, wanted.memory),
        share(all.pods, used.pods, 1),
    ];
    shares.iter().sum::<f64>() / 3.0
}
