use serde_json::{Value, json};

use super::*;

/// A deployment with an image, and changes to it.
fn deployment(replicas: i32, image: &str, change: &[(&str, Value)]) -> Deployment {
    let mut value = json!({
        "metadata": {"name": "web", "namespace": "n", "uid": "d", "generation": 1},
        "spec": {
            "replicas": replicas, "paused": false, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
        "status": null,
    });
    for (path, new) in change {
        *value.pointer_mut(path).unwrap() = new.clone();
    }
    serde_json::from_value(value).unwrap()
}

/// A replica set: image, revision and sizes.
fn set(image: &str, revision: i32, replicas: i32, available: i32, desired: i32) -> Arc<ReplicaSet> {
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {
                "name": format!("web-{image}"), "namespace": "n", "uid": image, "generation": 1,
                "creationTimestamp": format!("2026-01-01T00:00:{revision:02}Z"),
                "annotations": {
                    "deployment.kubernetes.io/revision": revision.to_string(),
                    "deployment.kubernetes.io/desired-replicas": desired.to_string(),
                    "deployment.kubernetes.io/max-replicas": (desired + (desired + 3) / 4).to_string(),
                },
            },
            "spec": {
                "replicas": replicas, "selector": {},
                "template": {
                    "metadata": {"labels": {"app": "web", "pod-template-hash": image}},
                    "spec": {"containers": [{"name": "c", "image": image}]},
                },
            },
            "status": {
                "replicas": replicas, "readyReplicas": available, "availableReplicas": available,
                "terminatingReplicas": 0, "observedGeneration": 1,
            },
        }))
        .unwrap(),
    )
}

fn owner() -> OwnerReference {
    OwnerReference { kind: "Deployment".to_owned(), name: "web".to_owned(), uid: "d".to_owned(), ..Default::default() }
}

fn look(deployment: &Deployment, sets: Vec<Arc<ReplicaSet>>) -> (Rollout, Next) {
    let mut rollout = Rollout::new(deployment, sets, "2026-01-01T10:00:00Z".parse().unwrap());
    let next = rollout.decide(&owner(), &|_| false);
    (rollout, next)
}

/// The sizes of the replica sets after one step, oldest first.
fn sizes(deployment: &Deployment, sets: Vec<Arc<ReplicaSet>>) -> Vec<i32> {
    let (rollout, next) = look(deployment, sets);
    assert_eq!(next, Next::Write);
    rollout.sets.iter().map(replicas).collect()
}

fn reason_of(rollout: &Rollout) -> Option<&str> {
    conditions::get(rollout.deployment.status.as_ref()?, PROGRESSING)?.reason.as_deref()
}

const RECREATE: (&str, Value) = ("/spec/strategy", Value::Null);

fn recreating(replicas: i32, image: &str) -> Deployment {
    let mut deployment = deployment(replicas, image, &[RECREATE]);
    deployment.spec.as_mut().unwrap().strategy = serde_json::from_value(json!({"type": "Recreate"})).unwrap();
    deployment
}

#[test]
fn the_first_set_is_complete_from_the_start() {
    let first = deployment(3, "one", &[]);
    let (mut rollout, next) = look(&first, Vec::new());
    let Next::Create(set) = next else { panic!("{next:?}") };
    let hash = template::hash(&first.spec.as_ref().unwrap().template, None);
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("web-{hash}"), "namespace": "n", "labels": {"app": "web", "pod-template-hash": hash},
            "annotations": {
                "deployment.kubernetes.io/revision": "1", "deployment.kubernetes.io/desired-replicas": "3",
                "deployment.kubernetes.io/max-replicas": "4",
            },
            "ownerReferences": [{"apiVersion": "", "kind": "Deployment", "name": "web", "uid": "d"}],
        },
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web", "pod-template-hash": hash}},
            "template": {
                "metadata": {"labels": {"app": "web", "pod-template-hash": hash}},
                "spec": {"containers": [{"name": "c", "image": "one"}]},
            },
        },
    });
    assert_eq!(serde_json::to_value(&*set).unwrap(), expected);
    rollout.add(Arc::from(set), true);
    assert_eq!(rollout.decide(&owner(), &|_| false), Next::Write);
    assert_eq!(reason_of(&rollout), Some("NewReplicaSetCreated"));
    assert_eq!(rollout.deployment.metadata.annotations.as_ref().unwrap()[REVISION], "1");
    assert_eq!(rollout.changed().count(), 0);
}

#[test]
fn a_new_template_begins_with_the_surge_and_the_next_revision() {
    let (_, next) = look(&deployment(10, "two", &[]), vec![set("one", 4, 10, 10, 10)]);
    let Next::Create(created) = next else { panic!("{next:?}") };
    assert_eq!(replicas(&created), 3);
    assert_eq!(created.metadata.annotations.unwrap()[REVISION], "5");
}

#[test]
fn a_step_grows_the_new_set_and_shrinks_the_old_ones() {
    let two = deployment(10, "two", &[]);
    assert_eq!(sizes(&two, vec![set("one", 1, 10, 10, 10), set("two", 2, 3, 0, 10)]), [8, 3]);
    assert_eq!(sizes(&two, vec![set("one", 1, 8, 8, 10), set("two", 2, 3, 0, 10)]), [8, 5]);
    assert_eq!(sizes(&two, vec![set("one", 1, 8, 8, 10), set("two", 2, 5, 5, 10)]), [3, 5]);
    assert_eq!(sizes(&two, vec![set("one", 1, 0, 0, 10), set("two", 2, 10, 10, 10)]), [0, 10]);
}

#[test]
fn the_set_of_an_old_template_is_reused_with_a_new_revision() {
    let (rollout, next) = look(&deployment(3, "one", &[]), vec![set("one", 1, 0, 0, 3), set("two", 2, 3, 3, 3)]);
    assert_eq!(next, Next::Write);
    let annotations = rollout.sets[0].metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations[REVISION], "3");
    assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!(replicas(&rollout.sets[0]), 1, "in the same write as the revision");
    assert_eq!(rollout.deployment.metadata.annotations.as_ref().unwrap()[REVISION], "3");
}

#[test]
fn a_paused_deployment_is_scaled_but_not_rolled() {
    let paused = deployment(5, "two", &[("/spec/paused", json!(true))]);
    let (rollout, next) = look(&paused, vec![set("one", 1, 3, 3, 3)]);
    assert_eq!(next, Next::Write);
    assert_eq!(replicas(&rollout.sets[0]), 5);
    assert_eq!(reason_of(&rollout), Some("DeploymentPaused"));
    let resumed = Deployment { status: rollout.deployment.status.clone(), ..deployment(5, "two", &[]) };
    let mut rollout = Rollout::new(&resumed, vec![set("one", 1, 5, 5, 5)], "2026-01-01T10:00:00Z".parse().unwrap());
    assert!(matches!(rollout.decide(&owner(), &|_| false), Next::Create(_)));
    assert_eq!(reason_of(&rollout), Some("DeploymentResumed"));
}

#[test]
fn scaling_in_the_middle_of_a_rollout_keeps_its_proportions() {
    let middle = || vec![set("one", 1, 8, 8, 10), set("two", 2, 5, 5, 10)];
    let (rollout, _) = look(&deployment(20, "two", &[]), middle());
    assert_eq!(rollout.sets.iter().map(replicas).collect::<Vec<_>>(), [15, 10]);
    for set in &rollout.sets {
        assert_eq!((annotations::desired_replicas(set), annotations::max_replicas(set)), (Some(20), Some(25)));
    }
    assert_eq!(sizes(&deployment(5, "two", &[]), middle()), [4, 3]);
    assert_eq!(sizes(&deployment(0, "two", &[]), middle()), [0, 0]);
    // A saturated new replica set lets all others shrink to zero.
    let saturated = vec![set("one", 1, 2, 2, 5), set("two", 2, 10, 10, 10)];
    assert_eq!(sizes(&deployment(10, "two", &[]), saturated), [0, 10]);
}

#[test]
fn the_recreate_strategy_waits_until_the_last_old_pod_is_deleted() {
    let two = recreating(3, "two");
    assert_eq!(sizes(&two, vec![set("one", 1, 3, 3, 3)]), [0]);
    // The replica set still counts pods, or pods are still terminating.
    let mut counting = ReplicaSet::clone(&set("one", 1, 0, 0, 3));
    counting.status.as_mut().unwrap().replicas = 1;
    assert_eq!(look(&two, vec![Arc::new(counting)]).1, Next::Write);
    let mut rollout = Rollout::new(&two, vec![set("one", 1, 0, 0, 3)], Timestamp::UNIX_EPOCH);
    assert_eq!(rollout.decide(&owner(), &|_| true), Next::Write);
    let (_, next) = look(&two, vec![set("one", 1, 0, 0, 3)]);
    let Next::Create(created) = next else { panic!("{next:?}") };
    assert_eq!(replicas(&created), 3);
    assert_eq!(annotations::max_replicas(&created), Some(3));
}

#[test]
fn the_oldest_empty_sets_beyond_the_history_limit_are_deleted() {
    let complete = json!({
        "observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
    });
    let sets = || {
        let empty = [("one", 1), ("two", 2), ("three", 3)].map(|(image, revision)| set(image, revision, 0, 0, 3));
        empty.into_iter().chain([set("four", 4, 3, 3, 3)]).collect::<Vec<_>>()
    };
    let limited = |limit: i32, status: &Value| {
        let limited =
            deployment(3, "four", &[("/spec/revisionHistoryLimit", json!(limit)), ("/status", status.clone())]);
        let (rollout, _) = look(&limited, sets());
        rollout.surplus.iter().map(|set| set.metadata.uid.clone().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(limited(2, &complete), ["one"]);
    assert_eq!(limited(0, &complete), ["one", "two", "three"]);
    assert!(limited(3, &complete).is_empty());
    assert!(limited(i32::MAX, &complete).is_empty());
    assert!(limited(0, &json!({"observedGeneration": 1})).is_empty(), "not during a rollout");
}

#[test]
fn a_second_reconciliation_changes_nothing() {
    let sets = vec![set("one", 1, 3, 3, 3)];
    let (first, _) = look(&deployment(3, "one", &[]), sets.clone());
    let (second, _) = look(&first.deployment, sets);
    assert_eq!(second.deployment, first.deployment);
    assert_eq!(second.changed().count(), 0);
}

#[test]
fn a_collision_changes_the_name() {
    let (mut rollout, next) = look(&deployment(3, "one", &[]), Vec::new());
    let Next::Create(first) = next else { panic!("{next:?}") };
    rollout.collided();
    assert_eq!(rollout.deployment.status.as_ref().unwrap().collision_count, Some(1));
    let Next::Create(second) = look(&rollout.deployment, Vec::new()).1 else { panic!("nothing is created") };
    assert_ne!(first.metadata.name, second.metadata.name);
}

#[test]
fn inherited_fields_of_a_set_follow_its_deployment() {
    let mut changed = deployment(3, "one", &[]);
    changed.spec.as_mut().unwrap().min_ready_seconds = Some(7);
    changed.metadata.annotations = Some([("why".to_owned(), "because".to_owned())].into());
    let (rollout, _) = look(&changed, vec![set("one", 1, 3, 3, 3)]);
    assert_eq!(rollout.sets[0].spec.as_ref().unwrap().min_ready_seconds, Some(7));
    assert_eq!(rollout.sets[0].metadata.annotations.as_ref().unwrap()["why"], "because");
    assert_eq!(rollout.changed().count(), 1);
}
