//! Creates jobs on a schedule.
//!
//! A job is named after its scheduled minute, so that it is not created twice after a crash. Of several missed runs,
//! only the latest is started.

mod history;
mod schedule;

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job},
        core::v1::ObjectReference,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::core::ObjectMeta;
use parking_lot::Mutex;
use windlass::{
    Result,
    context::Context,
    controller::{Action, Reconciler},
    key::ObjectKey,
    objects::owner,
    operator::Operator,
};

use self::{
    history::too_old,
    schedule::{Due, Times, Unusable},
};
use super::{ClusterCertificates, job::ended_with};
use crate::errors::server_message;

/// Annotation with the scheduled time of a job.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let loop_ = CronJobs::default();
    let schedules = loop_.schedules.clone();
    let remove = move |key, _ctx| {
        schedules.lock().remove(&key);
        std::future::ready(Ok(()))
    };
    let controller = super::controller::<CronJob>("cronjob-controller", loop_);
    operator.controller(controller.owns::<Job>().on_deleted(remove).concurrency(5))
}

/// A schedule as written, and its time zone.
type ZonedSchedule = (String, Option<String>);

/// The reconciler, with the schedules it follows.
#[derive(Default)]
struct CronJobs {
    /// The schedule of each cron job at its last reconciliation. A changed schedule applies from its next time on.
    schedules: Arc<Mutex<HashMap<ObjectKey, ZonedSchedule>>>,
}

impl Reconciler<CronJob> for CronJobs {
    async fn reconcile(&self, job: Arc<CronJob>, ctx: Context) -> Result<Action> {
        let now = windlass_clock::now();
        if self.has_new_schedule(&job) {
            return Ok(again(Times::of(&job).ok().and_then(|times| times.next(now))));
        }
        let jobs: Vec<Arc<Job>> = ctx.owned::<Job, CronJob>(&job)?;
        let mut sync = CronJobSync { job: Arc::unwrap_or_clone(job), changed: false, now, ctx };
        sync.clean_up(&jobs).await;
        let outcome = sync.run(&jobs).await;
        if sync.changed {
            sync.ctx.update_status(sync.job).await?;
        }
        outcome
    }
}

impl CronJobs {
    fn has_new_schedule(&self, job: &CronJob) -> bool {
        let schedule = (job.spec.schedule.clone(), job.spec.time_zone.clone());
        let before = self.schedules.lock().insert(ObjectKey::of(job), schedule.clone());
        before.is_some_and(|before| before != schedule)
    }
}

/// One reconciliation of a cron job.
struct CronJobSync {
    /// Its status changes on the way.
    job: CronJob,
    changed: bool,
    now: Timestamp,
    ctx: Context,
}

impl CronJobSync {
    fn spec(&self) -> &CronJobSpec {
        &self.job.spec
    }

    fn status(&mut self) -> &mut CronJobStatus {
        self.job.status.get_or_insert_default()
    }

    fn active(&self) -> &[ObjectReference] {
        self.job.status.as_ref().and_then(|status| status.active.as_deref()).unwrap_or_default()
    }

    fn is_active(&self, uid: Option<&String>) -> bool {
        self.active().iter().any(|active| active.uid.as_ref() == uid)
    }

    fn remove_active(&mut self, uid: Option<&String>) {
        self.status().active.iter_mut().for_each(|active| active.retain(|one| one.uid.as_ref() != uid));
        if self.active().is_empty() {
            self.status().active = None;
        }
        self.changed = true;
    }

    /// Deletes finished jobs beyond the history limits, oldest first.
    async fn clean_up(&mut self, jobs: &[Arc<Job>]) {
        let limits = [
            ("Complete", self.spec().successful_jobs_history_limit),
            ("Failed", self.spec().failed_jobs_history_limit),
        ];
        for (end, limit) in limits {
            let Some(limit) = limit else { continue };
            for job in too_old(jobs, end, limit) {
                self.delete(&job).await;
            }
        }
    }

    /// Deletes a job. Returns whether it succeeded.
    async fn delete(&mut self, job: &Arc<Job>) -> bool {
        match self.ctx.delete(job).await {
            Ok(()) => {
                self.remove_active(job.metadata.uid.as_ref());
                self.ctx.event(&self.job).normal("SuccessfulDelete", &format!("Deleted job {}", name(job)));
                true
            }
            Err(error) => {
                self.ctx.event(&self.job).warning("FailedDelete", &format!("Deleted job: {}", server_message(&error)));
                false
            }
        }
    }

    async fn run(&mut self, jobs: &[Arc<Job>]) -> Result<Action> {
        self.follow(jobs);
        self.miss(jobs).await?;
        if self.job.metadata.deletion_timestamp.is_some() {
            return Ok(Action::done());
        }
        let suspended = self.spec().suspend == Some(true);
        let times = match Times::of(&self.job) {
            // An invalid schedule of a suspended cron job is not reported.
            Err(Unusable(reason, _)) if suspended && reason != "UnknownTimeZone" => return Ok(Action::done()),
            Err(unusable) => return Ok(self.complain(&unusable)),
            Ok(_) if suspended => return Ok(Action::done()),
            Ok(times) => times,
        };
        if self.spec().schedule.contains("TZ") {
            let schedule = &self.spec().schedule;
            let message = format!(
                "CRON_TZ or TZ used in schedule {schedule:?} is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            );
            self.ctx.event(&self.job).warning("UnsupportedSchedule", &message);
        }
        match times.due(self.now) {
            Err(unusable) => Ok(self.complain(&unusable)),
            Ok(None) => Ok(again(times.next(self.now))),
            Ok(Some(due)) => self.start(&due, times).await,
        }
    }

    /// Records jobs that have finished.
    fn follow(&mut self, jobs: &[Arc<Job>]) {
        for job in jobs {
            let found = self.is_active(job.metadata.uid.as_ref());
            let Some(end) = ended_with(job) else {
                if !found {
                    let message = format!("Saw a job that the controller did not create or forgot: {}", name(job));
                    self.ctx.event(&self.job).warning("UnexpectedJob", &message);
                }
                continue;
            };
            if found {
                self.remove_active(job.metadata.uid.as_ref());
                let message = format!("Saw completed job: {}, condition: {end}", name(job));
                self.ctx.event(&self.job).normal("SawCompletedJob", &message);
            }
            let completed = job.status.as_ref().and_then(|status| status.completion_time.as_ref());
            if end == "Complete"
                && let Some(completed) = completed
                && self.status().last_successful_time.as_ref().is_none_or(|last| last.0 < completed.0)
            {
                self.status().last_successful_time = Some(completed.clone());
                self.changed = true;
            }
        }
    }

    /// Records active jobs that no longer exist.
    async fn miss(&mut self, jobs: &[Arc<Job>]) -> Result<()> {
        for active in self.active().to_vec() {
            if jobs.iter().any(|job| job.metadata.uid == active.uid) {
                continue;
            }
            // The cache may not have it yet.
            let key = key_of(&active);
            if self.ctx.live().get::<Job>(&key).await?.is_none() {
                self.ctx.event(&self.job).normal("MissingJob", &format!("Active job went missing: {}", key.name()));
                self.remove_active(active.uid.as_ref());
            }
        }
        Ok(())
    }

    fn complain(&self, Unusable(reason, message): &Unusable) -> Action {
        self.ctx.event(&self.job).warning(reason, message);
        Action::done()
    }

    /// Starts the job that is due, unless the deadline or the concurrency policy prevents it.
    async fn start(&mut self, due: &Due, times: Times) -> Result<Action> {
        if due.many_missed {
            let message =
                "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            self.ctx.event(&self.job).warning("TooManyMissedTimes", message);
        }
        let next = again(times.next(self.now));
        if due.too_late {
            let time = due.at.strftime("%a, %d %b %Y %H:%M:%S +0000");
            let message = format!("Missed scheduled time to start a job: {time}");
            self.ctx.event(&self.job).warning("MissSchedule", &message);
            return Ok(next);
        }
        let wanted = self.made_for(due.at, &times)?;
        let last = self.job.status.as_ref().and_then(|status| status.last_schedule_time.as_ref());
        let started = self.active().iter().any(|active| active.name == wanted.metadata.name);
        if started || last.is_some_and(|last| last.0 == due.at) {
            return Ok(next);
        }
        match self.spec().concurrency_policy.as_deref() {
            Some("Forbid") if !self.active().is_empty() => {
                let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
                self.ctx.event(&self.job).normal("JobAlreadyActive", message);
                return Ok(next);
            }
            Some("Replace") => self.replace().await?,
            _ => {}
        }
        let Some(made) = self.make(wanted).await? else { return Ok(Action::done()) };
        let reference = ObjectReference {
            resource_version: made.metadata.resource_version.clone(),
            ..kube::Resource::object_ref(&*made, &())
        };
        self.status().active.get_or_insert_default().push(reference);
        self.status().last_schedule_time = Some(Time(due.at));
        self.changed = true;
        Ok(again(times.after(due.at).next(self.now)))
    }

    /// Deletes the active jobs.
    async fn replace(&mut self) -> Result<()> {
        for active in self.active().to_vec() {
            let key = key_of(&active);
            let Some(job) = self.ctx.live().get::<Job>(&key).await? else {
                let message = format!("Get job: jobs.batch {:?} not found", key.name());
                self.ctx.event(&self.job).warning("FailedGet", &message);
                return Err(windlass::Error::new(message));
            };
            if !self.delete(&Arc::new(job)).await {
                return Err(windlass::Error::new(format!("failed to delete job {key} for its replacement")));
            }
        }
        Ok(())
    }

    /// Creates a job, or finds one that was created but not recorded. Returns `None` if it has another owner or is
    /// already recorded.
    async fn make(&mut self, wanted: Job) -> Result<Option<Arc<Job>>> {
        let key = ObjectKey::of(&wanted);
        match self.ctx.create(wanted).await {
            Ok(made) => {
                self.ctx.event(&self.job).normal("SuccessfulCreate", &format!("Created job {}", name(&made)));
                Ok(Some(made))
            }
            Err(error) if error.is_already_exists() => {
                let present = self.ctx.live().get::<Job>(&key).await?;
                let ours =
                    |job: &Job| owner::is_controlled_by(job, &self.job) && !self.is_active(job.metadata.uid.as_ref());
                Ok(present.filter(ours).map(Arc::new))
            }
            Err(error) => {
                if !error.is_namespace_terminating() {
                    let message = format!("Error creating job: {}", server_message(&error));
                    self.ctx.event(&self.job).warning("FailedCreate", &message);
                }
                Err(error.into())
            }
        }
    }

    /// The job for a scheduled time.
    fn made_for(&self, time: Timestamp, times: &Times) -> Result<Job> {
        let template = &self.spec().job_template;
        let from = template.metadata.clone().unwrap_or_default();
        let mut annotations = from.annotations.unwrap_or_default();
        annotations.insert(SCHEDULED.to_owned(), times.written(time));
        let minute = time.as_second().div_euclid(60);
        let metadata = ObjectMeta {
            name: Some(format!("{}-{minute}", self.job.metadata.name.as_deref().unwrap_or_default())),
            namespace: self.job.metadata.namespace.clone(),
            labels: from.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![owner::controller_reference(&self.job)?]),
            ..ObjectMeta::default()
        };
        Ok(Job { metadata, spec: template.spec.clone(), status: None })
    }
}

fn again(delay: Option<std::time::Duration>) -> Action {
    delay.map_or_else(Action::done, Action::requeue_after)
}

fn name(job: &Job) -> &str {
    job.metadata.name.as_deref().unwrap_or_default()
}

fn key_of(reference: &ObjectReference) -> ObjectKey {
    let (namespace, name) = (reference.namespace.as_deref(), reference.name.as_deref());
    ObjectKey::namespaced(namespace.unwrap_or_default(), name.unwrap_or_default())
}
