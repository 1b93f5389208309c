//! Daemon sets, with nodes and pods that the test makes ready.

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet},
    core::v1::{Node, Pod},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_plane::{LoopOptions, Loops, Selection};
use windlass_testing::{TestCluster, TestPlane, eventually};

fn selection() -> Selection {
    "daemonset-controller".parse().unwrap()
}

async fn create_node(cluster: &TestCluster, name: &str, disk: &str) {
    let node = json!({ "metadata": { "name": name, "labels": { "disk": disk } } });
    let node = serde_json::from_value(node).unwrap();
    Api::<Node>::all(cluster.client()).create(&PostParams::default(), &node).await.unwrap();
    // A new node has the not-ready taint, which repels daemon pods until it is removed.
    patch_node(cluster, name, json!({ "spec": { "taints": null } })).await;
}

async fn patch_node(cluster: &TestCluster, name: &str, patch: Value) {
    let nodes = Api::<Node>::all(cluster.client());
    nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn create(cluster: &TestCluster, strategy: Value, selector: Value) {
    let mut template = template("one");
    template["spec"]["nodeSelector"] = selector;
    let set = json!({ "metadata": { "name": "agent" }, "spec": { "selector": { "matchLabels": { "app": "agent" } },
        "updateStrategy": strategy, "template": template } });
    let set = serde_json::from_value(set).unwrap();
    cluster.api::<DaemonSet>().create(&PostParams::default(), &set).await.unwrap();
}

fn template(image: &str) -> Value {
    json!({ "metadata": { "labels": { "app": "agent" } }, "spec": { "containers": [{ "name": "c", "image": image }] } })
}

async fn set_image(cluster: &TestCluster, image: &str) {
    let patch = Patch::Merge(json!({ "spec": { "template": template(image) } }));
    cluster.api::<DaemonSet>().patch("agent", &PatchParams::default(), &patch).await.unwrap();
}

fn node_of(pod: &Pod) -> String {
    let terms = json!(pod.spec.as_ref().unwrap().affinity);
    let path =
        "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
    terms.pointer(path).unwrap().as_str().unwrap().to_owned()
}

/// Nodes and images, in order.
async fn shown(cluster: &TestCluster) -> String {
    let pods = cluster.api::<Pod>().list(&Default::default()).await.unwrap().items;
    let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap();
    let mut shown: Vec<_> = pods.iter().map(|pod| format!("{}={}", node_of(pod), image(pod))).collect();
    shown.sort();
    shown.join(" ")
}

async fn set_phase(cluster: &TestCluster, pod: &Pod, phase: &str) {
    let ready = if phase == "Running" { "True" } else { "False" };
    let status = json!({ "status": { "phase": phase, "conditions": [{ "type": "Ready", "status": ready }] } });
    let patch = Patch::Strategic(status);
    cluster.api::<Pod>().patch_status(&pod.name_any(), &PatchParams::default(), &patch).await.unwrap();
}

/// Waits for these pods.
async fn expect_pods(cluster: &TestCluster, expected: &str) {
    eventually(&format!("there are {expected:?}"), async || (shown(cluster).await == expected).then_some(())).await;
}

async fn make_ready(cluster: &TestCluster) {
    for pod in cluster.api::<Pod>().list(&Default::default()).await.unwrap().items {
        if pod.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Running") {
            set_phase(cluster, &pod, "Running").await;
        }
    }
}

/// Waits for the numbers of a status: desired, current, misscheduled, ready, updated, available.
async fn expect_status(cluster: &TestCluster, expected: [i32; 6]) {
    eventually(&format!("the status has {expected:?}"), async || {
        let status = cluster.api::<DaemonSet>().get("agent").await.unwrap().status.unwrap_or_default();
        let found = [
            status.desired_number_scheduled,
            status.current_number_scheduled,
            status.number_misscheduled,
            status.number_ready,
            status.updated_number_scheduled.unwrap_or(0),
            status.number_available.unwrap_or(0),
        ];
        (found == expected).then_some(())
    })
    .await;
}

fn rolling(unavailable: i32, surge: i32) -> Value {
    json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": unavailable, "maxSurge": surge } })
}

#[tokio::test]
async fn every_eligible_node_has_a_pod() {
    let plane = TestPlane::builder().controllers(selection()).await;
    create_node(&plane, "a", "ssd").await;
    create_node(&plane, "b", "hdd").await;
    create(&plane, rolling(1, 0), json!({ "disk": "ssd" })).await;
    expect_pods(&plane, "a=one").await;
    expect_status(&plane, [1, 1, 0, 0, 1, 0]).await;
    make_ready(&plane).await;
    expect_status(&plane, [1, 1, 0, 1, 1, 1]).await;
    let pod = plane.api::<Pod>().list(&Default::default()).await.unwrap().items.remove(0);
    assert!(pod.name_any().starts_with("agent-"));
    assert!(pod.labels().contains_key("controller-revision-hash"));
    create_node(&plane, "c", "ssd").await;
    expect_pods(&plane, "a=one c=one").await;
    patch_node(&plane, "b", json!({ "metadata": { "labels": { "disk": "ssd" } } })).await;
    expect_pods(&plane, "a=one b=one c=one").await;
    patch_node(&plane, "a", json!({ "spec": { "taints": [{ "key": "x", "effect": "NoExecute" }] } })).await;
    expect_pods(&plane, "b=one c=one").await;
    patch_node(&plane, "b", json!({ "spec": { "taints": [{ "key": "x", "effect": "NoSchedule" }] } })).await;
    expect_status(&plane, [1, 1, 1, 0, 1, 0]).await;
    expect_pods(&plane, "b=one c=one").await;
    Api::<Node>::all(plane.client()).delete("c", &DeleteParams::default()).await.unwrap();
    expect_pods(&plane, "b=one").await;
}

#[tokio::test]
async fn a_failed_pod_is_replaced() {
    let plane = TestPlane::builder().controllers(selection()).await;
    create_node(&plane, "a", "ssd").await;
    create(&plane, rolling(1, 0), json!(null)).await;
    expect_pods(&plane, "a=one").await;
    let pods = plane.api::<Pod>();
    let first = pods.list(&Default::default()).await.unwrap().items.remove(0);
    set_phase(&plane, &first, "Failed").await;
    eventually("another one is created", async || {
        let all = pods.list(&Default::default()).await.unwrap().items;
        (all.len() == 1 && all[0].metadata.uid != first.metadata.uid).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_rollout_replaces_pods_one_by_one_and_a_rollback_reuses_the_revision() {
    let plane = TestPlane::builder().controllers(selection()).await;
    for node in ["a", "b"] {
        create_node(&plane, node, "ssd").await;
    }
    create(&plane, rolling(1, 0), json!(null)).await;
    expect_pods(&plane, "a=one b=one").await;
    make_ready(&plane).await;
    expect_status(&plane, [2, 2, 0, 2, 2, 2]).await;
    set_image(&plane, "two").await;
    expect_pods(&plane, "a=two b=one").await;
    expect_status(&plane, [2, 2, 0, 1, 1, 1]).await;
    make_ready(&plane).await;
    expect_pods(&plane, "a=two b=two").await;
    make_ready(&plane).await;
    expect_status(&plane, [2, 2, 0, 2, 2, 2]).await;
    set_image(&plane, "one").await;
    expect_pods(&plane, "a=one b=two").await;
    make_ready(&plane).await;
    expect_pods(&plane, "a=one b=one").await;
    let revisions = plane.api::<ControllerRevision>().list(&Default::default()).await.unwrap().items;
    let mut numbers: Vec<i64> = revisions.iter().map(|revision| revision.revision).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3]);
}

#[tokio::test]
async fn with_a_surge_the_old_pod_stays_until_the_new_one_is_available() {
    let plane = TestPlane::builder().controllers(selection()).await;
    create_node(&plane, "a", "ssd").await;
    create(&plane, rolling(0, 1), json!(null)).await;
    expect_pods(&plane, "a=one").await;
    make_ready(&plane).await;
    expect_status(&plane, [1, 1, 0, 1, 1, 1]).await;
    set_image(&plane, "two").await;
    expect_pods(&plane, "a=one a=two").await;
    make_ready(&plane).await;
    expect_pods(&plane, "a=two").await;
}

#[tokio::test]
async fn a_restarted_loop_continues_a_rollout() {
    let plane = TestPlane::builder().controllers(Selection::none()).await;
    let options = LoopOptions { controllers: selection(), ..LoopOptions::default() };
    let server = plane.server().unwrap();
    for node in ["a", "b"] {
        create_node(&plane, node, "ssd").await;
    }
    create(&plane, json!({ "type": "OnDelete" }), json!(null)).await;
    let loops = Loops::start(server, &options);
    expect_pods(&plane, "a=one b=one").await;
    make_ready(&plane).await;
    expect_status(&plane, [2, 2, 0, 2, 2, 2]).await;
    loops.stop().await;
    set_image(&plane, "two").await;
    let pods = plane.api::<Pod>();
    let on_a = pods.list(&Default::default()).await.unwrap().items.into_iter().find(|pod| node_of(pod) == "a").unwrap();
    pods.delete(&on_a.name_any(), &DeleteParams::default().grace_period(0)).await.unwrap();
    let _loops = Loops::start(server, &options);
    expect_pods(&plane, "a=two b=one").await;
    expect_status(&plane, [2, 2, 0, 1, 1, 1]).await;
}

#[tokio::test]
async fn a_revision_of_another_client_stays_until_the_set_changes() {
    let plane = TestPlane::builder().virtual_time().controllers(selection()).await;
    create(&plane, rolling(1, 0), json!(null)).await;
    let revisions = plane.api::<ControllerRevision>();
    let list = async || revisions.list(&Default::default()).await.unwrap().items;
    let mut copy = eventually("it has a revision", async || list().await.pop()).await;
    copy.metadata.name = Some("copy".to_owned());
    copy.metadata.resource_version = None;
    copy.metadata.uid = None;
    copy.revision += 1;
    revisions.create(&PostParams::default(), &copy).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(list().await.len(), 2);
    // Then the copies are merged.
    let patch = Patch::Merge(json!({"spec": {"minReadySeconds": 1}}));
    plane.api::<DaemonSet>().patch("agent", &PatchParams::default(), &patch).await.unwrap();
    eventually("one revision is left", async || (list().await.len() == 1).then_some(())).await;
}

#[tokio::test]
async fn a_pod_that_the_server_rejects_is_reported_with_its_reason() {
    let plane = TestPlane::builder().controllers(selection()).await;
    create_node(&plane, "a", "ssd").await;
    let mut template = template("one");
    template["spec"]["priorityClassName"] = "urgent".into();
    let set = json!({ "metadata": { "name": "agent" },
        "spec": { "selector": { "matchLabels": { "app": "agent" } }, "template": template } });
    let set = serde_json::from_value(set).unwrap();
    plane.api::<DaemonSet>().create(&PostParams::default(), &set).await.unwrap();
    let note = plane.expect::<DaemonSet>("agent").event("FailedCreate").await.note.unwrap();
    assert!(note.starts_with("Error creating: pods \"agent-"), "{note}");
    assert!(note.ends_with("is forbidden: no PriorityClass with name urgent was found"), "{note}");
}
