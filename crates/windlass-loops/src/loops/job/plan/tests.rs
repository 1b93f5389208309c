//! Table tests of the changes to pods.

use serde_json::{Value, json};

use super::*;
use crate::loops::job::backoff::Failures;

fn now() -> jiff::Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// A pod with a phase, an index, and the time when it ended.
fn pod(name: &str, phase: &str, index: Option<i64>) -> Arc<Pod> {
    let annotations = index.map(|index| {
        json!({"batch.kubernetes.io/job-completion-index": index.to_string(),
            "batch.kubernetes.io/job-index-failure-count": "0"})
    });
    let ended = json!({"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T11:59:55Z"}});
    let state = if matches!(phase, "Failed" | "Succeeded") { ended } else { json!({"running": {}}) };
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": name, "annotations": annotations,
                "creationTimestamp": "2026-01-01T11:00:00Z", "finalizers": ["batch.kubernetes.io/job-tracking"]},
            "status": {"phase": phase, "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true,
                "restartCount": 0, "state": state}]},
        }))
        .unwrap(),
    )
}

fn deleted(pod: &Arc<Pod>) -> Arc<Pod> {
    let mut pod = Pod::clone(pod);
    pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    Arc::new(pod)
}

fn view(spec: Value, status: Value, pods: &[Arc<Pod>]) -> View {
    let mut full = json!({"parallelism": 2, "completions": 3, "backoffLimit": 6, "template": {}});
    full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let job = serde_json::from_value(json!({"metadata": {"name": "j"}, "spec": full, "status": status})).unwrap();
    View::new(&job, pods.to_vec(), Failures::default(), now())
}

fn describe(step: &Step) -> String {
    match step {
        Step::Nothing => "nothing".to_owned(),
        Step::Wait(wait) => format!("wait {}", wait.as_secs()),
        Step::Remove(pods) => {
            let mut names: Vec<_> = pods.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect();
            names.sort();
            format!("remove {}", names.join(" "))
        }
        Step::Make(indexes) => {
            let indexes: Vec<_> =
                indexes.iter().map(|index| index.map_or("any".to_owned(), |index| index.to_string())).collect();
            format!("make {}", indexes.join(" "))
        }
    }
}

#[track_caller]
fn check(spec: Value, status: Value, pods: &[Arc<Pod>], expected: &str) {
    assert_eq!(describe(&plan(&view(spec.clone(), status, pods))), expected, "{spec}");
}

#[test]
fn pods_are_created_up_to_completions_and_parallelism() {
    let (a, b, c) = (pod("a", "Running", None), pod("b", "Pending", None), pod("c", "Running", None));
    check(json!({}), json!({}), &[], "make any any");
    check(json!({}), json!({}), std::slice::from_ref(&a), "make any");
    check(json!({}), json!({"succeeded": 2}), &[], "make any");
    check(json!({}), json!({"succeeded": 3}), &[], "nothing");
    check(json!({}), json!({}), &[a.clone(), b.clone()], "nothing");
    // The pod that has progressed the least is deleted.
    check(json!({}), json!({}), &[a.clone(), b.clone(), c], "remove b");
    check(json!({"parallelism": 0}), json!({}), std::slice::from_ref(&a), "remove a");
    check(json!({"completions": null}), json!({}), std::slice::from_ref(&a), "make any");
    check(json!({"completions": null}), json!({"succeeded": 1}), std::slice::from_ref(&a), "nothing");
    check(json!({"suspend": true}), json!({}), &[a, b], "remove a b");
    check(json!({"suspend": true}), json!({}), &[], "nothing");
}

#[test]
fn a_failure_causes_a_backoff() {
    let (failed, running) = (pod("f", "Failed", None), pod("r", "Running", None));
    check(json!({}), json!({}), &[failed.clone(), running], "wait 5");
    check(json!({}), json!({}), &[failed, pod("s", "Succeeded", None)], "make any any");
}

#[test]
fn a_terminating_pod_is_replaced_immediately_or_after_its_end() {
    let mut going = Pod::clone(&deleted(&pod("d", "Running", None)));
    going.metadata.deletion_grace_period_seconds = Some(3600);
    let going = Arc::new(going);
    check(json!({"completions": 1}), json!({}), std::slice::from_ref(&going), "make any");
    check(json!({"completions": 1, "podReplacementPolicy": "Failed"}), json!({}), &[going], "nothing");
}

#[test]
fn each_index_has_one_pod() {
    let indexed = |more: Value| {
        let mut spec = json!({"completionMode": "Indexed", "completions": 4, "parallelism": 3});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let (zero, again, two) =
        (pod("zero", "Running", Some(0)), pod("again", "Pending", Some(0)), pod("two", "Running", Some(2)));
    check(indexed(json!({})), json!({}), &[], "make 0 1 2");
    check(indexed(json!({})), json!({"completedIndexes": "0,2"}), &[], "make 1 3");
    check(indexed(json!({})), json!({}), &[zero.clone(), two.clone()], "make 1");
    check(indexed(json!({})), json!({}), &[zero.clone(), again, two.clone()], "remove again");
    check(
        indexed(json!({})),
        json!({}),
        &[pod("none", "Running", None), pod("nine", "Running", Some(9))],
        "remove nine none",
    );
    // With a limit per index, each has its own backoff.
    let failed = pod("f", "Failed", Some(1));
    let limits = indexed(json!({"backoffLimitPerIndex": 2}));
    check(limits.clone(), json!({}), &[zero.clone(), failed.clone()], "make 2");
    check(limits.clone(), json!({}), &[zero, two, failed, pod("s", "Succeeded", Some(3))], "wait 5");
    check(limits, json!({"failedIndexes": "0,1"}), &[], "make 2 3");
}
