//! Deployments: rollouts, pauses, rollbacks, deadlines. The test makes pods ready.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Pod,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use windlass_plane::{LoopOptions, Loops};
use windlass_testing::{TestCluster, TestPlane, eventually};

const REVISION: &str = "deployment.kubernetes.io/revision";

fn deployment(name: &str, replicas: i32, image: &str) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    }))
    .unwrap()
}

async fn create(cluster: &TestCluster, deployment: &Deployment) {
    cluster.api::<Deployment>().create(&PostParams::default(), deployment).await.unwrap();
}

async fn patch(cluster: &TestCluster, name: &str, patch: Value) -> Deployment {
    cluster.api().patch(name, &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap()
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

async fn sets(cluster: &TestCluster) -> Vec<ReplicaSet> {
    let mut sets = cluster.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap().items;
    sets.sort_by_key(revision_of);
    sets
}

async fn pods(cluster: &TestCluster) -> Vec<Pod> {
    cluster.api::<Pod>().list(&ListParams::default()).await.unwrap().items
}

/// Image and size of each replica set, by revision.
async fn sizes(cluster: &TestCluster) -> Vec<(String, i32)> {
    let of = |set: ReplicaSet| {
        let spec = set.spec.unwrap();
        (spec.template.unwrap().spec.unwrap().containers[0].image.clone().unwrap(), spec.replicas.unwrap())
    };
    sets(cluster).await.into_iter().map(of).collect()
}

fn revision_of(set: &ReplicaSet) -> i32 {
    set.annotations().get(REVISION).map(|text| text.parse().unwrap()).unwrap_or_default()
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Makes a pod ready, unless it has been deleted.
async fn mark_ready(api: &Api<Pod>, pod: &Pod) -> bool {
    let now = windlass_clock::now_in_seconds().to_string();
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": now});
    let status = json!({"status": {"phase": "Running", "conditions": [ready]}});
    api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(status)).await.is_ok()
}

/// Makes up to `limit` unready pods ready, of an image if one is given. Returns how many.
pub(crate) async fn make_ready(cluster: &TestCluster, image: Option<&str>, limit: usize) -> usize {
    let api = cluster.api::<Pod>();
    let of_image =
        |pod: &Pod| image.is_none_or(|image| pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some(image));
    let waiting = pods(cluster).await.into_iter().filter(|pod| !is_ready(pod) && of_image(pod)).take(limit);
    let mut made = 0;
    for pod in waiting {
        made += usize::from(mark_ready(&api, &pod).await);
    }
    made
}

/// Makes pods ready as they are created.
async fn tend(api: Api<Pod>) {
    let mut changes = Box::pin(api.watch(&WatchParams::default(), "0").await.unwrap());
    while let Some(change) = changes.try_next().await.unwrap() {
        if let WatchEvent::Added(pod) = change {
            mark_ready(&api, &pod).await;
        }
    }
}

fn is_complete(deployment: &Deployment) -> bool {
    let desired = deployment.spec.as_ref().unwrap().replicas;
    let status = deployment.status.clone().unwrap_or_default();
    status.observed_generation == deployment.metadata.generation
        && [status.replicas, status.updated_replicas, status.available_replicas].iter().all(|number| *number == desired)
        && reason(deployment) == "NewReplicaSetAvailable"
}

fn reason(deployment: &Deployment) -> &str {
    let conditions = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut progressing = conditions.filter(|condition| condition.type_ == "Progressing");
    progressing.next().and_then(|condition| condition.reason.as_deref()).unwrap_or_default()
}

/// Makes pods ready until a rollout is complete. Returns the highest number of pods and the lowest number of available
/// ones.
async fn roll_out(cluster: &TestCluster, name: &str) -> (usize, usize) {
    let (mut most, mut least) = (0, usize::MAX);
    eventually("the rollout is complete", async || {
        make_ready(cluster, None, 1).await;
        let pods = pods(cluster).await;
        most = most.max(pods.len());
        least = least.min(pods.iter().filter(|pod| is_ready(pod)).count());
        is_complete(&cluster.api().get(name).await.unwrap()).then_some(())
    })
    .await;
    (most, least)
}

async fn settled(cluster: &TestCluster, name: &str, what: &str, holds: impl Fn(&Deployment) -> bool) -> Deployment {
    cluster.expect::<Deployment>(name).to(what, holds).await
}

async fn expect_sizes(cluster: &TestCluster, expected: &[(&str, i32)]) {
    let expected: Vec<_> = expected.iter().map(|(image, size)| ((*image).to_owned(), *size)).collect();
    eventually(&format!("the sets are {expected:?}"), async || (sizes(cluster).await == expected).then_some(())).await;
}

#[tokio::test]
async fn a_rolling_update_keeps_within_its_limits_and_ends() {
    let plane = TestPlane::builder().await;
    create(&plane, &deployment("web", 4, "one")).await;
    roll_out(&plane, "web").await;
    patch(&plane, "web", image("two")).await;
    let (most, least) = roll_out(&plane, "web").await;
    assert!(most <= 5 && least >= 3, "{most} {least}");
    assert_eq!(sizes(&plane).await, [("one".to_owned(), 0), ("two".to_owned(), 4)]);
    assert!(
        pods(&plane).await.iter().all(|pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("two"))
    );
    let web = plane.api::<Deployment>().get("web").await.unwrap();
    assert_eq!(web.annotations()[REVISION], "2");
    assert_eq!(web.status.unwrap().unavailable_replicas, None);
}

#[tokio::test]
async fn the_status_of_a_deployment_sums_up_its_replica_sets_and_pods() {
    let plane = TestPlane::builder().await;
    create(&plane, &deployment("web", 2, "one")).await;
    let event = plane.expect::<Deployment>("web").event("ScalingReplicaSet").await;
    let set = eventually("there is a set", async || sets(&plane).await.into_iter().next()).await;
    assert_eq!(event.note.unwrap(), format!("Scaled up replica set {} from 0 to 2", set.name_any()));
    assert_eq!(event.reporting_controller.as_deref(), Some("deployment-controller"));
    let event = plane.expect::<ReplicaSet>(&set.name_any()).event("SuccessfulCreate").await;
    assert!(event.note.unwrap().starts_with(&format!("Created pod: {}-", set.name_any())));
    assert_eq!(event.reporting_controller.as_deref(), Some("replicaset-controller"));
}

#[tokio::test]
async fn undoing_a_rollout_brings_the_old_set_back_under_a_new_revision() {
    let plane = TestPlane::builder().await;
    create(&plane, &deployment("web", 2, "one")).await;
    roll_out(&plane, "web").await;
    patch(&plane, "web", image("two")).await;
    roll_out(&plane, "web").await;
    let first = sets(&plane).await.remove(0).metadata.uid;
    patch(&plane, "web", image("one")).await;
    roll_out(&plane, "web").await;
    let sets = sets(&plane).await;
    assert_eq!(sets.len(), 2);
    assert_eq!(sets[1].metadata.uid, first);
    assert_eq!(sets[1].annotations()[REVISION], "3");
    assert_eq!(sets[1].annotations()["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!(plane.api::<Deployment>().get("web").await.unwrap().annotations()[REVISION], "3");
}

#[tokio::test]
async fn the_deprecated_rollback_annotation_is_honored() {
    let plane = TestPlane::builder().await;
    create(&plane, &deployment("web", 1, "one")).await;
    roll_out(&plane, "web").await;
    patch(&plane, "web", image("two")).await;
    roll_out(&plane, "web").await;
    patch(&plane, "web", json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": "1"}}})).await;
    expect_sizes(&plane, &[("two", 1), ("one", 1)]).await;
    let web = plane.api::<Deployment>().get("web").await.unwrap();
    assert!(!web.annotations().contains_key("deprecated.deployment.rollback.to"));
    plane.expect::<Deployment>("web").event("DeploymentRollback").await;
    patch(&plane, "web", json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": "77"}}})).await;
    plane.expect::<Deployment>("web").event("DeploymentRollbackRevisionNotFound").await;
}

#[tokio::test]
async fn a_paused_deployment_waits_with_its_new_template_but_can_be_scaled() {
    let plane = TestPlane::builder().await;
    create(&plane, &deployment("web", 2, "one")).await;
    roll_out(&plane, "web").await;
    patch(&plane, "web", json!({"spec": {"paused": true}})).await;
    settled(&plane, "web", "be paused", |web| reason(web) == "DeploymentPaused").await;
    patch(&plane, "web", image("two")).await;
    patch(&plane, "web", json!({"spec": {"replicas": 3}})).await;
    expect_sizes(&plane, &[("one", 3)]).await;
    patch(&plane, "web", json!({"spec": {"paused": false}})).await;
    roll_out(&plane, "web").await;
    assert_eq!(sizes(&plane).await, [("one".to_owned(), 0), ("two".to_owned(), 3)]);
}

#[tokio::test]
async fn scaling_in_the_middle_of_a_rollout_keeps_its_proportions() {
    let plane = TestPlane::builder().await;
    create(&plane, &deployment("web", 8, "one")).await;
    roll_out(&plane, "web").await;
    patch(&plane, "web", image("two")).await;
    expect_sizes(&plane, &[("one", 6), ("two", 4)]).await;
    patch(&plane, "web", json!({"spec": {"replicas": 16}})).await;
    expect_sizes(&plane, &[("one", 12), ("two", 8)]).await;
    roll_out(&plane, "web").await;
    assert_eq!(sizes(&plane).await, [("one".to_owned(), 0), ("two".to_owned(), 16)]);
}

#[tokio::test]
async fn the_recreate_strategy_waits_until_the_last_old_pod_is_deleted() {
    let plane = TestPlane::builder().await;
    let mut web = deployment("web", 2, "one");
    web.spec.as_mut().unwrap().strategy = serde_json::from_value(json!({"type": "Recreate"})).unwrap();
    let template = &mut web.spec.as_mut().unwrap().template;
    template.metadata.as_mut().unwrap().finalizers = Some(vec!["example.com/hold".to_owned()]);
    create(&plane, &web).await;
    roll_out(&plane, "web").await;
    patch(&plane, "web", image("two")).await;
    eventually("the old pods are terminating", async || {
        let pods = pods(&plane).await;
        (pods.len() == 2 && pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_some())).then_some(())
    })
    .await;
    let terminating = |web: &Deployment| web.status.as_ref().unwrap().terminating_replicas == Some(2);
    settled(&plane, "web", "count those on their way out", terminating).await;
    assert_eq!(sizes(&plane).await, [("one".to_owned(), 0)]);
    for pod in pods(&plane).await {
        let free = json!({"metadata": {"finalizers": null}});
        plane.api::<Pod>().patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(free)).await.unwrap();
    }
    roll_out(&plane, "web").await;
    assert_eq!(sizes(&plane).await, [("one".to_owned(), 0), ("two".to_owned(), 2)]);
}

#[tokio::test]
async fn a_rollout_that_exceeded_its_deadline_can_still_complete() {
    let plane = TestPlane::builder().virtual_time().await;
    let mut web = deployment("web", 2, "one");
    web.spec.as_mut().unwrap().progress_deadline_seconds = Some(3600);
    create(&plane, &web).await;
    let began = windlass_clock::now();
    plane.advance(Duration::from_secs(3000)).await;
    assert_eq!(reason(&plane.api().get("web").await.unwrap()), "ReplicaSetUpdated");
    // The first ready pod is progress: the deadline starts again.
    make_ready(&plane, None, 1).await;
    plane.advance(Duration::from_secs(3000)).await;
    assert_eq!(reason(&plane.api().get("web").await.unwrap()), "ReplicaSetUpdated");
    plane.advance(Duration::from_secs(700)).await;
    let late =
        plane.expect::<Deployment>("web").condition_for("Progressing", "False", "ProgressDeadlineExceeded").await;
    let set = sets(&plane).await.remove(0).name_any();
    assert_eq!(late.message, format!("ReplicaSet \"{set}\" has timed out progressing."));
    let after = late.last_transition_time.0.duration_since(began).as_secs();
    assert!((6600..6610).contains(&after), "{after}");
    make_ready(&plane, None, 1).await;
    settled(&plane, "web", "be complete", is_complete).await;
}

#[tokio::test]
async fn pods_must_have_been_ready_for_a_while_to_be_available() {
    let plane = TestPlane::builder().virtual_time().await;
    let mut web = deployment("web", 2, "one");
    web.spec.as_mut().unwrap().min_ready_seconds = Some(300);
    create(&plane, &web).await;
    eventually("there are pods", async || (pods(&plane).await.len() == 2).then_some(())).await;
    make_ready(&plane, None, 2).await;
    plane.advance(Duration::from_secs(290)).await;
    let status = plane.api::<Deployment>().get("web").await.unwrap().status.unwrap();
    assert_eq!((status.ready_replicas, status.available_replicas), (Some(2), None));
    plane.advance(Duration::from_secs(15)).await;
    assert!(is_complete(&plane.api().get("web").await.unwrap()));
}

#[tokio::test]
async fn the_revision_history_limit_is_respected() {
    let plane = TestPlane::builder().await;
    let mut web = deployment("web", 1, "0");
    web.spec.as_mut().unwrap().revision_history_limit = Some(2);
    create(&plane, &web).await;
    roll_out(&plane, "web").await;
    for version in 1..5 {
        patch(&plane, "web", image(&version.to_string())).await;
        roll_out(&plane, "web").await;
    }
    expect_sizes(&plane, &[("2", 0), ("3", 0), ("4", 1)]).await;
}

#[tokio::test]
async fn a_hash_collision_gets_another_name() {
    let plane = TestPlane::builder().await;
    create(&plane, &deployment("web", 1, "one")).await;
    roll_out(&plane, "web").await;
    let name = sets(&plane).await.remove(0).name_any();
    // A replica set of another owner occupies the name.
    let propagation = DeleteParams::orphan();
    plane.api::<Deployment>().delete("web", &propagation).await.unwrap();
    plane.expect::<Deployment>("web").gone().await;
    plane.api::<ReplicaSet>().delete(&name, &DeleteParams::background()).await.unwrap();
    plane.expect::<ReplicaSet>(&name).gone().await;
    let other: ReplicaSet = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "other"}},
            "template": {"metadata": {"labels": {"app": "other"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
        },
    }))
    .unwrap();
    plane.api().create(&PostParams::default(), &other).await.unwrap();
    create(&plane, &deployment("web", 1, "one")).await;
    let web = settled(&plane, "web", "have a set", |web| !reason(web).is_empty()).await;
    assert_eq!(web.status.unwrap().collision_count, Some(1));
    eventually("there is a set of another name", async || {
        sets(&plane).await.into_iter().find(|set| set.name_any() != name && set.name_any().starts_with("web-"))
    })
    .await;
}

#[tokio::test]
async fn orphaned_replica_sets_are_adopted_by_their_labels() {
    let plane = TestPlane::builder().await;
    create(&plane, &deployment("web", 2, "one")).await;
    roll_out(&plane, "web").await;
    let before: Vec<_> = pods(&plane).await.iter().map(|pod| pod.metadata.uid.clone()).collect();
    plane.api::<Deployment>().delete("web", &DeleteParams::orphan()).await.unwrap();
    plane.expect::<Deployment>("web").gone().await;
    eventually("the set has no owner", async || {
        sets(&plane).await[0].metadata.owner_references.as_ref().is_none_or(Vec::is_empty).then_some(())
    })
    .await;
    create(&plane, &deployment("web", 2, "one")).await;
    let web = settled(&plane, "web", "be complete", |web| {
        web.status.as_ref().is_some_and(|status| status.available_replicas == Some(2))
    })
    .await;
    let sets = sets(&plane).await;
    assert_eq!(sets.len(), 1);
    assert_eq!(sets[0].owner_references()[0].uid, web.metadata.uid.unwrap());
    let after: Vec<_> = pods(&plane).await.iter().map(|pod| pod.metadata.uid.clone()).collect();
    assert_eq!(before, after);
}

#[tokio::test]
async fn a_restarted_loop_continues_a_rollout() {
    let cluster = TestCluster::start().await;
    let server = cluster.server().unwrap();
    let loops = Loops::start(server, &LoopOptions::default());
    create(&cluster, &deployment("web", 4, "one")).await;
    roll_out(&cluster, "web").await;
    patch(&cluster, "web", image("two")).await;
    expect_sizes(&cluster, &[("one", 3), ("two", 2)]).await;
    loops.stop().await;
    make_ready(&cluster, None, 1).await;
    let pod = pods(&cluster).await.remove(0).name_any();
    cluster.api::<Pod>().delete(&pod, &DeleteParams::default()).await.unwrap();
    for _ in 0..3 {
        // Some planes stop early.
        drop(Loops::start(server, &LoopOptions::default()));
    }
    let _loops = Loops::start(server, &LoopOptions::default());
    roll_out(&cluster, "web").await;
    assert_eq!(sizes(&cluster).await, [("one".to_owned(), 0), ("two".to_owned(), 4)]);
}

#[tokio::test]
async fn two_hundred_deployments_roll_out_at_once() {
    const COUNT: usize = 200;
    let plane = TestPlane::builder().await;
    let mut tending = JoinSet::new();
    tending.spawn(tend(plane.api()));
    for number in 0..COUNT {
        create(&plane, &deployment(&format!("web-{number}"), 1, "one")).await;
    }
    for number in 0..COUNT {
        settled(&plane, &format!("web-{number}"), "be complete", is_complete).await;
        patch(&plane, &format!("web-{number}"), image("two")).await;
    }
    for number in 0..COUNT {
        settled(&plane, &format!("web-{number}"), "be complete", is_complete).await;
    }
    assert_eq!(pods(&plane).await.len(), COUNT);
    assert_eq!(sets(&plane).await.len(), 2 * COUNT);
}

#[tokio::test]
async fn a_rollout_takes_few_writes() {
    let plane = TestPlane::builder().await;
    let mut tending = JoinSet::new();
    tending.spawn(tend(plane.api()));
    create(&plane, &deployment("web", 3, "one")).await;
    settled(&plane, "web", "be complete", is_complete).await;
    let first = (writes::<Deployment>(&plane, "1").await, writes::<ReplicaSet>(&plane, "1").await);
    let since =
        plane.api::<Deployment>().list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    patch(&plane, "web", image("two")).await;
    settled(&plane, "web", "be complete", is_complete).await;
    let second = (writes::<Deployment>(&plane, &since).await, writes::<ReplicaSet>(&plane, &since).await);
    // With a surge of one, a pod is created and one is deleted three times. The replica set reports each change, and
    // the deployment reports the changes of its sets; one write is the test's own, and one completes the rollout.
    assert!(first.0 <= 6 && first.1 <= 6, "{first:?}");
    assert!(second.0 <= 14 && second.1 <= 22, "{second:?}");
}

/// The number of changes to objects of a kind since a resource version.
async fn writes<K>(cluster: &TestCluster, since: &str) -> usize
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + serde::Serialize
        + Send
        + 'static,
{
    // The watch ends by itself after a second.
    let params = WatchParams::default().timeout(1);
    let changes = Box::pin(cluster.api::<K>().watch(&params, since).await.unwrap());
    let changes: Vec<WatchEvent<K>> = changes.try_collect().await.unwrap();
    changes.iter().filter(|change| matches!(change, WatchEvent::Added(_) | WatchEvent::Modified(_))).count()
}

#[tokio::test]
async fn every_scaling_is_an_event_of_its_own_with_a_count() {
    let plane = TestPlane::builder().controllers("deployment-controller".parse().unwrap()).await;
    create(&plane, &deployment("web", 0, "one")).await;
    let events = plane.api::<k8s_openapi::api::core::v1::Event>();
    for replicas in [3, 20] {
        settled(&plane, "web", "it is observed", |web| {
            web.status.as_ref().and_then(|status| status.observed_generation) == web.metadata.generation
        })
        .await;
        patch(&plane, "web", json!({"spec": {"replicas": replicas}})).await;
        let wanted = format!("from {} to {replicas}", if replicas == 3 { 0 } else { 3 });
        let event = eventually(&wanted, async || {
            let list = events.list(&ListParams::default()).await.unwrap().items;
            list.into_iter().find(|event| event.message.as_ref().is_some_and(|message| message.ends_with(&wanted)))
        })
        .await;
        assert_eq!((event.reason.as_deref(), event.count), (Some("ScalingReplicaSet"), Some(1)));
        assert_eq!(event.source.unwrap().component.as_deref(), Some("deployment-controller"));
        assert!(event.first_timestamp.is_some() && event.event_time.is_none());
    }
}
