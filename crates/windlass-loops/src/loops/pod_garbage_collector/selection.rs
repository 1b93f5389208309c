//! Selecting the pods to remove. Pure.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use tokio::time::Instant;

use crate::pods::{is_terminating, node_of, phase};

/// Maximum time for a missing node to be registered.
const QUARANTINE: Duration = Duration::from_secs(40);

/// Taint that users put on a node that is out of service.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// A pod to remove, and whether the reason is that its node was deleted.
pub(super) struct Removal<'a> {
    pub(super) pod: &'a Arc<Pod>,
    pub(super) orphaned: bool,
}

/// Terminated pods beyond the number to keep: evicted ones first, then the oldest.
pub(super) fn surplus(pods: &[Arc<Pod>], kept: usize) -> Vec<Removal<'_>> {
    let mut ended: Vec<&Arc<Pod>> =
        pods.iter().filter(|pod| !matches!(phase(pod), "Pending" | "Running" | "Unknown")).collect();
    let surplus = ended.len().saturating_sub(kept);
    if surplus > 0 {
        let is_evicted = |pod: &Pod| {
            phase(pod) == "Failed" && pod.status.as_ref().and_then(|status| status.reason.as_deref()) == Some("Evicted")
        };
        ended.sort_by_cached_key(|pod| {
            let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (!is_evicted(pod), created, pod.name_any())
        });
    }
    ended.truncate(surplus);
    ended.into_iter().map(|pod| Removal { pod, orphaned: false }).collect()
}

/// Terminating pods on nodes that are unready and have the out-of-service taint.
pub(super) fn out_of_service<'a>(pods: &'a [Arc<Pod>], nodes: &[Arc<Node>]) -> Vec<Removal<'a>> {
    let is_ready = |node: &Node| {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    let is_out = |node: &&Arc<Node>| {
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
        taints.into_iter().flatten().any(|taint| taint.key == OUT_OF_SERVICE) && !is_ready(node)
    };
    let out: HashSet<String> = nodes.iter().filter(is_out).map(|node| node.name_any()).collect();
    let is_stuck = |pod: &&Arc<Pod>| is_terminating(pod) && node_of(pod).is_some_and(|node| out.contains(node));
    pods.iter().filter(is_stuck).map(|pod| Removal { pod, orphaned: false }).collect()
}

/// Pods of deleted nodes.
pub(super) fn of_nodes<'a>(pods: &'a [Arc<Pod>], gone: &HashSet<String>) -> Vec<Removal<'a>> {
    let is_orphan = |pod: &&Arc<Pod>| node_of(pod).is_some_and(|node| gone.contains(node));
    pods.iter().filter(is_orphan).map(|pod| Removal { pod, orphaned: true }).collect()
}

/// Terminating pods that were never scheduled.
pub(super) fn unscheduled(pods: &[Arc<Pod>]) -> Vec<Removal<'_>> {
    let is_stuck = |pod: &&Arc<Pod>| is_terminating(pod) && node_of(pod).is_none();
    pods.iter().filter(is_stuck).map(|pod| Removal { pod, orphaned: false }).collect()
}

/// Missing nodes that pods refer to, each with the end of its grace period.
#[derive(Default)]
pub(super) struct Quarantine(HashMap<String, Instant>);

impl Quarantine {
    /// Records missing nodes, and returns those whose grace period has passed. The caller has to check them against the
    /// server; if they are still missing later, they start again.
    pub(super) fn pass(&mut self, pods: &[Arc<Pod>], nodes: &[Arc<Node>], now: Instant) -> Vec<String> {
        let present: HashSet<&str> = nodes.iter().filter_map(|node| node.metadata.name.as_deref()).collect();
        for node in pods.iter().filter_map(|pod| node_of(pod)).filter(|node| !present.contains(node)) {
            if !self.0.contains_key(node) {
                self.0.insert(node.to_owned(), now + QUARANTINE);
            }
        }
        let due: Vec<String> = self.0.extract_if(|_, until| *until <= now).map(|(node, _)| node).collect();
        due.into_iter().filter(|node| !present.contains(node.as_str())).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, value: Value) -> Arc<Pod> {
        let mut pod: Pod = serde_json::from_value(value).unwrap();
        pod.metadata.name = Some(name.to_owned());
        Arc::new(pod)
    }

    fn node(name: &str, value: Value) -> Arc<Node> {
        let mut node: Node = serde_json::from_value(value).unwrap();
        node.metadata.name = Some(name.to_owned());
        Arc::new(node)
    }

    fn names(removals: &[Removal<'_>]) -> Vec<String> {
        removals.iter().map(|removal| removal.pod.name_any()).collect()
    }

    fn ended(name: &str, second: u8, status: Value) -> Arc<Pod> {
        let created = format!("2026-01-01T00:00:{second:02}Z");
        pod(name, json!({"metadata": {"creationTimestamp": created}, "status": status}))
    }

    #[test]
    fn evicted_and_oldest_terminated_pods_are_removed_first() {
        let pods = [
            ended("c", 3, json!({"phase": "Succeeded"})),
            ended("b", 3, json!({"phase": "Failed"})),
            ended("old", 1, json!({"phase": "Failed"})),
            ended("evicted", 9, json!({"phase": "Failed", "reason": "Evicted"})),
            ended("runs", 0, json!({"phase": "Running"})),
            ended("waits", 0, json!({})),
        ];
        for (kept, expected) in
            [(4, vec![]), (3, vec!["evicted"]), (1, vec!["evicted", "old", "b"]), (0, vec!["evicted", "old", "b", "c"])]
        {
            assert_eq!(names(&surplus(&pods, kept)), expected, "{kept}");
        }
    }

    #[test]
    fn terminating_pods_without_a_kubelet_are_removed() {
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let on = |name: &str, node: &str| {
            pod(name, json!({"metadata": deleted, "spec": {"nodeName": node, "containers": []}}))
        };
        let pods = [
            on("nowhere", ""),
            on("out", "out"),
            on("out-but-ready", "ready"),
            on("elsewhere", "fine"),
            pod("alive", json!({"spec": {"nodeName": "out", "containers": []}})),
            pod("alive-nowhere", json!({})),
        ];
        let taint = json!({"taints": [{"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}]});
        let ready = |status: &str| json!({"conditions": [{"type": "Ready", "status": status}]});
        let nodes = [
            node("out", json!({"spec": taint, "status": ready("Unknown")})),
            node("ready", json!({"spec": taint, "status": ready("True")})),
            node("fine", json!({"status": ready("False")})),
        ];
        assert_eq!(names(&unscheduled(&pods)), ["nowhere"]);
        assert_eq!(names(&out_of_service(&pods, &nodes)), ["out"]);
    }

    #[test]
    fn a_missing_node_has_a_grace_period() {
        let on = |name: &str, node: &str| pod(name, json!({"spec": {"nodeName": node, "containers": []}}));
        let (pods, there) = ([on("a", "gone"), on("b", "there")], [node("there", json!({}))]);
        let mut quarantine = Quarantine::default();
        let start = Instant::now();
        let mut pass =
            |after: u64, nodes: &[Arc<Node>]| quarantine.pass(&pods, nodes, start + Duration::from_secs(after));
        assert!(pass(0, &there).is_empty());
        assert!(pass(20, &there).is_empty());
        assert_eq!(pass(40, &there), ["gone"]);
        assert!(pass(60, &there).is_empty(), "the period restarts");
        let both = [node("there", json!({})), node("gone", json!({}))];
        assert!(pass(100, &both).is_empty(), "the time is up");
        assert!(pass(120, &there).is_empty());
        assert_eq!(names(&of_nodes(&pods, &HashSet::from(["gone".to_owned()]))), ["a"]);
    }
}
