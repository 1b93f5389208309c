//! The scheduler against a server.

use k8s_openapi::api::{
    core::v1::{Node, PersistentVolumeClaim, Pod},
    events::v1::Event,
    scheduling::v1::PriorityClass,
};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_testing::{TestPlane, eventually};

use crate::nodes::simulated::{create, is_ready, pod};

/// Waits until a pod is unschedulable. Returns the message.
async fn rejected(plane: &TestPlane, name: &str) -> String {
    let pods = plane.api::<Pod>();
    eventually("it is rejected", async || {
        let conditions = pods.get(name).await.unwrap().status?.conditions?;
        let condition = conditions.into_iter().find(|one| one.type_ == "PodScheduled" && one.status == "False")?;
        assert_eq!(condition.reason.as_deref(), Some("Unschedulable"));
        condition.message
    })
    .await
}

async fn ready_on(plane: &TestPlane, name: &str) -> String {
    let pods = plane.api::<Pod>();
    let ready = eventually("it is ready", async || pods.get(name).await.ok().filter(is_ready)).await;
    ready.spec.unwrap().node_name.unwrap()
}

async fn patch_node(plane: &TestPlane, name: &str, patch: Value) {
    let nodes: Api<Node> = Api::all(plane.client());
    // Nodes are registered after the plane has started.
    eventually("the node exists", async || nodes.get_opt(name).await.unwrap()).await;
    nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

#[tokio::test]
async fn an_unschedulable_pod_waits_for_a_node() {
    let plane = TestPlane::builder().nodes(2).await;
    for node in ["node-1", "node-2"] {
        patch_node(&plane, node, json!({"spec": {"unschedulable": true}})).await;
    }
    let nodes: Api<Node> = Api::all(plane.client());
    eventually("the nodes are ready", async || {
        let all = nodes.list(&ListParams::default()).await.unwrap().items;
        let cordoned = |node: &Node| {
            let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
            taints.iter().all(|taint| taint.key == "node.kubernetes.io/unschedulable")
        };
        all.iter().all(cordoned).then_some(())
    })
    .await;
    create(&plane, &pod("web", json!({}))).await;
    let expected = "0/2 nodes are available: 2 node(s) were unschedulable. preemption: 0/2 nodes are available: 2 \
                    Preemption is not helpful for scheduling.";
    eventually("the reason is reported", async || (rejected(&plane, "web").await == expected).then_some(())).await;
    let events: Api<Event> = plane.api();
    eventually("there is an event", async || {
        let all = events.list(&ListParams::default()).await.unwrap().items;
        let found = all.into_iter().find(|event| event.reason.as_deref() == Some("FailedScheduling"))?;
        (found.reporting_controller.as_deref() == Some("default-scheduler")).then_some(())
    })
    .await;
    patch_node(&plane, "node-2", json!({"spec": {"unschedulable": null}})).await;
    assert_eq!(ready_on(&plane, "web").await, "node-2");
}

#[tokio::test]
async fn a_user_created_node_runs_pods() {
    let plane = TestPlane::builder().nodes(1).await;
    let node = json!({
        "metadata": {"name": "big", "labels": {"size": "big"}, "annotations": {"windlass.dev/node": "fake"}},
        "spec": {"taints": [{"key": "big", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "500", "memory": "1Ti", "pods": "5"}},
    });
    let nodes: Api<Node> = Api::all(plane.client());
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let resources = json!({"requests": {"cpu": "400"}});
    let spec = json!({
        "nodeSelector": {"size": "big"},
        "tolerations": [{"key": "big", "operator": "Exists"}],
        "containers": [{"name": "main", "image": "a", "resources": resources}],
    });
    create(&plane, &pod("web", spec.clone())).await;
    assert_eq!(ready_on(&plane, "web").await, "big");
    create(&plane, &pod("more", spec)).await;
    let why = rejected(&plane, "more").await;
    assert!(why.contains("1 Insufficient cpu"), "{why}");
}

#[tokio::test]
async fn scheduling_gates_and_other_schedulers_are_respected() {
    let plane = TestPlane::builder().nodes(1).await;
    create(&plane, &pod("gated", json!({"schedulingGates": [{"name": "example.com/wait"}]}))).await;
    create(&plane, &pod("others", json!({"schedulerName": "another-scheduler"}))).await;
    create(&plane, &pod("plain", json!({}))).await;
    ready_on(&plane, "plain").await;
    let pods = plane.api::<Pod>();
    for name in ["gated", "others"] {
        assert_eq!(pods.get(name).await.unwrap().spec.unwrap().node_name, None, "{name}");
    }
    let patch = json!({"spec": {"schedulingGates": null}});
    pods.patch("gated", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    ready_on(&plane, "gated").await;
}

#[tokio::test]
async fn a_pod_waits_for_its_claim() {
    let plane = TestPlane::builder().nodes(1).await;
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    create(&plane, &pod("db", json!({"volumes": volumes}))).await;
    eventually("the reason is reported", async || {
        rejected(&plane, "db").await.contains("persistentvolumeclaim \"data\" not found").then_some(())
    })
    .await;
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let claims: Api<PersistentVolumeClaim> = plane.api();
    claims.create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap();
    ready_on(&plane, "db").await;
    let bound = claims.get("data").await.unwrap();
    assert_eq!(bound.status.unwrap().phase.as_deref(), Some("Bound"));
    assert!(bound.spec.unwrap().volume_name.unwrap().starts_with("pvc-"));
}

#[tokio::test]
async fn many_pods_are_spread_over_the_nodes() {
    let plane = TestPlane::builder().nodes(4).await;
    for number in 0..80 {
        create(&plane, &pod(&format!("web-{number}"), json!({}))).await;
    }
    let pods = plane.api::<Pod>();
    let placed = eventually("all are ready", async || {
        let all = pods.list(&ListParams::default()).await.unwrap().items;
        all.iter().all(is_ready).then_some(all)
    })
    .await;
    let mut counts = std::collections::BTreeMap::new();
    let mut addresses = std::collections::BTreeSet::new();
    for pod in placed {
        *counts.entry(pod.spec.unwrap().node_name.unwrap()).or_insert(0) += 1;
        addresses.insert(pod.status.unwrap().pod_ip.unwrap());
    }
    assert!(counts.len() == 4 && counts.values().all(|count| (15..=25).contains(count)), "{counts:?}");
    assert_eq!(addresses.len(), 80);
}

#[tokio::test]
async fn a_pod_of_higher_priority_preempts_another() {
    let plane = TestPlane::builder().nodes(1).await;
    let classes: Api<PriorityClass> = Api::all(plane.client());
    let class = json!({"metadata": {"name": "high"}, "value": 1000});
    classes.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
    let container = json!({"name": "main", "image": "a", "resources": {"requests": {"cpu": "20"}}});
    create(&plane, &pod("low", json!({"containers": [container]}))).await;
    ready_on(&plane, "low").await;
    create(&plane, &pod("high", json!({"containers": [container], "priorityClassName": "high"}))).await;
    ready_on(&plane, "high").await;
    assert!(plane.api::<Pod>().get_opt("low").await.unwrap().is_none());
}
