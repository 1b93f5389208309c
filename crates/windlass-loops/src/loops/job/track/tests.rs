//! Table tests of counting.

use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

use super::*;
use crate::loops::job::backoff::Failures;

fn pod(name: &str, phase: &str, index: Option<i64>) -> Arc<Pod> {
    let annotations = index.map(|index| json!({"batch.kubernetes.io/job-completion-index": index.to_string()}));
    let metadata = json!({"name": name, "uid": name, "annotations": annotations,
        "finalizers": ["batch.kubernetes.io/job-tracking"]});
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "status": {"phase": phase}})).unwrap())
}

fn view(spec: Value, status: Value, pods: Vec<Arc<Pod>>) -> View {
    let mut full = json!({"parallelism": 2, "completions": 3, "backoffLimit": 6, "template": {}});
    full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let job: Job = serde_json::from_value(json!({"metadata": {"name": "j"}, "spec": full, "status": status})).unwrap();
    View::new(&job, pods, Failures::default(), "2026-01-01T12:00:00Z".parse().unwrap())
}

fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
    pods.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect()
}

#[test]
fn terminated_pods_are_listed_once_and_released() {
    let pods = vec![pod("s", "Succeeded", None), pod("f", "Failed", None), pod("r", "Running", None)];
    let mut looked = view(json!({}), json!({}), pods.clone());
    let tracking = track(&mut looked, false);
    assert_eq!((names(&tracking.release), tracking.flush, tracking.full), (vec!["s", "f"], true, false));
    let uncounted = looked.status().uncounted_terminated_pods.clone().unwrap();
    assert_eq!((uncounted.succeeded, uncounted.failed), (Some(vec!["s".to_owned()]), Some(vec!["f".to_owned()])));
    // Already listed: released, and not listed again.
    let listed = json!({"uncountedTerminatedPods": {"succeeded": ["s"], "failed": ["f"]}});
    let mut looked = view(json!({}), listed, pods);
    assert_eq!(looked.succeeded, 1);
    let tracking = track(&mut looked, false);
    assert_eq!((names(&tracking.release), tracking.flush), (vec!["s", "f"], false));
}

#[test]
fn a_listed_pod_counts_once_it_is_released() {
    let status = json!({"succeeded": 1, "uncountedTerminatedPods": {"succeeded": ["a", "b"], "failed": ["c"]}});
    let mut status: JobStatus = serde_json::from_value(status).unwrap();
    assert!(settle(&mut status, &["b".to_owned()].into()));
    assert_eq!((status.succeeded, status.failed), (Some(2), Some(1)));
    let uncounted = status.uncounted_terminated_pods.clone().unwrap();
    assert_eq!((uncounted.succeeded, uncounted.failed), (Some(vec!["b".to_owned()]), None));
    assert!(!settle(&mut status, &["b".to_owned()].into()));
}

#[test]
fn completed_indexes_need_no_list() {
    let spec = json!({"completionMode": "Indexed"});
    let pods =
        vec![pod("one", "Succeeded", Some(1)), pod("nine", "Succeeded", Some(9)), pod("zero", "Failed", Some(0))];
    let mut looked = view(spec, json!({"completedIndexes": "2", "succeeded": 1}), pods);
    let tracking = track(&mut looked, false);
    assert_eq!(names(&tracking.release), ["zero", "one", "nine"]);
    let status = looked.status();
    assert_eq!((status.completed_indexes.as_deref(), status.succeeded), (Some("1,2"), Some(2)));
    assert_eq!(status.uncounted_terminated_pods.as_ref().unwrap().succeeded, None);
}

#[test]
fn a_failing_job_announces_it_before_its_pods_are_released() {
    let pods = vec![pod("f", "Failed", None), pod("r", "Running", None)];
    let mut looked = view(json!({"backoffLimit": 0}), json!({}), pods);
    let tracking = track(&mut looked, false);
    assert_eq!(names(&tracking.release), ["f", "r"]);
    let types = |view: &View| -> Vec<String> {
        let conditions = view.job.status.as_ref().unwrap().conditions.iter().flatten();
        conditions.map(|condition| condition.type_.clone()).collect()
    };
    assert_eq!(types(&looked), ["FailureTarget"]);
    // Not before everything is counted and deleted.
    assert!(!end(&mut looked));
    settle(looked.status(), &HashSet::new());
    looked.terminating = 1;
    assert!(!end(&mut looked));
    looked.terminating = 0;
    assert!(end(&mut looked));
    assert_eq!(types(&looked), ["FailureTarget", "Failed"]);
    assert_eq!(looked.status().failed, Some(2));
}

#[test]
fn the_list_is_kept_short() {
    let pods = (0..600).map(|number| pod(&format!("p{number}"), "Failed", None)).collect();
    let mut looked = view(json!({"backoffLimit": 1000}), json!({}), pods);
    let tracking = track(&mut looked, false);
    assert_eq!((tracking.release.len(), tracking.full), (500, true));
}
