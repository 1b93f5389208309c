//! Selecting a node for a pod. Pure.

use std::collections::BTreeMap;

use windlass_loops::scheduling::tolerates;

use super::{
    cluster::{Cluster, NodeFacts, NodeInfo},
    pod_affinity::PodAffinity,
    requirements::PodRequirements,
    score,
    topology_spread::TopologySpread,
};

/// The outcome for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// Schedule it on this node.
    Schedule(String),
    /// No node is feasible.
    Unschedulable(FitError),
}

/// Reasons why no node is feasible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FitError {
    pub(super) message: String,
    /// Nodes that might be feasible if some of their pods were preempted.
    pub(super) resolvable_nodes: Vec<String>,
}

/// Reasons why one node is not feasible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilterFailure {
    pub(super) reasons: Vec<String>,
    /// Whether removing pods from the node could resolve it.
    pub(super) resolvable: bool,
}

impl FilterFailure {
    pub(super) fn unresolvable(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], resolvable: false }
    }

    pub(super) fn resolvable(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], resolvable: true }
    }
}

/// Selects a node for a pod.
pub(super) fn decide(cluster: &Cluster, requirements: &PodRequirements) -> Decision {
    let all = cluster.nodes();
    if all == 0 {
        let message = "no nodes available to schedule pods".to_owned();
        return Decision::Unschedulable(FitError { message, resolvable_nodes: Vec::new() });
    }
    if let Some(wrong) = cluster.claim_error(requirements) {
        let message = message(all, &wrong, 0, requirements.preempts);
        return Decision::Unschedulable(FitError { message, resolvable_nodes: Vec::new() });
    }
    let pod_affinity = PodAffinity::of(cluster, requirements);
    let spread = TopologySpread::of(cluster, requirements);
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut resolvable_nodes = Vec::new();
    let mut feasible = Vec::new();
    for (name, machine) in &cluster.machines {
        let Some(facts) = &machine.node else { continue };
        match filter(name, machine, facts, requirements, &spread, &pod_affinity) {
            None => feasible.push((name, machine, facts)),
            Some(failure) => {
                for reason in failure.reasons {
                    *reasons.entry(reason).or_default() += 1;
                }
                if failure.resolvable {
                    resolvable_nodes.push(name.clone());
                }
            }
        }
    }
    if let Some(best) = score::best(cluster, requirements, &feasible, &spread, &pod_affinity) {
        return Decision::Schedule(best.to_owned());
    }
    let mut counted: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    counted.sort();
    let message = message(all, &counted.join(", "), resolvable_nodes.len(), requirements.preempts);
    Decision::Unschedulable(FitError { message, resolvable_nodes })
}

/// Returns the first reason why a node is not feasible.
pub(super) fn filter(
    name: &str,
    machine: &NodeInfo,
    facts: &NodeFacts,
    requirements: &PodRequirements,
    spread: &TopologySpread,
    pod_affinity: &PodAffinity,
) -> Option<FilterFailure> {
    if facts.unschedulable && !tolerates(&requirements.tolerations, &unschedulable()) {
        return Some(FilterFailure::unresolvable("node(s) were unschedulable"));
    }
    let repels = |effect: &str| matches!(effect, "NoSchedule" | "NoExecute");
    if facts.taints.iter().any(|taint| repels(&taint.effect) && !tolerates(&requirements.tolerations, taint)) {
        return Some(FilterFailure::unresolvable("node(s) had untolerated taint(s)"));
    }
    if !requirements.matches_node(name, &facts.labels) {
        return Some(FilterFailure::unresolvable("node(s) didn't match Pod's node affinity/selector"));
    }
    if requirements.ports.iter().any(|port| machine.ports.iter().any(|used| used.conflicts(port))) {
        return Some(FilterFailure::resolvable("node(s) didn't have free ports for the requested pod ports"));
    }
    let (reasons, could) = facts.allocatable.lacking(&machine.used, &requirements.resources);
    if !reasons.is_empty() {
        return Some(FilterFailure { reasons, resolvable: could });
    }
    spread.filter(&facts.labels).or_else(|| pod_affinity.filter(&facts.labels))
}

fn unschedulable() -> k8s_openapi::api::core::v1::Taint {
    k8s_openapi::api::core::v1::Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Default::default()
    }
}

/// `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable. preemption: ...`
fn message(all: usize, reasons: &str, resolvable_nodes: usize, preempts: bool) -> String {
    let mut message = format!("0/{all} nodes are available: {reasons}.");
    if !preempts {
        message.push_str(" preemption: not eligible due to preemptionPolicy=Never.");
        return message;
    }
    let mut preemption = Vec::new();
    if resolvable_nodes > 0 {
        preemption.push(format!("{resolvable_nodes} No preemption victims found for incoming pod"));
    }
    if resolvable_nodes < all {
        preemption.push(format!("{} Preemption is not helpful for scheduling", all - resolvable_nodes));
    }
    preemption.sort();
    message.push_str(&format!(" preemption: 0/{all} nodes are available: {}.", preemption.join(", ")));
    message
}
