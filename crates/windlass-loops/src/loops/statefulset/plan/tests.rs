use std::cell::RefCell;

use serde_json::{Value, json};

use super::*;

/// A pod from a word: `2:new:ready`, with the states `ready`, `pending`, `running`, `failed`, `going`.
fn pod(word: &str) -> Arc<Pod> {
    let parts: Vec<&str> = word.split(':').collect();
    let [ordinal, revision, state] = parts[..] else { panic!("{word}") };
    let mut pod = json!({
        "metadata": { "name": format!("db-{ordinal}"), "namespace": "ns", "uid": format!("pod-{ordinal}"),
            "labels": { "controller-revision-hash": revision, "statefulset.kubernetes.io/pod-name": format!("db-{ordinal}") } },
        "status": { "phase": match state { "pending" => "Pending", "failed" => "Failed", _ => "Running" } },
    });
    if matches!(state, "ready" | "going" | "fresh") {
        let since = if state == "fresh" { "2026-01-01T00:00:00Z" } else { "2025-01-01T00:00:00Z" };
        pod["status"]["conditions"] = json!([{ "type": "Ready", "status": "True", "lastTransitionTime": since }]);
    }
    if state == "going" {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn check(spec: Value, pods: &str, expected: &str) {
    check_with(spec, pods, &[], expected);
}

fn check_with(mut spec: Value, pods: &str, claims: &[PersistentVolumeClaim], expected: &str) {
    spec["selector"] = json!({ "matchLabels": { "app": "db" } });
    spec["template"] = json!({});
    let set = json!({ "metadata": { "name": "db", "namespace": "ns", "uid": "set" }, "spec": spec });
    let set: StatefulSet = serde_json::from_value(set).unwrap();
    let template = PodTemplateSpec::default();
    let pods: Vec<Arc<Pod>> = pods.split_whitespace().map(pod).collect();
    let asked = RefCell::new(Vec::new());
    let claim = |name: &str| {
        asked.borrow_mut().push(name.to_owned());
        claims.iter().find(|claim| claim.metadata.name.as_deref() == Some(name)).cloned().map(Arc::new)
    };
    let view = View {
        set: &set,
        current: Revision { name: "old", template: &template },
        update: Revision { name: "new", template: &template },
        pods: &pods,
        claim: &claim,
        now: "2026-01-01T00:00:05Z".parse().unwrap(),
    };
    let shown = |step: &Step| match step {
        Step::Create(pod) => format!("+{}:{}", identity::ordinal(pod).unwrap(), identity::revision(pod)),
        Step::Claim(pod) => format!("claim:{}", identity::ordinal(pod).unwrap()),
        Step::Repair(pod) => format!("repair:{}", identity::ordinal(pod).unwrap()),
        Step::Delete(pod) => format!("-{}", identity::ordinal(pod).unwrap()),
    };
    let steps: Vec<String> = plan(&view).unwrap().iter().map(shown).collect();
    assert_eq!(steps.join(" "), expected, "{spec} {:?}", pods.iter().map(|pod| &pod.metadata.name).collect::<Vec<_>>());
}

#[test]
fn an_ordered_set_takes_one_step_at_a_time() {
    let spec = json!({ "replicas": 3 });
    check(spec.clone(), "", "+0:new");
    check(spec.clone(), "0:new:pending", "");
    check(spec.clone(), "0:new:running", "");
    check(spec.clone(), "0:new:ready", "+1:new");
    check(spec.clone(), "0:new:going 1:new:ready", "");
    check(spec.clone(), "0:new:failed", "-0");
    check(spec.clone(), "0:new:ready 1:new:ready 2:new:ready", "");
    check(spec, "0:new:ready 1:new:ready 2:new:ready 3:new:ready 4:new:ready", "-4");
}

#[test]
fn an_ordered_set_scales_down_when_all_are_available_or_from_the_first_that_is_not() {
    let spec = json!({ "replicas": 1 });
    check(spec.clone(), "0:new:ready 1:new:ready 2:new:going", "");
    check(spec.clone(), "0:new:ready 1:new:running 2:new:ready", "-2");
    check(spec.clone(), "0:new:ready 1:new:ready 2:new:running", "-2");
    check(spec.clone(), "0:new:ready 1:new:running 2:new:running", "");
    check(spec, "0:new:running 1:new:ready", "");
}

#[test]
fn a_parallel_set_takes_all_steps_at_once() {
    let spec = json!({ "replicas": 3, "podManagementPolicy": "Parallel" });
    check(spec.clone(), "", "+0:new +1:new +2:new");
    check(spec.clone(), "1:new:running 3:new:ready 4:new:pending", "+0:new +2:new -4 -3");
    check(spec, "0:new:failed 1:new:going 2:new:ready", "-0");
}

#[test]
fn a_rollout_proceeds_from_the_highest_ordinal_to_the_partition() {
    let partition = |partition: i32| {
        json!({ "replicas": 3, "updateStrategy": { "type": "RollingUpdate",
        "rollingUpdate": { "partition": partition } } })
    };
    check(partition(0), "0:old:ready 1:old:ready 2:old:ready", "-2");
    check(partition(0), "0:old:ready 1:old:ready 2:new:ready", "-1");
    check(partition(0), "0:old:ready 1:old:ready 2:old:going", "");
    check(partition(2), "0:old:ready 1:old:ready 2:new:ready", "");
    check(partition(2), "0:old:ready 2:old:ready", "+1:old");
    check(partition(2), "0:old:ready 1:old:ready", "+2:new");
    check(partition(9), "0:old:ready 1:old:ready 2:old:ready", "");
    check(json!({ "replicas": 2, "updateStrategy": { "type": "OnDelete" } }), "0:old:ready 1:old:ready", "");
    check(json!({ "replicas": 2, "updateStrategy": { "type": "OnDelete" } }), "0:old:ready", "+1:new");
    // A rollout of an ordered set does not replace a pod that never becomes available: a user must delete it.
    check(partition(0), "0:old:ready 1:old:running 2:new:ready", "");
    let parallel = json!({ "replicas": 2, "podManagementPolicy": "Parallel" });
    check(parallel, "0:old:ready 1:old:running", "-1");
}

#[test]
fn pods_must_be_ready_for_min_ready_seconds() {
    let spec = json!({ "replicas": 2, "minReadySeconds": 10 });
    check(spec.clone(), "0:new:fresh", "");
    check(spec, "0:new:ready", "+1:new");
    check(json!({ "replicas": 2, "minReadySeconds": 5 }), "0:new:fresh", "+1:new");
}

#[test]
fn ordinals_begin_where_the_set_says() {
    let spec = json!({ "replicas": 2, "ordinals": { "start": 5 } });
    check(spec.clone(), "", "+5:new");
    check(spec.clone(), "5:new:ready 6:new:ready 0:new:ready", "-0");
    check(spec, "5:old:ready 6:new:ready", "-5");
}

#[test]
fn terminating_claims_are_waited_for_and_missing_ones_created() {
    let spec = json!({ "replicas": 1, "volumeClaimTemplates": [{ "metadata": { "name": "data" } }] });
    let claim = |meta: Value| serde_json::from_value(json!({ "metadata": meta })).unwrap();
    check_with(spec.clone(), "", &[], "+0:new");
    check_with(spec.clone(), "0:new:pending", &[], "claim:0");
    let going = claim(json!({ "name": "data-db-0", "deletionTimestamp": "2026-01-01T00:00:00Z" }));
    check_with(spec.clone(), "", &[going], "");
    let there = claim(json!({ "name": "data-db-0" }));
    check_with(spec.clone(), "0:new:pending", std::slice::from_ref(&there), "");
    // It lacks the volume.
    check_with(spec, "0:new:ready", std::slice::from_ref(&there), "repair:0");
}

#[test]
fn a_set_that_is_being_deleted_is_left_alone() {
    let mut set: StatefulSet = serde_json::from_value(json!({ "metadata": { "name": "db", "uid": "u" } })).unwrap();
    set.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    let template = PodTemplateSpec::default();
    let view = View {
        set: &set,
        current: Revision { name: "old", template: &template },
        update: Revision { name: "new", template: &template },
        pods: &[],
        claim: &|_| None,
        now: Timestamp::UNIX_EPOCH,
    };
    assert_eq!(plan(&view).unwrap(), []);
}

#[test]
fn the_largest_number_of_replicas_is_planned_in_bursts() {
    let all = |from: i64, to: i64| (from..to).map(|ordinal| format!("+{ordinal}:new")).collect::<Vec<_>>().join(" ");
    let spec = json!({ "replicas": i32::MAX, "ordinals": { "start": i32::MAX } });
    let first = i64::from(i32::MAX);
    check(spec, "", &all(first, first + 1));
    let spec = json!({ "replicas": i32::MAX, "podManagementPolicy": "Parallel" });
    check(spec.clone(), "", &all(0, 500));
    // A pod beyond the burst is neither surplus nor replaced yet.
    check(spec, "0:new:ready 9000:old:ready", &all(1, 502));
}
