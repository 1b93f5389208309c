use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T10:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn deployment(replicas: i32, deadline: Option<i32>, status: Value) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "n", "generation": 2},
        "spec": {
            "replicas": replicas, "progressDeadlineSeconds": deadline, "selector": {}, "template": {},
        },
        "status": status,
    }))
    .unwrap()
}

fn set(name: &str, replicas: i32, status: Value) -> ReplicaSet {
    serde_json::from_value(
        json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": {}}, "status": status}),
    )
    .unwrap()
}

fn progressing(status: &str, reason: &str, updated: &str) -> Value {
    json!({"type": "Progressing", "status": status, "reason": reason, "lastUpdateTime": updated, "lastTransitionTime": updated})
}

/// Reason, status and message of the condition `Progressing`.
fn judged(deployment: &Deployment, sets: &[ReplicaSet], new: Option<usize>) -> Option<(String, String, String)> {
    let sets = Sets { all: sets, new: new.map(|at| &sets[at]) };
    let mut status = counted(deployment, sets, 0, now());
    judge(deployment, &mut status, sets, now());
    let found = conditions::get(&status, PROGRESSING)?;
    Some((found.reason.clone().unwrap(), found.status.clone(), found.message.clone().unwrap_or_default()))
}

#[test]
fn the_status_sums_up_the_sets() {
    let sets = [
        set(
            "old",
            2,
            json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 1, "terminatingReplicas": 1, "observedGeneration": 1}),
        ),
        set("new", 3, json!({"replicas": 1, "readyReplicas": 1, "terminatingReplicas": 0, "observedGeneration": 1})),
    ];
    let before = deployment(4, None, json!({"collisionCount": 3}));
    let status = counted(&before, Sets { all: &sets, new: Some(&sets[1]) }, 3, now());
    let mut value = serde_json::to_value(&status).unwrap();
    let conditions = value.as_object_mut().unwrap().remove("conditions").unwrap();
    assert_eq!(
        value,
        json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1, "readyReplicas": 3, "availableReplicas": 1,
            "unavailableReplicas": 4, "terminatingReplicas": 1, "collisionCount": 3})
    );
    assert_eq!(conditions[0]["reason"], json!("MinimumReplicasAvailable"));
    let too_few = counted(&before, Sets { all: &sets, new: None }, 2, now());
    assert_eq!(conditions::get(&too_few, AVAILABLE).unwrap().reason.as_deref(), Some("MinimumReplicasUnavailable"));
    // A replica set with an observed status that does not report the number makes the sum unknown; a new one does not.
    let unknown = [sets[0].clone(), set("silent", 1, json!({"replicas": 1, "observedGeneration": 1}))];
    assert_eq!(terminating(&unknown), None);
    assert_eq!(terminating(&[sets[0].clone(), set("fresh", 1, json!(null))]), Some(1));
    assert_eq!(terminating(&[]), Some(0));
}

#[test]
fn a_rollout_progresses_completes_or_is_late() {
    let complete = json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "observedGeneration": 1, "terminatingReplicas": 0});
    let half = json!({"replicas": 2, "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 1, "terminatingReplicas": 0});
    let counted_half = json!({"replicas": 2, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1});
    let with = |counts: &Value, condition: Value| {
        let mut status = counts.clone();
        status["conditions"] = json!([condition]);
        status
    };
    let recently = "2026-01-01T09:59:00Z";
    let long_ago = "2026-01-01T09:49:59Z";
    for (status, set_status, expected) in [
        (json!({}), &complete, ("NewReplicaSetAvailable", "True", "ReplicaSet \"new\" has successfully progressed.")),
        (json!({}), &half, ("ReplicaSetUpdated", "True", "ReplicaSet \"new\" is progressing.")),
        // No progress, before the deadline.
        (
            with(&counted_half, progressing("True", "ReplicaSetUpdated", recently)),
            &half,
            ("ReplicaSetUpdated", "True", ""),
        ),
        // No progress, after the deadline.
        (
            with(&counted_half, progressing("True", "ReplicaSetUpdated", long_ago)),
            &half,
            ("ProgressDeadlineExceeded", "False", "ReplicaSet \"new\" has timed out progressing."),
        ),
        // A late rollout can resume.
        (
            with(&json!({}), progressing("False", "ProgressDeadlineExceeded", long_ago)),
            &half,
            ("ReplicaSetUpdated", "True", "ReplicaSet \"new\" is progressing."),
        ),
        // A complete rollout does not time out when a pod is lost.
        (
            with(&counted_half, progressing("True", "NewReplicaSetAvailable", long_ago)),
            &half,
            ("NewReplicaSetAvailable", "True", ""),
        ),
    ] {
        let sets = [set("new", 2, set_status.clone())];
        let found = judged(&deployment(2, Some(600), status), &sets, Some(0)).unwrap();
        assert_eq!((found.0.as_str(), found.1.as_str(), found.2.as_str()), expected);
    }
    let sets = [set("new", 2, half)];
    assert_eq!(
        judged(&deployment(2, None, with(&json!({}), progressing("True", "x", recently))), &sets, Some(0)),
        None
    );
    assert_eq!(judged(&deployment(2, Some(i32::MAX), json!({})), &sets, Some(0)), None);
    let nobody = judged(&deployment(0, Some(600), json!({})), &[], None).unwrap();
    assert_eq!(nobody.2, "Deployment \"web\" has successfully progressed.");
}

#[test]
fn each_progress_updates_the_time() {
    let half = json!({"replicas": 2, "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 1});
    let before = deployment(
        2,
        Some(600),
        json!({"conditions": [progressing("True", "ReplicaSetUpdated", "2026-01-01T09:00:00Z")]}),
    );
    let sets = [set("new", 2, half)];
    let sets = Sets { all: &sets, new: Some(&sets[0]) };
    let mut status = counted(&before, sets, 0, now());
    judge(&before, &mut status, sets, now());
    let found = conditions::get(&status, PROGRESSING).unwrap();
    assert_eq!(found.last_update_time, Some(Time(now())));
    assert_eq!(found.last_transition_time, Some(Time("2026-01-01T09:00:00Z".parse().unwrap())));
}

#[test]
fn a_rollout_is_reconciled_again_at_its_deadline() {
    let status = |reason: &str| -> DeploymentStatus {
        serde_json::from_value(json!({"conditions": [progressing("True", reason, "2026-01-01T09:57:00Z")]})).unwrap()
    };
    let waiting = deployment(2, Some(600), json!({}));
    assert_eq!(look_again(&waiting, &status("ReplicaSetUpdated"), now()), Some(Duration::from_secs(421)));
    assert_eq!(look_again(&deployment(2, Some(10), json!({})), &status("x"), now()), Some(Duration::from_secs(1)));
    assert_eq!(look_again(&waiting, &status("ProgressDeadlineExceeded"), now()), None);
    assert_eq!(look_again(&deployment(2, None, json!({})), &status("x"), now()), None);
    assert_eq!(look_again(&waiting, &DeploymentStatus::default(), now()), None);
}

#[test]
fn the_failure_of_the_newest_set_comes_first() {
    let failed = |message: &str| {
        json!({"replicas": 0, "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
            "message": message, "lastTransitionTime": NOW}]})
    };
    let sets = [set("old", 1, failed("old")), set("new", 1, failed("new"))];
    assert_eq!(failure(Sets { all: &sets, new: Some(&sets[1]) }).unwrap().message.as_deref(), Some("new"));
    let sets = [sets[0].clone(), set("new", 1, json!(null))];
    assert_eq!(failure(Sets { all: &sets, new: Some(&sets[1]) }).unwrap().message.as_deref(), Some("old"));
    assert_eq!(failure(Sets { all: &sets[1..], new: Some(&sets[1]) }), None);
}
