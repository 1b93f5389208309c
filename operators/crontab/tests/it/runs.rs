//! Runs of CronTabs, in virtual time.

use std::time::Duration;

use crontab_operator::{
    api::cron_tab::{CronTab, CronTabStatus},
    operator::operator,
    runs::LABEL,
};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use windlass_testing::{TestPlane, eventually};

const MINUTE: Duration = Duration::from_secs(60);

fn crontab(spec: Value) -> CronTab {
    let mut full = json!({"image": "registry.example.com/app:1"});
    full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    CronTab::new("nightly", serde_json::from_value(full).unwrap())
}

/// With nodes, Jobs complete by themselves; without, they run forever.
async fn plane(nodes: usize) -> TestPlane {
    TestPlane::builder().nodes(nodes).virtual_time().with_crd::<CronTab>().await
}

async fn jobs(plane: &TestPlane) -> Vec<Job> {
    plane.api::<Job>().list(&ListParams::default().labels(LABEL)).await.unwrap().items
}

fn status(crontab: &CronTab) -> CronTabStatus {
    crontab.status.clone().unwrap_or_default()
}

async fn merge(plane: &TestPlane, patch: Value) {
    plane.api::<CronTab>().patch("nightly", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

#[tokio::test]
async fn a_day_of_hourly_runs_leaves_three_of_them() {
    let plane = plane(1).await;
    let _operator = plane.run(operator());
    plane.create(crontab(json!({"cronSpec": "0 * * * *", "replicas": 2}))).await;
    plane.expect::<CronTab>("nightly").condition("Ready").await;
    plane.advance(24 * 60 * MINUTE).await;
    eventually("the last run has ended", async || {
        let crontab = plane.api::<CronTab>().get("nightly").await.unwrap();
        (status(&crontab).active.is_empty() && status(&crontab).last_successful_time.is_some()).then_some(())
    })
    .await;
    let jobs = jobs(&plane).await;
    assert_eq!(jobs.len(), 3, "three successful runs are kept");
    assert!(jobs.iter().all(|job| job.status.as_ref().unwrap().succeeded == Some(2)));
    let events = plane.expect::<CronTab>("nightly").event("Started").await;
    assert!(events.note.unwrap().starts_with("created nightly-"));
}

#[tokio::test]
async fn missed_runs_are_made_up_for_by_one_run() {
    let plane = plane(0).await;
    let first = plane.run(operator());
    plane.create(crontab(json!({"cronSpec": "*/10 * * * *"}))).await;
    plane.expect::<CronTab>("nightly").condition("Ready").await;
    first.stop().await.unwrap();
    plane.advance(60 * MINUTE).await;
    let _second = plane.run(operator());
    plane.expect::<CronTab>("nightly").event("MissedRuns").await;
    plane.expect::<CronTab>("nightly").to("have one run", |crontab| status(crontab).active.len() == 1).await;
    assert_eq!(jobs(&plane).await.len(), 1);
}

#[tokio::test]
async fn a_forbidden_run_waits_and_a_replacing_run_does_not() {
    let plane = plane(0).await;
    let _operator = plane.run(operator());
    plane.create(crontab(json!({"cronSpec": "* * * * *", "concurrencyPolicy": "Forbid"}))).await;
    plane.advance(5 * MINUTE).await;
    plane.expect::<CronTab>("nightly").event("StillRunning").await;
    let only = jobs(&plane).await;
    assert_eq!(only.len(), 1);
    merge(&plane, json!({"spec": {"concurrencyPolicy": "Replace"}})).await;
    plane.advance(2 * MINUTE).await;
    plane.expect::<CronTab>("nightly").event("Replaced").await;
    let name = only[0].metadata.name.clone().unwrap();
    plane.expect::<Job>(&name).gone().await;
    eventually("one run is left", async || (jobs(&plane).await.len() == 1).then_some(())).await;
}

#[tokio::test]
async fn a_deleted_run_is_not_started_again_and_a_suspended_crontab_starts_none() {
    let plane = plane(0).await;
    let _operator = plane.run(operator());
    plane.create(crontab(json!({"cronSpec": "0 * * * *"}))).await;
    plane.advance(60 * MINUTE).await;
    let run = eventually("a run has begun", async || jobs(&plane).await.pop()).await;
    merge(&plane, json!({"spec": {"suspend": true}})).await;
    plane.api::<Job>().delete(run.metadata.name.as_deref().unwrap(), &DeleteParams::background()).await.unwrap();
    plane.expect::<CronTab>("nightly").condition_for("Ready", "False", "Suspended").await;
    plane.advance(180 * MINUTE).await;
    assert!(jobs(&plane).await.is_empty());
    assert!(status(&plane.expect::<CronTab>("nightly").exists().await).active.is_empty());
}

#[tokio::test]
async fn an_invalid_schedule_is_reported_and_can_be_corrected() {
    let plane = plane(0).await;
    let _operator = plane.run(operator());
    plane.create(crontab(json!({"cronSpec": "every day"}))).await;
    let condition = plane.expect::<CronTab>("nightly").condition_for("Ready", "False", "InvalidSchedule").await;
    assert!(condition.message.contains("expected exactly 5 fields"), "{}", condition.message);
    merge(&plane, json!({"spec": {"cronSpec": "@daily"}})).await;
    plane.expect::<CronTab>("nightly").condition("Ready").await;
    let crontabs = plane.api::<CronTab>();
    let rejected = crontabs.create(&Default::default(), &crontab(json!({"cronSpec": "", "replicas": 0}))).await;
    let kube::Error::Api(rejected) = rejected.unwrap_err() else { panic!("the server must reject it") };
    assert!(rejected.message.contains("spec.cronSpec") && rejected.message.contains("spec.replicas"), "{rejected:?}");
}

#[tokio::test]
async fn no_run_outlives_its_crontab() {
    let plane = plane(0).await;
    let _operator = plane.run(operator());
    plane.create(crontab(json!({"cronSpec": "* * * * *"}))).await;
    plane.advance(2 * MINUTE).await;
    eventually("runs are active", async || (jobs(&plane).await.len() >= 2).then_some(())).await;
    plane.api::<CronTab>().delete("nightly", &DeleteParams::default()).await.unwrap();
    plane.expect::<CronTab>("nightly").gone().await;
    assert!(jobs(&plane).await.is_empty());
    let pods: Api<Pod> = plane.api();
    let staying = pods.list(&ListParams::default()).await.unwrap();
    assert!(staying.items.iter().all(|pod| pod.metadata.deletion_timestamp.is_some()), "their pods are deleted");
}
