//! The best of the nodes that will do.

use std::cmp::Ordering;

use windlass_loops::scheduling::{term_selects, tolerates};

use super::{
    cluster::{Cluster, Facts, Machine},
    near::Neighbours,
    spread::Spread,
    wish::Wish,
};

/// A node that will do.
pub(super) type Candidate<'a> = (&'a String, &'a Machine, &'a Facts);

/// What is for and against a node; the first that differs decides between those that weigh the same.
#[derive(Debug, Clone, Copy)]
struct Score {
    /// What the pod asks for: of nodes, of other pods, of spreading, of taints.
    asked: f64,
    /// How much is left of the node.
    left: f64,
    /// How many of the same shape are there.
    alike: usize,
}

/// The best, or none if there is no candidate. Among equals, the first by name.
pub(super) fn best<'a>(
    cluster: &Cluster,
    wish: &Wish,
    candidates: &[Candidate<'a>],
    spread: &Spread,
    neighbours: &Neighbours,
) -> Option<&'a str> {
    if let [(only, ..)] = candidates {
        return Some(only);
    }
    let alike = cluster.groups.get(&wish.shape.key);
    let plain = wish.preferred.is_empty() && wish.spread.is_empty() && wish.rather.is_empty();
    let raw: Vec<[i64; 4]> = candidates
        .iter()
        .map(|(name, _, facts)| {
            let chosen = wish.preferred.iter().filter(|one| term_selects(&one.preference, name, &facts.labels));
            let avoids = |effect: &str| effect == "PreferNoSchedule";
            let avoided =
                facts.taints.iter().filter(|taint| avoids(&taint.effect) && !tolerates(&wish.tolerations, taint));
            let avoided = -i64::try_from(avoided.count()).unwrap_or(i64::MAX);
            if plain {
                return [0, 0, 0, avoided];
            }
            let preferred = chosen.map(|one| i64::from(one.weight)).sum();
            [preferred, neighbours.preference(&facts.labels), -spread.crowding(&facts.labels), avoided]
        })
        .collect();
    let range = |part: usize| {
        let values = || raw.iter().map(|parts| parts[part]);
        (values().min().unwrap_or_default(), values().max().unwrap_or_default())
    };
    let ranges = [range(0), range(1), range(2), range(3)];
    // The weights that the scheduler has by default: affinity 2, other pods 2, spreading 2, taints 3.
    let weights = [2.0, 2.0, 2.0, 3.0];
    let scored = candidates.iter().zip(&raw).map(|((name, machine, facts), parts)| {
        let asked = (0..4).map(|part| {
            let (least, most) = ranges[part];
            if most == least { 0.0 } else { weights[part] * (parts[part] - least) as f64 / (most - least) as f64 }
        });
        let alike = alike.and_then(|group| group.on.get(*name)).copied().unwrap_or_default();
        (Score { asked: asked.sum(), left: left(machine, facts, wish), alike }, name.as_str())
    });
    let better = |a: &(Score, &str), b: &(Score, &str)| compare(&a.0, &b.0).then_with(|| b.1.cmp(a.1));
    scored.max_by(better).map(|(_, name)| name)
}

fn compare(a: &Score, b: &Score) -> Ordering {
    // Both at once, as neither alone should fill a node with pods of one sort while others are empty.
    let total = |score: &Score| 10.0 * score.asked + score.left - 0.1 * score.alike as f64;
    total(a).total_cmp(&total(b))
}

/// The share of a node that would be left, of what pods ask for most.
fn left(machine: &Machine, facts: &Facts, wish: &Wish) -> f64 {
    let share = |all: i64, used: i64, wanted: i64| {
        if all <= 0 { 0.0 } else { (all - used - wanted).max(0) as f64 / all as f64 }
    };
    let (all, used, wanted) = (&facts.allocatable, &machine.used, &wish.resources);
    let shares = [
        share(all.cpu, used.cpu, wanted.cpu),
        share(all.memory, used.memory, wanted.memory),
        share(all.pods, used.pods, 1),
    ];
    shares.iter().sum::<f64>() / 3.0
}
