//! The existing Jobs: which are active, and which can be pruned.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::{Job, JobSpec},
    core::v1::{Container, PodSpec, PodTemplateSpec},
};
use kube::{ResourceExt, api::ObjectMeta};

use crate::api::cron_tab::{CronTab, CronTabSpec};

/// Label with the name of the CronTab that a Job belongs to.
pub const LABEL: &str = "stable.example.com/crontab";

/// Returns the name of the run of a scheduled time. It is derived from the time, so that no run starts twice.
pub fn job_name(crontab: &str, time: Timestamp) -> String {
    format!("{crontab}-{}", time.as_second() / 60)
}

/// Returns the Job for a scheduled time.
pub fn job(crontab: &CronTab, time: Timestamp) -> Job {
    let spec = &crontab.spec;
    let labels = BTreeMap::from([(LABEL.to_owned(), crontab.name_any())]);
    let container = Container { name: "main".to_owned(), image: Some(spec.image.clone()), ..Container::default() };
    let pod =
        PodSpec { containers: vec![container], restart_policy: Some("OnFailure".to_owned()), ..PodSpec::default() };
    Job {
        metadata: ObjectMeta {
            name: Some(job_name(&crontab.name_any(), time)),
            labels: Some(labels.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(JobSpec {
            parallelism: Some(spec.replicas),
            completions: Some(spec.replicas),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
                spec: Some(pod),
            },
            ..JobSpec::default()
        }),
        ..Job::default()
    }
}

/// The Jobs of a CronTab, grouped by state.
#[derive(Default)]
pub struct Runs {
    /// Jobs that are still active, oldest first.
    pub active: Vec<Arc<Job>>,
    /// Finished Jobs beyond the history limits.
    pub expired: Vec<Arc<Job>>,
    /// Completion time of the last successful Job.
    pub last_success: Option<Timestamp>,
    /// Number of running pods.
    pub replicas: i32,
}

impl Runs {
    /// Groups the Jobs of a CronTab.
    pub fn new(spec: &CronTabSpec, mut jobs: Vec<Arc<Job>>) -> Self {
        // Newest first.
        jobs.sort_by_key(|job| std::cmp::Reverse((job.metadata.creation_timestamp.clone(), job.name_any())));
        let mut runs = Self::default();
        let (mut succeeded, mut failed) = (spec.successful_history_limit, spec.failed_history_limit);
        for job in jobs {
            let left = match outcome(&job) {
                None => {
                    runs.replicas += job.status.as_ref().and_then(|status| status.active).unwrap_or(0);
                    runs.active.push(job);
                    continue;
                }
                Some("Complete") => {
                    let ended = job.status.as_ref().and_then(|status| status.completion_time.as_ref());
                    runs.last_success = runs.last_success.max(ended.map(|time| time.0));
                    &mut succeeded
                }
                Some(_) => &mut failed,
            };
            *left -= 1;
            if *left < 0 && job.metadata.deletion_timestamp.is_none() {
                runs.expired.push(job);
            }
        }
        runs.active.reverse();
        runs
    }
}

/// Returns `Complete` or `Failed`, or `None` while the Job is active.
fn outcome(job: &Job) -> Option<&str> {
    let mut conditions = job.status.as_ref()?.conditions.as_ref()?.iter();
    let over = |kind: &str| matches!(kind, "Complete" | "Failed");
    Some(conditions.find(|condition| over(&condition.type_) && condition.status == "True")?.type_.as_str())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        api::batch::v1::{JobCondition, JobStatus},
        apimachinery::pkg::apis::meta::v1::Time,
    };
    use serde_json::json;

    use super::*;

    fn run(name: &str, second: i64, outcome: Option<&str>) -> Arc<Job> {
        let time = Time(Timestamp::from_second(second).unwrap());
        let condition =
            |kind: &str| JobCondition { type_: kind.to_owned(), status: "True".to_owned(), ..JobCondition::default() };
        let mut job = Job::default();
        job.metadata.name = Some(name.to_owned());
        job.metadata.creation_timestamp = Some(time.clone());
        job.status = Some(JobStatus {
            active: outcome.is_none().then_some(2),
            completion_time: (outcome == Some("Complete")).then_some(time),
            conditions: outcome.map(|kind| vec![condition(kind)]),
            ..JobStatus::default()
        });
        Arc::new(job)
    }

    #[test]
    fn the_oldest_finished_runs_are_dropped_for_each_outcome() {
        let spec = json!({"cronSpec": "* * * * *", "image": "a", "successfulHistoryLimit": 1, "failedHistoryLimit": 0});
        let jobs = vec![
            run("old", 1, Some("Complete")),
            run("new", 5, Some("Complete")),
            run("bad", 3, Some("Failed")),
            run("b", 7, None),
            run("a", 6, None),
        ];
        let runs = Runs::new(&serde_json::from_value(spec).unwrap(), jobs);
        let names = |jobs: &[Arc<Job>]| jobs.iter().map(|job| job.name_any()).collect::<Vec<_>>();
        assert_eq!(names(&runs.active), ["a", "b"]);
        assert_eq!(names(&runs.expired), ["bad", "old"]);
        assert_eq!((runs.last_success.map(Timestamp::as_second), runs.replicas), (Some(5), 4));
    }
}
