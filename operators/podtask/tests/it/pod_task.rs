//! The operator on a control plane with a node, in virtual time.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use podtask_operator::{
    api::pod_task::{Phase, PodTask, PodTaskSpec, PodTaskStatus, TaskAction},
    operator::operator,
};
use serde_json::json;
use windlass_testing::{
    TestPlane, eventually,
    fixtures::{self, Fixture},
};

async fn plane() -> TestPlane {
    TestPlane::builder().nodes(1).virtual_time().with_crd::<PodTask>().await
}

fn task(action: TaskAction, target: &str) -> PodTask {
    let spec = PodTaskSpec { action, target: target.to_owned(), retries: 2, ttl_seconds_after_finished: None };
    PodTask::new("task", spec)
}

fn status(task: &PodTask) -> PodTaskStatus {
    task.status.clone().unwrap_or_default()
}

async fn ends(plane: &TestPlane, phase: Phase) -> PodTaskStatus {
    status(&plane.expect::<PodTask>("task").to("be over", |task| status(task).phase == phase).await)
}

async fn runs(plane: &TestPlane, pod: &str) -> Pod {
    plane.expect::<Pod>(pod).condition("Ready").await;
    plane.expect::<Pod>(pod).exists().await
}

#[tokio::test]
async fn a_snapshot_contains_the_pod_and_is_owned_by_the_task() {
    let plane = plane().await;
    let _operator = plane.run(operator());
    let pod = plane.create(fixtures::pod("web")).await;
    runs(&plane, "web").await;
    plane.create(task(TaskAction::Snapshot, "web")).await;
    let done = ends(&plane, Phase::Succeeded).await;
    assert_eq!((done.target_uid, done.failures), (pod.uid(), 0));
    assert!(done.start_time.is_some() && done.completion_time.is_some());
    let map = plane.expect::<ConfigMap>(&done.snapshot.unwrap()).exists().await;
    let kept: Pod = serde_json::from_str(&map.data.as_ref().unwrap()["pod.json"]).unwrap();
    assert_eq!((kept.uid(), kept.status.unwrap().phase.as_deref()), (pod.uid(), Some("Running")));
    plane.api::<PodTask>().delete("task", &DeleteParams::default()).await.unwrap();
    plane.expect::<ConfigMap>(&map.name_any()).gone().await;
}

#[tokio::test]
async fn a_deleted_snapshot_is_not_recreated() {
    let plane = plane().await;
    let _operator = plane.run(operator());
    plane.create(fixtures::pod("web")).await;
    runs(&plane, "web").await;
    plane.create(task(TaskAction::Snapshot, "web")).await;
    let name = ends(&plane, Phase::Succeeded).await.snapshot.unwrap();
    plane.api::<ConfigMap>().delete(&name, &DeleteParams::default()).await.unwrap();
    plane.advance(Duration::from_secs(3600)).await;
    assert!(plane.api::<ConfigMap>().get_opt(&name).await.unwrap().is_none(), "a task must run once");
}

#[tokio::test]
async fn a_pod_without_a_controller_is_recreated() {
    let plane = plane().await;
    let _operator = plane.run(operator());
    plane.create(fixtures::pod("web").labelled("tier", "front")).await;
    let before = runs(&plane, "web").await;
    plane.create(task(TaskAction::Restart, "web")).await;
    let done = ends(&plane, Phase::Succeeded).await;
    assert_eq!(done.message, "recreated pod web");
    let after = runs(&plane, "web").await;
    assert_ne!(before.uid(), after.uid());
    assert_eq!(after.labels()["tier"], "front");
    eventually("nothing is left behind", async || {
        let maps = plane.api::<ConfigMap>().list(&ListParams::default().labels("ops.windlass.dev/podtask")).await;
        maps.unwrap().items.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_pod_of_a_deployment_is_replaced_by_its_controller() {
    let plane = plane().await;
    let _operator = plane.run(operator());
    plane.create(fixtures::deployment("web", 1)).await;
    plane.expect::<Deployment>("web").condition("Available").await;
    let pods = plane.api::<Pod>();
    let pod = pods.list(&ListParams::default()).await.unwrap().items.pop().unwrap();
    plane.create(task(TaskAction::Restart, &pod.name_any())).await;
    let done = ends(&plane, Phase::Succeeded).await;
    assert!(done.message.ends_with("its controller replaces it"), "{}", done.message);
    eventually("there is another pod", async || {
        let now = pods.list(&ListParams::default()).await.unwrap().items;
        (now.len() == 1 && now[0].uid() != pod.uid()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_task_without_its_pod_is_retried_and_then_fails() {
    let plane = plane().await;
    let _operator = plane.run(operator());
    plane.create(task(TaskAction::Snapshot, "ghost")).await;
    let given_up = ends(&plane, Phase::Failed).await;
    assert_eq!((given_up.failures, given_up.message.as_str()), (3, "pod ghost not found"));
    let waited = given_up.completion_time.unwrap().0.as_second();
    let made = plane.expect::<PodTask>("task").exists().await.creation_timestamp().unwrap().0.as_second();
    assert!((15..=20).contains(&(waited - made)), "five seconds, then ten: {}", waited - made);
    plane.expect::<PodTask>("task").condition_for("Ready", "False", "Failed").await;
    plane.expect::<PodTask>("task").event("Failed").await;
}

#[tokio::test]
async fn a_pod_that_is_created_in_time_is_found() {
    let plane = plane().await;
    let _operator = plane.run(operator());
    plane.create(task(TaskAction::Snapshot, "late")).await;
    plane.expect::<PodTask>("task").condition_for("Ready", "False", "Retrying").await;
    plane.create(fixtures::pod("late")).await;
    assert_eq!(ends(&plane, Phase::Succeeded).await.failures, 1);
}

#[tokio::test]
async fn a_finished_task_is_deleted_after_its_ttl() {
    let plane = plane().await;
    let _operator = plane.run(operator());
    plane.create(fixtures::pod("web")).await;
    runs(&plane, "web").await;
    let mut brief = task(TaskAction::Snapshot, "web");
    brief.spec.ttl_seconds_after_finished = Some(3600);
    plane.create(brief).await;
    ends(&plane, Phase::Succeeded).await;
    plane.advance(Duration::from_secs(3000)).await;
    plane.expect::<PodTask>("task").exists().await;
    plane.advance(Duration::from_secs(700)).await;
    plane.expect::<PodTask>("task").gone().await;
}

#[tokio::test]
async fn specs_are_immutable_and_validated() {
    let plane = plane().await;
    let tasks = plane.api::<PodTask>();
    plane.create(task(TaskAction::Snapshot, "web")).await;
    let other = Patch::Merge(json!({"spec": {"target": "db"}}));
    let kube::Error::Api(rejected) = tasks.patch("task", &PatchParams::default(), &other).await.unwrap_err() else {
        panic!("the server must reject it")
    };
    assert_eq!(rejected.code, 422, "{}", rejected.message);
    let explode = Patch::Merge(json!({"spec": {"action": "explode"}}));
    let kube::Error::Api(rejected) = tasks.patch("task", &PatchParams::default(), &explode).await.unwrap_err() else {
        panic!("the server must reject it")
    };
    assert!(rejected.message.contains("spec.action"), "{}", rejected.message);
}

#[tokio::test]
async fn a_restart_continues_with_another_operator_and_waits_for_finalizers() {
    let plane = plane().await;
    let first = plane.run(operator());
    plane.create(fixtures::pod("web").finalized("example.com/hold")).await;
    let before = runs(&plane, "web").await;
    plane.create(task(TaskAction::Restart, "web")).await;
    plane.expect::<Pod>("web").to("be terminating", |pod| pod.metadata.deletion_timestamp.is_some()).await;
    first.stop().await.unwrap();
    let _second = plane.run(operator());
    plane.expect::<PodTask>("task").to("wait", |task| status(task).phase == Phase::Running).await;
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    plane.api::<Pod>().patch("web", &PatchParams::default(), &free).await.unwrap();
    ends(&plane, Phase::Succeeded).await;
    assert_ne!(runs(&plane, "web").await.uid(), before.uid());
}
