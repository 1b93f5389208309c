use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::ReplicationController};
use serde_json::json;

use super::*;

const NOW: &str = "2026-01-01T10:00:00Z";

fn set(status: serde_json::Value) -> ReplicaSet {
    serde_json::from_value(json!({
        "metadata": {"name": "a", "namespace": "n", "generation": 3},
        "spec": {
            "replicas": 3, "minReadySeconds": 10, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web", "tier": "front"}}, "spec": {"containers": []}},
        },
        "status": status,
    }))
    .unwrap()
}

fn pod(phase: &str, ready_since: Option<&str>, tier: &str, deleted: bool) -> Arc<Pod> {
    let conditions: Vec<_> = ready_since
        .map(|since| json!({"type": "Ready", "status": "True", "lastTransitionTime": since}))
        .into_iter()
        .collect();
    let mut pod: Pod = serde_json::from_value(json!({
        "metadata": {"labels": {"app": "web", "tier": tier}},
        "status": {"phase": phase, "conditions": conditions},
    }))
    .unwrap();
    pod.metadata.deletion_timestamp = deleted.then(|| Time(NOW.parse().unwrap()));
    Arc::new(pod)
}

#[test]
fn pods_are_counted_by_readiness_and_availability() {
    let pods = [
        pod("Running", Some("2026-01-01T09:59:50Z"), "front", false),
        pod("Running", Some("2026-01-01T09:59:51Z"), "back", false),
        pod("Pending", None, "front", false),
        pod("Succeeded", None, "front", false),
        pod("Running", Some("2026-01-01T09:00:00Z"), "front", true),
        pod("Failed", None, "front", true),
    ];
    let status = status_of(&set(json!({"replicas": 0})), &pods, None, NOW.parse().unwrap());
    let expected = Status {
        conditions: Vec::new(),
        replicas: 3,
        fully_labeled: 2,
        ready: 2,
        available: 1,
        observed_generation: 3,
        terminating: Some(1),
    };
    assert_eq!(status, expected);
}

#[test]
fn replication_controllers_do_not_count_terminating_pods() {
    let controller = ReplicationController::default();
    let pods = [pod("Running", None, "front", true)];
    assert_eq!(status_of(&controller, &pods, None, NOW.parse().unwrap()).terminating, None);
}

#[test]
fn a_failure_is_reported_once_and_cleared() {
    let now = NOW.parse().unwrap();
    let failure = |message: &str| Failure { reason: "FailedCreate", message: message.to_owned() };
    let first = status_of(&set(json!({"replicas": 0})), &[], Some(&failure("no quota")), now);
    assert_eq!(first.conditions.len(), 1);
    assert_eq!(first.conditions[0].message.as_deref(), Some("no quota"));
    let failed = set(json!({"replicas": 0})).with_status(first.clone());
    assert_eq!(status_of(&failed, &[], Some(&failure("still none")), now), first);
    assert!(status_of(&failed, &[], None, now).conditions.is_empty());
}

#[test]
fn a_status_round_trips_through_the_object() {
    let value = json!({
        "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 1, "availableReplicas": 1, "terminatingReplicas": 0,
        "observedGeneration": 2,
        "conditions": [{"type": "ReplicaFailure", "status": "True", "lastTransitionTime": NOW, "reason": "r", "message": "m"}],
    });
    let set = set(value.clone());
    assert_eq!(serde_json::to_value(set.with_status(Parent::status(&set)).status).unwrap(), value);
    let empty = ReplicaSet::default();
    let value = serde_json::to_value(empty.with_status(Parent::status(&empty)).status).unwrap();
    assert_eq!(value, json!({"replicas": 0}));
}
