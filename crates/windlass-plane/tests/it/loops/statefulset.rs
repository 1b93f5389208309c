//! Stateful sets, with pods that the test makes ready.

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet},
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_plane::{LoopOptions, Loops, Selection};
use windlass_testing::{TestCluster, TestPlane, eventually};

async fn plane() -> TestPlane {
    TestPlane::builder().controllers(selection()).await
}

fn selection() -> Selection {
    "statefulset-controller,garbage-collector-controller".parse().unwrap()
}

async fn create(cluster: &TestCluster, mut spec: Value) -> StatefulSet {
    spec["serviceName"] = "db".into();
    spec["selector"] = json!({ "matchLabels": { "app": "db" } });
    if spec["template"].is_null() {
        spec["template"] = template("one");
    }
    let set = serde_json::from_value(json!({ "metadata": { "name": "db" }, "spec": spec })).unwrap();
    cluster.api::<StatefulSet>().create(&PostParams::default(), &set).await.unwrap()
}

fn template(image: &str) -> Value {
    json!({ "metadata": { "labels": { "app": "db" } }, "spec": { "containers": [{ "name": "c", "image": image }] } })
}

async fn patch(cluster: &TestCluster, spec: Value) -> StatefulSet {
    let patch = Patch::Merge(json!({ "spec": spec }));
    cluster.api::<StatefulSet>().patch("db", &PatchParams::default(), &patch).await.unwrap()
}

/// The pods that are not terminating, by name.
async fn pods(cluster: &TestCluster) -> Vec<Pod> {
    let mut pods = cluster.api::<Pod>().list(&Default::default()).await.unwrap().items;
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    pods.sort_by_key(ResourceExt::name_any);
    pods
}

/// Names and images.
async fn shown(cluster: &TestCluster) -> String {
    let shown = |pod: &Pod| {
        format!("{}={}", pod.name_any(), pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap())
    };
    pods(cluster).await.iter().map(shown).collect::<Vec<_>>().join(" ")
}

async fn set_phase(cluster: &TestCluster, name: &str, phase: &str) {
    let ready = if phase == "Running" { "True" } else { "False" };
    let now = windlass_clock::now_in_seconds().to_string();
    let status = json!({ "status": { "phase": phase,
        "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": now }] } });
    cluster.api::<Pod>().patch_status(name, &PatchParams::default(), &Patch::Strategic(status)).await.unwrap();
}

/// Waits for these pods.
async fn expect_shown(cluster: &TestCluster, expected: &str) {
    eventually(&format!("there are {expected}"), async || (shown(cluster).await == expected).then_some(())).await;
}

/// Waits for these pods and makes all of them ready.
async fn expect_pods(cluster: &TestCluster, expected: &str) {
    expect_shown(cluster, expected).await;
    for pod in pods(cluster).await {
        if pod.status.and_then(|status| status.phase).as_deref() != Some("Running") {
            set_phase(cluster, &pod.metadata.name.unwrap(), "Running").await;
        }
    }
}

async fn status(cluster: &TestCluster, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let sets = cluster.api::<StatefulSet>();
    eventually(what, async || {
        let status = serde_json::to_value(sets.get("db").await.unwrap().status).unwrap();
        holds(&status).then_some(status)
    })
    .await
}

async fn revisions(cluster: &TestCluster) -> Vec<(i64, String)> {
    let mut all = cluster.api::<ControllerRevision>().list(&Default::default()).await.unwrap().items;
    all.sort_by_key(|revision| revision.revision);
    all.into_iter().map(|revision| (revision.revision, revision.name_any())).collect()
}

#[tokio::test]
async fn an_ordered_set_grows_one_by_one_and_shrinks_from_the_end() {
    let plane = plane().await;
    create(
        &plane,
        json!({ "replicas": 3, "volumeClaimTemplates": [{ "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } }] }),
    )
    .await;
    expect_pods(&plane, "db-0=one").await;
    expect_pods(&plane, "db-0=one db-1=one").await;
    expect_pods(&plane, "db-0=one db-1=one db-2=one").await;
    let status = status(&plane, "all are ready", |status| status["readyReplicas"] == 3).await;
    assert_eq!(status["currentReplicas"], 3);
    assert_eq!(status["availableReplicas"], 3);
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    let pod = plane.api::<Pod>().get("db-2").await.unwrap();
    assert_eq!(pod.labels()["apps.kubernetes.io/pod-index"], "2");
    assert_eq!(pod.labels()["statefulset.kubernetes.io/pod-name"], "db-2");
    assert_eq!(status["currentRevision"], pod.labels()["controller-revision-hash"].as_str());
    assert_eq!(pod.spec.unwrap().subdomain.as_deref(), Some("db"));

    patch(&plane, json!({ "replicas": 1 })).await;
    expect_pods(&plane, "db-0=one").await;
    let claims = plane.api::<PersistentVolumeClaim>().list(&Default::default()).await.unwrap().items;
    assert_eq!(claims.len(), 3, "claims stay");
    assert!(claims.iter().all(|claim| claim.owner_references().is_empty() && claim.labels()["app"] == "db"));
}

#[tokio::test]
async fn the_retention_policy_deletes_claims_with_their_pods_or_set() {
    let plane = plane().await;
    create(
        &plane,
        json!({ "replicas": 2, "podManagementPolicy": "Parallel",
        "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete", "whenScaled": "Delete" },
        "volumeClaimTemplates": [{ "metadata": { "name": "data" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } }] }),
    )
    .await;
    expect_pods(&plane, "db-0=one db-1=one").await;
    let claims = plane.api::<PersistentVolumeClaim>();
    let owner = async |name: &str| {
        let claim = claims.get(name).await.unwrap();
        claim.owner_references().first().map(|owner| owner.kind.clone())
    };
    eventually("the set owns them", async || {
        (owner("data-db-1").await.as_deref() == Some("StatefulSet")).then_some(())
    })
    .await;
    patch(&plane, json!({ "replicas": 1 })).await;
    expect_pods(&plane, "db-0=one").await;
    // The finalizer that protects claims in use belongs to another loop.
    for name in ["data-db-1", "data-db-0"] {
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        let _ = claims.patch(name, &PatchParams::default(), &patch).await;
    }
    eventually("the claim of the pod is deleted", async || {
        let all = claims.list(&Default::default()).await.unwrap().items;
        (all.iter().map(ResourceExt::name_any).collect::<Vec<_>>() == ["data-db-0"]).then_some(())
    })
    .await;
    assert_eq!(owner("data-db-0").await.as_deref(), Some("StatefulSet"));
}

#[tokio::test]
async fn a_rollout_respects_the_partition_and_a_rollback_reuses_the_revision() {
    let plane = plane().await;
    create(&plane, json!({ "replicas": 3, "podManagementPolicy": "Parallel" })).await;
    expect_pods(&plane, "db-0=one db-1=one db-2=one").await;
    status(&plane, "all are ready", |status| status["readyReplicas"] == 3).await;
    patch(&plane, json!({ "template": template("two"), "updateStrategy": { "rollingUpdate": { "partition": 1 } } }))
        .await;
    expect_pods(&plane, "db-0=one db-1=one db-2=two").await;
    expect_pods(&plane, "db-0=one db-1=two db-2=two").await;
    let halfway =
        status(&plane, "two are new", |status| status["updatedReplicas"] == 2 && status["readyReplicas"] == 3).await;
    assert_eq!(halfway["currentReplicas"], 1);
    assert_ne!(halfway["currentRevision"], halfway["updateRevision"]);
    let before = revisions(&plane).await;
    assert_eq!(before.len(), 2);

    // A pod below the partition still has the current revision.
    plane.api::<Pod>().delete("db-0", &DeleteParams::default()).await.unwrap();
    eventually("it is back", async || {
        let back = pods(&plane).await.into_iter().find(|pod| pod.name_any() == "db-0")?;
        (back.status?.phase? == "Pending").then_some(())
    })
    .await;
    expect_pods(&plane, "db-0=one db-1=two db-2=two").await;

    patch(&plane, json!({ "template": template("one"), "updateStrategy": { "rollingUpdate": { "partition": 0 } } }))
        .await;
    expect_pods(&plane, "db-0=one db-1=two db-2=one").await;
    expect_pods(&plane, "db-0=one db-1=one db-2=one").await;
    let end = status(&plane, "all are old", |status| {
        status["updatedReplicas"] == 3
            && status["readyReplicas"] == 3
            && status["currentRevision"] == status["updateRevision"]
    })
    .await;
    let after = revisions(&plane).await;
    assert_eq!(after.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(after[1].1, before[0].1, "the old one is now the newest");
    assert_eq!(end["currentRevision"], after[1].1.as_str());
}

#[tokio::test]
async fn revisions_beyond_the_limit_are_deleted() {
    let plane = plane().await;
    create(&plane, json!({ "replicas": 0, "revisionHistoryLimit": 1 })).await;
    status(&plane, "it is seen", |status| status["observedGeneration"] == 1).await;
    for image in ["two", "three", "four"] {
        let set = patch(&plane, json!({ "template": template(image) })).await;
        status(&plane, "it is seen", |status| status["observedGeneration"] == set.metadata.generation.unwrap()).await;
    }
    eventually("two are left", async || {
        let numbers: Vec<i64> = revisions(&plane).await.iter().map(|(number, _)| *number).collect();
        (numbers == [3, 4]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_failed_pod_is_replaced_and_orphans_are_adopted() {
    let plane = plane().await;
    let orphan: Pod = serde_json::from_value(json!({ "metadata": { "name": "db-1", "labels": { "app": "db" } },
        "spec": template("mine")["spec"] }))
    .unwrap();
    let pods: Api<Pod> = plane.api();
    pods.create(&PostParams::default(), &orphan).await.unwrap();
    create(&plane, json!({ "replicas": 2, "updateStrategy": { "type": "OnDelete" } })).await;
    expect_pods(&plane, "db-0=one db-1=mine").await;
    let adopted = eventually("it is adopted and identified", async || {
        let pod = pods.get("db-1").await.unwrap();
        pod.labels().contains_key("statefulset.kubernetes.io/pod-name").then_some(pod)
    })
    .await;
    assert_eq!(adopted.owner_references()[0].name, "db");
    let uid = pods.get("db-0").await.unwrap().metadata.uid;
    set_phase(&plane, "db-0", "Failed").await;
    eventually("another one is created", async || {
        let pod = pods.get_opt("db-0").await.unwrap()?;
        (pod.metadata.uid != uid).then_some(())
    })
    .await;
    // Without the label the set does not own it, but it occupies the name.
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "app": "other" } } }));
    pods.patch("db-1", &PatchParams::default(), &patch).await.unwrap();
    eventually("it is released", async || pods.get("db-1").await.unwrap().owner_references().is_empty().then_some(()))
        .await;
}

#[tokio::test]
async fn the_next_pod_waits_until_the_previous_one_is_available() {
    let plane = TestPlane::builder().controllers(selection()).virtual_time().await;
    let begin = windlass_clock::now().as_second();
    create(&plane, json!({ "replicas": 2, "minReadySeconds": 3600 })).await;
    expect_pods(&plane, "db-0=one").await;
    let sets = plane.api::<StatefulSet>();
    // Virtual time passes while all tasks wait.
    let mut ready = Value::Null;
    while ready["availableReplicas"] != 1 {
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        ready = serde_json::to_value(sets.get("db").await.unwrap().status).unwrap();
        assert!(windlass_clock::now().as_second() < begin + 7200, "{ready}");
    }
    assert!(windlass_clock::now().as_second() >= begin + 3600);
    expect_pods(&plane, "db-0=one db-1=one").await;
}

#[tokio::test]
async fn a_restarted_loop_continues_a_rollout_and_then_writes_nothing() {
    let plane = TestPlane::builder().controllers(Selection::none()).await;
    let options = LoopOptions { controllers: selection(), ..LoopOptions::default() };
    let server = plane.server().unwrap();
    let loops = Loops::start(server, &options);
    create(&plane, json!({ "replicas": 3 })).await;
    expect_pods(&plane, "db-0=one").await;
    // The second pod is ready only when the loop has stopped, which would create the third one.
    expect_shown(&plane, "db-0=one db-1=one").await;
    loops.stop().await;
    expect_pods(&plane, "db-0=one db-1=one").await;
    patch(&plane, json!({ "template": template("two") })).await;
    let loops = Loops::start(server, &options);
    expect_pods(&plane, "db-0=one db-1=one db-2=two").await;
    expect_pods(&plane, "db-0=one db-1=two db-2=two").await;
    expect_pods(&plane, "db-0=two db-1=two db-2=two").await;
    status(&plane, "it is complete", |status| status["currentReplicas"] == 3 && status["readyReplicas"] == 3).await;
    loops.stop().await;
    let before = plane.api::<StatefulSet>().get("db").await.unwrap();
    let versions = |pods: Vec<Pod>| pods.iter().map(|pod| pod.resource_version()).collect::<Vec<_>>();
    let pods_before = versions(pods(&plane).await);
    let loops = Loops::start(server, &options);
    // Another set is reconciled after everything before it.
    let mut other = before.clone();
    other.metadata = Default::default();
    other.metadata.name = Some("other".into());
    other.status = None;
    plane.api::<StatefulSet>().create(&PostParams::default(), &other).await.unwrap();
    eventually("the other set is reconciled", async || {
        plane.api::<StatefulSet>().get("other").await.unwrap().status?.observed_generation.map(drop)
    })
    .await;
    loops.stop().await;
    assert_eq!(plane.api::<StatefulSet>().get("db").await.unwrap().resource_version(), before.resource_version());
    let pods_after: Vec<Pod> = pods(&plane).await.into_iter().filter(|pod| pod.name_any().starts_with("db-")).collect();
    assert_eq!(versions(pods_after), pods_before);
}

#[tokio::test]
async fn a_pod_that_the_server_rejects_is_reported_with_its_reason() {
    let plane = plane().await;
    let mut rejected = template("one");
    rejected["spec"]["priorityClassName"] = "urgent".into();
    create(&plane, json!({ "replicas": 1, "template": rejected })).await;
    let event = plane.expect::<StatefulSet>("db").event("FailedCreate").await;
    let expected = "create Pod db-0 in StatefulSet db failed error: pods \"db-0\" is forbidden: no PriorityClass with name \
                    urgent was found";
    assert_eq!(event.note.unwrap().to_lowercase(), expected.to_lowercase());
}
