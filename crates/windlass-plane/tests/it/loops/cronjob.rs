//! Cron jobs, in virtual time.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::{CronJob, Job},
    core::v1::Pod,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_plane::{LoopOptions, Loops, Selection};
use windlass_testing::{TestCluster, TestPlane, eventually};

const HOUR: u64 = 3600;
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// A cron job and its jobs.
struct Bench {
    cron_jobs: Api<CronJob>,
    jobs: Api<Job>,
    pods: Api<Pod>,
}

impl Bench {
    fn new(cluster: &TestCluster) -> Self {
        Self { cron_jobs: cluster.api(), jobs: cluster.api(), pods: cluster.api() }
    }

    async fn create(&self, spec: Value) {
        let pod = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]});
        let metadata = json!({"labels": {"made": "here"}, "annotations": {"a": "b"}});
        let template = json!({"metadata": metadata, "spec": {"template": {"spec": pod}}});
        let mut full = json!({"jobTemplate": template});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let job = serde_json::from_value(json!({"metadata": {"name": "cron"}, "spec": full})).unwrap();
        self.cron_jobs.create(&PostParams::default(), &job).await.unwrap();
    }

    async fn change(&self, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.cron_jobs.patch("cron", &PatchParams::default(), &patch).await.unwrap();
    }

    async fn jobs(&self) -> Vec<Job> {
        let mut jobs = self.jobs.list(&ListParams::default()).await.unwrap().items;
        jobs.retain(|job| job.metadata.deletion_timestamp.is_none());
        jobs.sort_by_key(|job| job.metadata.name.clone());
        jobs
    }

    async fn status(&self) -> Value {
        serde_json::to_value(self.cron_jobs.get("cron").await.unwrap().status.unwrap_or_default()).unwrap()
    }

    /// Makes the pods of the running jobs succeed.
    async fn succeed(&self) {
        let patch = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        for pod in self.pods.list(&ListParams::default()).await.unwrap() {
            let name = pod.metadata.name.as_deref().unwrap();
            self.pods.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
        }
    }
}

/// Only the loops under test: the others would also run through all these hours.
fn controllers() -> Selection {
    "job-controller,cronjob-controller".parse().unwrap()
}

async fn plane() -> TestPlane {
    TestPlane::builder().controllers(controllers()).virtual_time().await
}

/// Sleeps until a minute of the hour, and until the loops have handled it.
async fn until_minute(minute: i64) {
    until(minute * 60, 3600).await;
}

/// Sleeps until a second of a period.
async fn until(second: i64, period: i64) {
    let left = (second - windlass_clock::now().as_second()).rem_euclid(period);
    tokio::time::sleep(Duration::from_secs(u64::try_from(left).unwrap() + 5)).await;
}

#[tokio::test]
async fn an_hourly_job_runs_all_day_and_keeps_its_history() {
    let plane = plane().await;
    let bench = Bench::new(&plane);
    bench.create(json!({"schedule": "0 * * * *", "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1})).await;
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..24 {
        until_minute(0).await;
        let jobs = bench.jobs().await;
        let running: Vec<_> =
            jobs.iter().filter(|job| job.status.as_ref().unwrap().completion_time.is_none()).collect();
        assert_eq!(running.len(), 1);
        names.insert(running[0].metadata.name.clone());
        bench.succeed().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(bench.jobs().await.len() <= 3);
    }
    assert_eq!(names.len(), 24);
    let status = bench.status().await;
    assert_eq!(status["active"], Value::Null);
    let last: Timestamp = status["lastScheduleTime"].as_str().unwrap().parse().unwrap();
    let minute = last.as_second() / 60;
    assert_eq!(minute % 60, 0);
    assert_eq!(names.last().unwrap().as_deref(), Some(format!("cron-{minute}").as_str()));
    assert!(status["lastSuccessfulTime"].as_str().unwrap() >= status["lastScheduleTime"].as_str().unwrap());
    let job = bench.jobs().await.pop().unwrap();
    let annotations = job.metadata.annotations.unwrap();
    assert_eq!((annotations["a"].as_str(), annotations[SCHEDULED].parse().ok()), ("b", Some(last)));
    assert_eq!(job.metadata.labels.unwrap()["made"], "here");
    assert_eq!(job.metadata.owner_references.unwrap()[0].kind, "CronJob");
}

async fn check_policy(policy: &str, running: usize) {
    let plane = plane().await;
    let bench = Bench::new(&plane);
    bench.create(json!({"schedule": "0 * * * *", "concurrencyPolicy": policy})).await;
    until_minute(0).await;
    let first = bench.jobs().await.pop().unwrap().metadata.name;
    tokio::time::sleep(Duration::from_secs(2 * HOUR)).await;
    let jobs = bench.jobs().await;
    assert_eq!(jobs.len(), running);
    assert_eq!(jobs[0].metadata.name == first, policy != "Replace");
    assert_eq!(bench.status().await["active"].as_array().unwrap().len(), running);
}

#[tokio::test]
async fn concurrency_policy_allow_lets_jobs_overlap() {
    check_policy("Allow", 3).await;
}

#[tokio::test]
async fn concurrency_policy_forbid_skips_overlapping_jobs() {
    check_policy("Forbid", 1).await;
}

#[tokio::test]
async fn concurrency_policy_replace_deletes_the_previous_job() {
    check_policy("Replace", 1).await;
}

async fn check_forbidden(deadline: Value, started: usize) {
    let plane = plane().await;
    let bench = Bench::new(&plane);
    let spec = json!({"schedule": "0 * * * *", "concurrencyPolicy": "Forbid", "startingDeadlineSeconds": deadline});
    bench.create(spec).await;
    until_minute(0).await;
    tokio::time::sleep(Duration::from_secs(HOUR + 600)).await;
    assert_eq!(bench.jobs().await.len(), 1);
    bench.succeed().await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(bench.jobs().await.len(), started);
}

#[tokio::test]
async fn a_skipped_job_starts_when_the_previous_one_has_finished() {
    check_forbidden(json!(null), 2).await;
}

#[tokio::test]
async fn a_skipped_job_does_not_start_after_its_deadline() {
    check_forbidden(json!(60), 1).await;
}

#[tokio::test]
async fn a_resumed_cron_job_starts_only_the_most_recent_missed_job() {
    let plane = plane().await;
    let bench = Bench::new(&plane);
    bench.create(json!({"schedule": "0 * * * *", "suspend": true})).await;
    tokio::time::sleep(Duration::from_secs(5 * HOUR)).await;
    assert!(bench.jobs().await.is_empty());
    until_minute(30).await;
    bench.change(json!({"suspend": false})).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let jobs = bench.jobs().await;
    assert_eq!(jobs.len(), 1);
    let scheduled: Timestamp = jobs[0].metadata.annotations.as_ref().unwrap()[SCHEDULED].parse().unwrap();
    assert_eq!(windlass_clock::now().as_second() - scheduled.as_second(), 30 * 60 + 10);
}

#[tokio::test]
async fn a_schedule_uses_its_time_zone_and_a_changed_one_starts_at_its_next_time() {
    let plane = plane().await;
    let bench = Bench::new(&plane);
    // Whatever the current time, seven o'clock is now far away.
    until(12 * 3600, 86_400).await;
    bench.create(json!({"schedule": "30 12 * * *", "timeZone": "Asia/Kolkata"})).await;
    tokio::time::sleep(Duration::from_secs(24 * HOUR)).await;
    let jobs = bench.jobs().await;
    assert_eq!(jobs.len(), 1);
    // Half past twelve in that time zone is seven o'clock UTC.
    let annotation = &jobs[0].metadata.annotations.as_ref().unwrap()[SCHEDULED];
    assert!(annotation.ends_with("T12:30:00+05:30"), "{annotation}");
    let scheduled: Timestamp = annotation.parse().unwrap();
    assert_eq!(scheduled.as_second() % 86_400, 7 * 3600);
    bench.succeed().await;
    until_minute(50).await;
    // It would have been due in the meantime.
    bench.change(json!({"schedule": "10 * * * *"})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.jobs().await.len(), 1);
    until_minute(40).await;
    assert_eq!(bench.jobs().await.len(), 2);
}

#[tokio::test]
async fn a_deleted_job_is_no_longer_active() {
    let plane = plane().await;
    let bench = Bench::new(&plane);
    bench.create(json!({"schedule": "0 * * * *"})).await;
    until_minute(0).await;
    let job = bench.jobs().await.pop().unwrap();
    assert_eq!(bench.status().await["active"][0]["name"].as_str(), job.metadata.name.as_deref());
    bench.jobs.delete(job.metadata.name.as_deref().unwrap(), &DeleteParams::background()).await.unwrap();
    eventually("the reference is removed", async || bench.status().await["active"].is_null().then_some(())).await;
    // The starting deadline has passed: the job is not created.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(bench.jobs().await.is_empty());
}

#[tokio::test]
async fn a_restarted_loop_starts_one_missed_job_and_none_twice() {
    tokio::time::pause();
    let _time = windlass_clock::virtual_time();
    let cluster = TestCluster::start().await;
    let server = cluster.server().unwrap();
    let bench = Bench::new(&cluster);
    let options = LoopOptions { controllers: controllers(), ..LoopOptions::default() };
    let loops = Loops::start(server, &options);
    bench.create(json!({"schedule": "0 * * * *"})).await;
    until_minute(0).await;
    assert_eq!(bench.jobs().await.len(), 1);
    loops.stop().await;
    // As if the loop had stopped before recording the job that it had started.
    let forgotten = Patch::Merge(json!({"status": {"active": null, "lastScheduleTime": null}}));
    bench.cron_jobs.patch_status("cron", &PatchParams::default(), &forgotten).await.unwrap();
    let loops = Loops::start(server, &options);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.jobs().await.len(), 1);
    assert_eq!(bench.status().await["active"].as_array().unwrap().len(), 1);
    loops.stop().await;
    tokio::time::sleep(Duration::from_secs(5 * HOUR)).await;
    let _loops = Loops::start(server, &options);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.jobs().await.len(), 2);
}
