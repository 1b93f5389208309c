//! Cron jobs, in days that pass at once.

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

/// A cron job and what it makes, as a test sees them.
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

    /// Lets the pods of the running jobs succeed.
    async fn succeed(&self) {
        let patch = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        for pod in self.pods.list(&ListParams::default()).await.unwrap() {
            let name = pod.metadata.name.as_deref().unwrap();
            self.pods.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
        }
    }
}

/// Only the loops that matter: the others would live through all these hours, too.
fn controllers() -> Selection {
    "job-controller,cronjob-controller".parse().unwrap()
}

async fn plane() -> TestPlane {
    TestPlane::builder().controllers(controllers()).virtual_time().await
}

/// Sleeps until a minute of the hour has come and the loops have dealt with it.
async fn until_minute(minute: i64) {
    until(minute * 60, 3600).await;
}

/// The same of a second of a period.
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
async fn runs_may_overlap_if_that_is_allowed() {
    check_policy("Allow", 3).await;
}

#[tokio::test]
async fn runs_wait_for_each_other_if_they_must_not_overlap() {
    check_policy("Forbid", 1).await;
}

#[tokio::test]
async fn a_run_takes_the_place_of_the_one_before_if_it_is_to() {
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
async fn a_run_that_was_forbidden_starts_when_it_may() {
    check_forbidden(json!(null), 2).await;
}

#[tokio::test]
async fn a_run_that_was_forbidden_for_too_long_does_not_start() {
    check_forbidden(json!(60), 1).await;
}

#[tokio::test]
async fn a_suspended_one_starts_nothing_and_makes_up_for_the_newest() {
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
async fn a_schedule_is_of_its_zone_and_a_changed_one_counts_from_its_next_time_on() {
    let plane = plane().await;
    let bench = Bench::new(&plane);
    // Whatever the time is, seven o'clock is far away from now on.
    until(12 * 3600, 86_400).await;
    bench.create(json!({"schedule": "30 12 * * *", "timeZone": "Asia/Kolkata"})).await;
    tokio::time::sleep(Duration::from_secs(24 * HOUR)).await;
    let jobs = bench.jobs().await;
    assert_eq!(jobs.len(), 1);
    // Half past twelve there is seven o'clock in UTC.
    let annotation = &jobs[0].metadata.annotations.as_ref().unwrap()[SCHEDULED];
    assert!(annotation.ends_with("T12:30:00+05:30"), "{annotation}");
    let scheduled: Timestamp = annotation.parse().unwrap();
    assert_eq!(scheduled.as_second() % 86_400, 7 * 3600);
    bench.succeed().await;
    until_minute(50).await;
    // It would have been due since.
    bench.change(json!({"schedule": "10 * * * *"})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.jobs().await.len(), 1);
    until_minute(40).await;
    assert_eq!(bench.jobs().await.len(), 2);
}

#[tokio::test]
async fn a_job_that_is_deleted_is_not_active_any_more() {
    let plane = plane().await;
    let bench = Bench::new(&plane);
    bench.create(json!({"schedule": "0 * * * *"})).await;
    until_minute(0).await;
    let job = bench.jobs().await.pop().unwrap();
    assert_eq!(bench.status().await["active"][0]["name"].as_str(), job.metadata.name.as_deref());
    bench.jobs.delete(job.metadata.name.as_deref().unwrap(), &DeleteParams::background()).await.unwrap();
    eventually("it is forgotten", async || bench.status().await["active"].is_null().then_some(())).await;
    // Its time is over: it is not made again.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(bench.jobs().await.is_empty());
}

#[tokio::test]
async fn a_restart_makes_up_for_one_run_and_makes_none_twice() {
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
    // As if it had stopped before it wrote down what it had started.
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
