//! Replica sets and replication controllers: the number of pods, and their ownership.

use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Pod, ReplicationController},
};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_testing::{TestCluster, TestPlane, eventually};

use super::deployment::make_ready;

fn set(name: &str, replicas: i32) -> ReplicaSet {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "one"}]},
            },
        },
    }))
    .unwrap()
}

fn pod(name: &str, labels: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "main", "image": "one"}]},
    }))
    .unwrap()
}

async fn create(cluster: &TestCluster, set: &ReplicaSet) -> ReplicaSet {
    cluster.api().create(&PostParams::default(), set).await.unwrap()
}

async fn change(cluster: &TestCluster, pod: &str, patch: Value) {
    cluster.api::<Pod>().patch(pod, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn scale(cluster: &TestCluster, name: &str, replicas: i32) {
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    cluster.api::<ReplicaSet>().patch(name, &PatchParams::default(), &patch).await.unwrap();
}

async fn pods(cluster: &TestCluster) -> Vec<Pod> {
    cluster.api::<Pod>().list(&ListParams::default()).await.unwrap().items
}

/// Waits until there are `count` pods and the status of the set agrees.
async fn expect(cluster: &TestCluster, name: &str, count: usize) -> Vec<Pod> {
    let replicas = i32::try_from(count).unwrap();
    let counted = |set: &ReplicaSet| {
        let status = set.status.clone().unwrap_or_default();
        status.replicas == replicas && status.observed_generation == set.metadata.generation
    };
    cluster.expect::<ReplicaSet>(name).to(&format!("count {count}"), counted).await;
    let own = pods(cluster).await.into_iter().filter(|pod| owner(pod).as_deref() == Some(name)).collect::<Vec<_>>();
    assert_eq!(own.len(), count);
    own
}

fn owner(pod: &Pod) -> Option<String> {
    pod.owner_references().first().map(|owner| owner.name.clone())
}

#[tokio::test]
async fn a_set_has_the_requested_number_of_pods() {
    let plane = TestPlane::builder().await;
    create(&plane, &set("web", 5)).await;
    expect(&plane, "web", 5).await;
    scale(&plane, "web", 2).await;
    expect(&plane, "web", 2).await;
    scale(&plane, "web", 0).await;
    expect(&plane, "web", 0).await;
    plane.expect::<ReplicaSet>("web").event("SuccessfulDelete").await;
}

#[tokio::test]
async fn a_pod_that_is_deleted_or_has_ended_is_replaced() {
    let plane = TestPlane::builder().await;
    create(&plane, &set("web", 2)).await;
    let before = expect(&plane, "web", 2).await;
    plane.api::<Pod>().delete(&before[0].name_any(), &DeleteParams::default()).await.unwrap();
    eventually("there is another", async || {
        let pods = pods(&plane).await;
        (pods.len() == 2 && pods.iter().all(|pod| pod.metadata.uid != before[0].metadata.uid)).then_some(())
    })
    .await;
    let failed = Patch::Merge(json!({"status": {"phase": "Failed"}}));
    let name = before[1].name_any();
    plane.api::<Pod>().patch_status(&name, &PatchParams::default(), &failed).await.unwrap();
    // A failed pod is kept for inspection, and does not count.
    eventually("there is a third", async || (pods(&plane).await.len() == 3).then_some(())).await;
    let counted = |set: &ReplicaSet| set.status.as_ref().unwrap().replicas == 2;
    plane.expect::<ReplicaSet>("web").to("count two", counted).await;
}

#[tokio::test]
async fn matching_pods_are_adopted_and_others_released() {
    let plane = TestPlane::builder().await;
    plane.api().create(&PostParams::default(), &pod("stray", json!({"app": "web"}))).await.unwrap();
    plane.api().create(&PostParams::default(), &pod("other", json!({"app": "db"}))).await.unwrap();
    create(&plane, &set("web", 2)).await;
    let own = expect(&plane, "web", 2).await;
    assert!(own.iter().any(|pod| pod.name_any() == "stray"));
    assert_eq!(owner(&plane.api().get("other").await.unwrap()), None);
    change(&plane, "stray", json!({"metadata": {"labels": {"app": "free"}}})).await;
    plane.expect::<Pod>("stray").to("have no controller", |pod| owner(pod).is_none()).await;
    expect(&plane, "web", 2).await;
    // With its label back, there is one pod too many; the set chooses which one to delete.
    change(&plane, "stray", json!({"metadata": {"labels": {"app": "web"}}})).await;
    eventually("two exist again", async || (pods(&plane).await.len() == 3).then_some(())).await;
    expect(&plane, "web", 2).await;
    // A pod matches once it has the label.
    plane.api::<Pod>().delete("other", &DeleteParams::default()).await.unwrap();
    scale(&plane, "web", 3).await;
    expect(&plane, "web", 3).await;
}

#[tokio::test]
async fn an_orphaned_pod_is_adopted_by_the_next_set() {
    let plane = TestPlane::builder().await;
    create(&plane, &set("web", 2)).await;
    let before = expect(&plane, "web", 2).await;
    plane.api::<ReplicaSet>().delete("web", &DeleteParams::orphan()).await.unwrap();
    plane.expect::<ReplicaSet>("web").gone().await;
    for pod in &before {
        plane.expect::<Pod>(&pod.name_any()).to("have no controller", |pod| owner(pod).is_none()).await;
    }
    create(&plane, &set("web", 2)).await;
    let after = expect(&plane, "web", 2).await;
    let uids = |pods: &[Pod]| pods.iter().map(|pod| pod.metadata.uid.clone()).collect::<Vec<_>>();
    assert_eq!(uids(&before), uids(&after));
}

#[tokio::test]
async fn the_cheapest_pods_are_deleted_first() {
    let plane = TestPlane::builder().await;
    create(&plane, &set("web", 3)).await;
    let own = expect(&plane, "web", 3).await;
    for (pod, cost) in own.iter().zip(["10", "-10", "0"]) {
        let annotations = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}});
        change(&plane, &pod.name_any(), annotations).await;
    }
    scale(&plane, "web", 2).await;
    expect(&plane, "web", 2).await;
    plane.expect::<Pod>(&own[1].name_any()).gone().await;
    scale(&plane, "web", 1).await;
    let last = expect(&plane, "web", 1).await;
    assert_eq!(last[0].metadata.uid, own[0].metadata.uid);
}

#[tokio::test]
async fn the_replica_failure_condition_is_set_and_cleared() {
    let plane = TestPlane::builder().await;
    let mut rejected = set("web", 3);
    let spec = rejected.spec.as_mut().unwrap().template.as_mut().unwrap().spec.as_mut().unwrap();
    spec.priority_class_name = Some("urgent".to_owned());
    create(&plane, &rejected).await;
    let failure = plane.expect::<ReplicaSet>("web").condition_for("ReplicaFailure", "True", "FailedCreate").await;
    assert!(failure.message.ends_with("is forbidden: no PriorityClass with name urgent was found"), "{failure:?}");
    let event = plane.expect::<ReplicaSet>("web").event("FailedCreate").await;
    assert_eq!(event.note.unwrap(), format!("Error creating: {}", failure.message));
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 5});
    let class: k8s_openapi::api::scheduling::v1::PriorityClass = serde_json::from_value(class).unwrap();
    kube::Api::all(plane.client()).create(&PostParams::default(), &class).await.unwrap();
    expect(&plane, "web", 3).await;
    assert_eq!(plane.api::<ReplicaSet>().get("web").await.unwrap().status.unwrap().conditions, None);
}

#[tokio::test]
async fn replication_controllers_do_the_same() {
    let plane = TestPlane::builder().await;
    let old: ReplicationController = serde_json::from_value(json!({
        "metadata": {"name": "old"},
        "spec": {
            "replicas": 2, "selector": {"app": "old"},
            "template": {
                "metadata": {"labels": {"app": "old"}}, "spec": {"containers": [{"name": "main", "image": "one"}]},
            },
        },
    }))
    .unwrap();
    plane.api().create(&PostParams::default(), &pod("stray", json!({"app": "old"}))).await.unwrap();
    plane.api().create(&PostParams::default(), &old).await.unwrap();
    let counted = |old: &ReplicationController| old.status.as_ref().is_some_and(|status| status.replicas == 2);
    plane.expect::<ReplicationController>("old").to("count two", counted).await;
    make_ready(&plane, None, 2).await;
    let ready = |old: &ReplicationController| old.status.as_ref().unwrap().available_replicas == Some(2);
    let old = plane.expect::<ReplicationController>("old").to("have two available", ready).await;
    let pods = pods(&plane).await;
    assert_eq!(pods.len(), 2);
    for pod in pods {
        let owner = &pod.owner_references()[0];
        assert_eq!((owner.kind.as_str(), owner.api_version.as_str()), ("ReplicationController", "v1"));
        assert_eq!(Some(&owner.uid), old.metadata.uid.as_ref());
    }
    let event = plane.expect::<ReplicationController>("old").event("SuccessfulCreate").await;
    assert_eq!(event.reporting_controller.as_deref(), Some("replication-controller"));
}

#[tokio::test]
async fn a_satisfied_set_writes_nothing() {
    let plane = TestPlane::builder().virtual_time().await;
    create(&plane, &set("web", 3)).await;
    eventually("there are pods", async || (pods(&plane).await.len() == 3).then_some(())).await;
    make_ready(&plane, None, 3).await;
    let ready = |set: &ReplicaSet| set.status.as_ref().unwrap().available_replicas == Some(3);
    let before = plane.expect::<ReplicaSet>("web").to("have three available", ready).await;
    plane.advance(std::time::Duration::from_secs(86_400)).await;
    let after = plane.api::<ReplicaSet>().get("web").await.unwrap();
    assert_eq!(before.metadata.resource_version, after.metadata.resource_version);
}
