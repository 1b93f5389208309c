//! Nodes that stop reporting, are tainted or are deleted, and the effect on their pods.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_testing::{TestPlane, eventually};

use crate::nodes::simulated::{create, is_ready, pod};

fn nodes(plane: &TestPlane) -> Api<Node> {
    Api::all(plane.client())
}

async fn patch_node(plane: &TestPlane, name: &str, patch: Value) {
    nodes(plane).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// Stops or resumes the heartbeats of a node.
async fn silence(plane: &TestPlane, name: &str, silent: bool) {
    let fake = if silent { Value::Null } else { json!("fake") };
    patch_node(plane, name, json!({"metadata": {"annotations": {"windlass.dev/node": fake}}})).await;
}

/// The taints of a node, as text.
async fn taints(plane: &TestPlane, name: &str) -> Vec<String> {
    let spec = nodes(plane).get(name).await.unwrap().spec.unwrap_or_default();
    let word = |key: &str, effect: &str| format!("{}:{effect}", key.replace("node.kubernetes.io/", ""));
    let mut taints: Vec<String> =
        spec.taints.unwrap_or_default().iter().map(|taint| word(&taint.key, &taint.effect)).collect();
    taints.sort();
    taints
}

async fn ready_status(plane: &TestPlane, name: &str) -> Option<(String, String)> {
    let conditions = nodes(plane).get(name).await.unwrap().status?.conditions?;
    let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready")?;
    Some((ready.status, ready.reason.unwrap_or_default()))
}

/// Creates a pod that runs on a node.
async fn running(plane: &TestPlane, name: &str, node: &str, mut spec: Value) -> Pod {
    spec["nodeName"] = node.into();
    create(plane, &pod(name, spec)).await;
    let pods = plane.api::<Pod>();
    eventually("it is ready", async || pods.get(name).await.ok().filter(is_ready)).await
}

async fn is_gone(plane: &TestPlane, name: &str) -> bool {
    plane.api::<Pod>().get_opt(name).await.unwrap().is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
}

/// Reasons and notes of the events about an object.
async fn events(events: Api<Event>, about: &str) -> Vec<(String, String)> {
    let all = events.list(&ListParams::default()).await.unwrap().items;
    let about = all.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(about));
    about.map(|event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default())).collect()
}

fn condition<'a>(pod: &'a Value, kind: &str) -> &'a Value {
    let conditions = pod["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    conditions.iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn pods_are_evicted_according_to_their_tolerations() {
    let plane = TestPlane::builder().nodes(1).virtual_time().await;
    let toleration = |seconds: Value| {
        json!({"tolerations": [{"key": "drain", "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": seconds}]})
    };
    running(&plane, "none", "node-1", json!({})).await;
    running(&plane, "some", "node-1", toleration(json!(60))).await;
    running(&plane, "all", "node-1", toleration(Value::Null)).await;
    patch_node(&plane, "node-1", json!({"spec": {"taints": [{"key": "drain", "effect": "NoExecute"}]}})).await;
    eventually("the pod without the toleration is evicted", async || is_gone(&plane, "none").await.then_some(())).await;
    plane.advance(Duration::from_secs(40)).await;
    assert!(!is_gone(&plane, "some").await);
    plane.advance(Duration::from_secs(25)).await;
    assert!(is_gone(&plane, "some").await);
    plane.advance(Duration::from_secs(600)).await;
    assert!(!is_gone(&plane, "all").await);
    let told = events(plane.api(), "some").await;
    let note = format!("Marking for deletion Pod {}/some", plane.namespace());
    assert!(told.contains(&("TaintManagerEviction".to_owned(), note)), "{told:?}");
}

#[tokio::test]
async fn a_pod_stays_if_the_taint_is_removed_in_time() {
    let plane = TestPlane::builder().nodes(1).virtual_time().await;
    let tolerations = json!([{"key": "drain", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]);
    running(&plane, "web", "node-1", json!({"tolerations": tolerations})).await;
    patch_node(&plane, "node-1", json!({"spec": {"taints": [{"key": "drain", "effect": "NoExecute"}]}})).await;
    plane.advance(Duration::from_secs(30)).await;
    patch_node(&plane, "node-1", json!({"spec": {"taints": null}})).await;
    plane.advance(Duration::from_secs(300)).await;
    assert!(!is_gone(&plane, "web").await);
    let told = events(plane.api(), "web").await;
    let note = format!("Cancelling deletion of Pod {}/web", plane.namespace());
    assert!(told.contains(&("TaintManagerEviction".to_owned(), note)), "{told:?}");
}

#[tokio::test]
async fn a_node_that_stops_reporting_loses_its_pods_and_can_recover() {
    let plane = TestPlane::builder().nodes(3).virtual_time().await;
    running(&plane, "web", "node-1", json!({})).await;
    silence(&plane, "node-1", true).await;
    plane.advance(Duration::from_secs(35)).await;
    assert_eq!(ready_status(&plane, "node-1").await.unwrap().0, "True", "it may just be late");
    plane.advance(Duration::from_secs(35)).await;
    let unknown = ("Unknown".to_owned(), "NodeStatusUnknown".to_owned());
    assert_eq!(ready_status(&plane, "node-1").await, Some(unknown));
    assert_eq!(taints(&plane, "node-1").await, ["unreachable:NoExecute", "unreachable:NoSchedule"]);
    let web = plane.api::<Pod>().get("web").await.unwrap();
    assert!(!is_ready(&web) && web.metadata.deletion_timestamp.is_none());
    let told = events(Api::all(plane.client()), "node-1").await;
    let note = |reason: &str| told.iter().find(|(told, _)| told == reason).map(|(_, note)| note.as_str());
    assert_eq!(note("NodeNotReady"), Some("Node node-1 status is now: NodeNotReady"), "{told:?}");
    assert_eq!(note("RegisteredNode"), Some("Node node-1 event: Registered Node node-1 in Controller"), "{told:?}");

    // Pods tolerate the taint for five minutes by default. Afterwards, there is no kubelet to terminate them.
    plane.advance(Duration::from_secs(310)).await;
    let web = serde_json::to_value(plane.api::<Pod>().get("web").await.unwrap()).unwrap();
    assert!(web["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(condition(&web, "DisruptionTarget")["reason"], "DeletionByTaintManager");
    let out = json!({"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}});
    let params = PatchParams::default();
    nodes(&plane).patch("node-1", &params, &Patch::Strategic(out)).await.unwrap();
    plane.advance(Duration::from_secs(45)).await;
    assert!(plane.api::<Pod>().get_opt("web").await.unwrap().is_none());

    patch_node(&plane, "node-1", json!({"spec": {"taints": null}})).await;
    silence(&plane, "node-1", false).await;
    plane.advance(Duration::from_secs(15)).await;
    assert_eq!(ready_status(&plane, "node-1").await.unwrap().0, "True");
    assert!(taints(&plane, "node-1").await.is_empty());
    running(&plane, "again", "node-1", json!({})).await;
}

#[tokio::test]
async fn no_pod_is_evicted_if_no_node_reports() {
    let plane = TestPlane::builder().nodes(2).virtual_time().await;
    running(&plane, "web", "node-1", json!({})).await;
    for name in ["node-1", "node-2"] {
        silence(&plane, name, true).await;
    }
    plane.advance(Duration::from_secs(600)).await;
    for name in ["node-1", "node-2"] {
        assert_eq!(ready_status(&plane, name).await.unwrap().0, "Unknown");
        assert_eq!(taints(&plane, name).await, ["unreachable:NoSchedule"]);
    }
    assert!(!is_gone(&plane, "web").await);
}

#[tokio::test]
async fn a_node_without_a_kubelet_has_a_minute_to_report() {
    let plane = TestPlane::builder().virtual_time().await;
    let node: Node =
        serde_json::from_value(json!({"metadata": {"name": "mine", "labels": {"kubernetes.io/os": "linux"}}})).unwrap();
    nodes(&plane).create(&PostParams::default(), &node).await.unwrap();
    plane.advance(Duration::from_secs(50)).await;
    assert_eq!(ready_status(&plane, "mine").await, None);
    assert!(taints(&plane, "mine").await.is_empty(), "no condition reports it as not ready");
    assert_eq!(nodes(&plane).get("mine").await.unwrap().labels()["beta.kubernetes.io/os"], "linux");
    plane.advance(Duration::from_secs(20)).await;
    let never = ("Unknown".to_owned(), "NodeStatusNeverUpdated".to_owned());
    assert_eq!(ready_status(&plane, "mine").await, Some(never));
    assert_eq!(taints(&plane, "mine").await, ["unreachable:NoSchedule"]);
    patch_node(&plane, "mine", json!({"spec": {"unschedulable": true}})).await;
    eventually("it is reported", async || {
        (taints(&plane, "mine").await == ["unreachable:NoSchedule", "unschedulable:NoSchedule"]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn pods_of_a_deleted_node_fail_and_are_deleted() {
    let plane = TestPlane::builder().nodes(2).virtual_time().await;
    running(&plane, "web", "node-1", json!({})).await;
    running(&plane, "held", "node-1", json!({"finalizers": ["example.com/hold"]})).await;
    running(&plane, "elsewhere", "node-2", json!({})).await;
    nodes(&plane).delete("node-1", &DeleteParams::default()).await.unwrap();
    plane.advance(Duration::from_secs(30)).await;
    assert!(!is_gone(&plane, "web").await, "it may come back");
    plane.advance(Duration::from_secs(40)).await;
    assert!(plane.api::<Pod>().get_opt("web").await.unwrap().is_none());
    assert!(!is_gone(&plane, "elsewhere").await);
    let held = serde_json::to_value(plane.api::<Pod>().get("held").await.unwrap()).unwrap();
    assert_eq!(held["status"]["phase"], "Failed");
    assert_eq!(condition(&held, "DisruptionTarget")["reason"], "DeletionByPodGC");
    let version = held["metadata"]["resourceVersion"].clone();
    plane.advance(Duration::from_secs(300)).await;
    let held = serde_json::to_value(plane.api::<Pod>().get("held").await.unwrap()).unwrap();
    assert_eq!(held["metadata"]["resourceVersion"], version, "its resource version is unchanged");
}

#[tokio::test]
async fn a_terminating_pod_without_a_node_fails() {
    let plane = TestPlane::builder().virtual_time().await;
    let pods = plane.api::<Pod>();
    create(&plane, &pod("web", json!({"finalizers": ["example.com/hold"]}))).await;
    pods.delete("web", &DeleteParams::default()).await.unwrap();
    plane.advance(Duration::from_secs(25)).await;
    assert_eq!(pods.get("web").await.unwrap().status.unwrap().phase.as_deref(), Some("Failed"));
}
