//! Which node a pod gets: pure.

use std::collections::BTreeMap;

use windlass_loops::scheduling::tolerates;

use super::{
    cluster::{Cluster, Facts, Machine},
    near::Neighbours,
    score,
    spread::Spread,
    wish::Wish,
};

/// What is to be done with a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It gets this node.
    Place(String),
    /// No node will do; why, in the scheduler's words.
    Refuse(Refusal),
}

/// Why no node will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) message: String,
    /// Nodes that would do if there were fewer pods on them.
    pub(super) crowded: Vec<String>,
}

/// Why one node will not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Obstacle {
    pub(super) reasons: Vec<String>,
    /// Whether it would be another matter without some of the pods that are there.
    pub(super) passes: bool,
}

impl Obstacle {
    pub(super) fn lasting(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], passes: false }
    }

    pub(super) fn passing(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], passes: true }
    }
}

/// Chooses a node for a pod.
pub(super) fn decide(cluster: &Cluster, wish: &Wish) -> Verdict {
    let all = cluster.nodes();
    if all == 0 {
        let message = "no nodes available to schedule pods".to_owned();
        return Verdict::Refuse(Refusal { message, crowded: Vec::new() });
    }
    if let Some(wrong) = cluster.wrong_claim(wish) {
        let message = message(all, &wrong, 0, wish.preempts);
        return Verdict::Refuse(Refusal { message, crowded: Vec::new() });
    }
    let neighbours = Neighbours::of(cluster, wish);
    let spread = Spread::of(cluster, wish);
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut crowded = Vec::new();
    let mut feasible = Vec::new();
    for (name, machine) in &cluster.machines {
        let Some(facts) = &machine.node else { continue };
        match obstacle(name, machine, facts, wish, &spread, &neighbours) {
            None => feasible.push((name, machine, facts)),
            Some(obstacle) => {
                for reason in obstacle.reasons {
                    *reasons.entry(reason).or_default() += 1;
                }
                if obstacle.passes {
                    crowded.push(name.clone());
                }
            }
        }
    }
    if let Some(best) = score::best(cluster, wish, &feasible, &spread, &neighbours) {
        return Verdict::Place(best.to_owned());
    }
    let mut counted: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    counted.sort();
    let message = message(all, &counted.join(", "), crowded.len(), wish.preempts);
    Verdict::Refuse(Refusal { message, crowded })
}

/// What speaks against a node, of the first thing that does.
pub(super) fn obstacle(
    name: &str,
    machine: &Machine,
    facts: &Facts,
    wish: &Wish,
    spread: &Spread,
    neighbours: &Neighbours,
) -> Option<Obstacle> {
    if facts.unschedulable && !tolerates(&wish.tolerations, &unschedulable()) {
        return Some(Obstacle::lasting("node(s) were unschedulable"));
    }
    let repels = |effect: &str| matches!(effect, "NoSchedule" | "NoExecute");
    if facts.taints.iter().any(|taint| repels(&taint.effect) && !tolerates(&wish.tolerations, taint)) {
        return Some(Obstacle::lasting("node(s) had untolerated taint(s)"));
    }
    if !wish.chooses(name, &facts.labels) {
        return Some(Obstacle::lasting("node(s) didn't match Pod's node affinity/selector"));
    }
    if wish.ports.iter().any(|port| machine.ports.iter().any(|used| used.conflicts(port))) {
        return Some(Obstacle::passing("node(s) didn't have free ports for the requested pod ports"));
    }
    let (reasons, could) = facts.allocatable.lacking(&machine.used, &wish.resources);
    if !reasons.is_empty() {
        return Some(Obstacle { reasons, passes: could });
    }
    spread.obstacle(&facts.labels).or_else(|| neighbours.obstacle(&facts.labels))
}

fn unschedulable() -> k8s_openapi::api::core::v1::Taint {
    k8s_openapi::api::core::v1::Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Default::default()
    }
}

/// `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable. preemption: ...`
fn message(all: usize, reasons: &str, crowded: usize, preempts: bool) -> String {
    let mut message = format!("0/{all} nodes are available: {reasons}.");
    if !preempts {
        message.push_str(" preemption: not eligible due to preemptionPolicy=Never.");
        return message;
    }
    let mut preemption = Vec::new();
    if crowded > 0 {
        preemption.push(format!("{crowded} No preemption victims found for incoming pod"));
    }
    if crowded < all {
        preemption.push(format!("{} Preemption is not helpful for scheduling", all - crowded));
    }
    preemption.sort();
    message.push_str(&format!(" preemption: 0/{all} nodes are available: {}.", preemption.join(", ")));
    message
}
