//! A job and its pods as observed: counters, and whether the job has to finish.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        batch::v1::{Job, JobCondition, JobSpec, JobStatus},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use windlass_schema::sorting::Gather as _;

use super::{
    backoff::{Failures, finished_at},
    conditions::{condition, holding, renamed},
    indexes::Indexes,
    policy::{self, Failure, judge},
};
use crate::pods::{is_active, is_ready, is_terminating, phase};

/// Finalizer of pods that are not counted yet.
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// Annotation with the index of a pod.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Annotations with the failures of a pod's index before it: counted and ignored ones.
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
pub(super) const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The observed state of a job.
pub(super) struct View {
    /// The job; its status changes on the way.
    pub(super) job: Job,
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) now: Timestamp,
    /// Pods that have neither ended nor are terminating.
    pub(super) active: Vec<Arc<Pod>>,
    pub(super) ready: i32,
    pub(super) terminating: i32,
    /// All succeeded pods, counted or not.
    pub(super) succeeded: i64,
    /// The indexes of an indexed job.
    pub(super) indexed: Option<Indexed>,
    /// The failures since the last success, including these.
    pub(super) failures: Failures,
    /// The outcome of the job.
    pub(super) finished: Option<JobCondition>,
    /// Time until the active deadline of the job.
    pub(super) deadline: Option<Duration>,
}

/// The indexes of a job.
#[derive(Clone, Debug, Default)]
pub(super) struct Indexed {
    pub(super) completions: i64,
    /// The completed indexes in the status.
    pub(super) counted: Indexes,
    /// The completed indexes, including those of uncounted pods.
    pub(super) succeeded: Indexes,
    /// The failed indexes, if there is a limit per index.
    pub(super) failed: Option<Indexes>,
    /// The last failed pod of each index that needs a new one: it is kept until the new one exists, which inherits its
    /// failure count.
    pub(super) replaced: BTreeMap<i64, Arc<Pod>>,
}

impl View {
    /// Evaluates a job, its pods and its failures so far.
    pub(super) fn new(job: &Job, pods: Vec<Arc<Pod>>, failures: Failures, now: Timestamp) -> Self {
        let mut job = job.clone();
        let active: Vec<_> = pods.iter().filter(|pod| is_active(pod)).cloned().collect();
        let terminating = pods.iter().filter(|pod| is_terminating(pod) && !has_ended(pod)).count();
        let status = job.status.get_or_insert_default();
        status.uncounted_terminated_pods.get_or_insert_default();
        let mut view = Self {
            ready: count(active.iter().filter(|pod| is_ready(pod)).count()),
            terminating: count(terminating),
            succeeded: 0,
            indexed: None,
            finished: None,
            deadline: None,
            failures,
            active,
            pods,
            now,
            job,
        };
        view.count(failures);
        view
    }

    pub(super) fn spec(&self) -> &JobSpec {
        self.job.spec.as_ref().expect("a job must have a spec")
    }

    pub(super) fn status(&mut self) -> &mut JobStatus {
        self.job.status.get_or_insert_default()
    }

    /// The UIDs of succeeded and failed pods that the status lists as uncounted.
    pub(super) fn uncounted(&self) -> (BTreeSet<&str>, BTreeSet<&str>) {
        let uncounted = self.job.status.as_ref().and_then(|status| status.uncounted_terminated_pods.as_ref());
        let Some(uncounted) = uncounted else { return Default::default() };
        (
            uncounted.succeeded.iter().flatten().map(String::as_str).gather(),
            uncounted.failed.iter().flatten().map(String::as_str).gather(),
        )
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.spec().suspend == Some(true)
    }

    /// Returns whether there is a limit per index.
    pub(super) fn limits_each_index(&self) -> bool {
        self.spec().backoff_limit_per_index.is_some()
    }

    /// Returns whether pods are replaced only when they have failed, by the replacement policy or because of a failure
    /// policy.
    pub(super) fn replaces_only_failed(&self) -> bool {
        self.spec().pod_replacement_policy.as_deref() == Some("Failed") || self.spec().pod_failure_policy.is_some()
    }

    /// Returns whether a pod counts as failed. A terminating pod does, because it may never report how it ended, unless
    /// pods are replaced only when they have failed.
    pub(super) fn is_failed(&self, pod: &Pod) -> bool {
        match phase(pod) {
            "Failed" => true,
            "Succeeded" => false,
            _ => !self.replaces_only_failed() && is_terminating(pod),
        }
    }

    /// The consequence of a failed pod.
    pub(super) fn judge(&self, pod: &Pod) -> Failure {
        judge(self.spec().pod_failure_policy.as_ref(), pod)
    }

    fn count(&mut self, failures: Failures) {
        let (known_succeeded, known_failed) = self.uncounted();
        let succeeded: Vec<_> = self.uncounted_pods(&known_succeeded, |pod| phase(pod) == "Succeeded");
        let failed: Vec<_> = self.uncounted_pods(&known_failed, |pod| self.is_failed(pod));
        let counting = failed.iter().filter(|pod| self.judge(pod).counts()).count();
        let status = self.job.status.as_ref();
        let (counted_succeeded, counted_failed) = (
            status.and_then(|status| status.succeeded).unwrap_or_default(),
            status.and_then(|status| status.failed).unwrap_or_default(),
        );
        let sum = |counted: i32, known: usize, new: usize| i64::from(counted) + long(known) + long(new);
        let total_succeeded = sum(counted_succeeded, known_succeeded.len(), succeeded.len());
        let total_failed = sum(counted_failed, known_failed.len(), counting);
        self.failures = failures.with(&succeeded, &failed);
        self.succeeded = total_succeeded;
        if self.status().start_time.is_none() && !self.is_suspended() {
            self.status().start_time = Some(seconds(self.now));
        }
        self.finished = self.decided_before().or_else(|| self.fails(total_failed));
        self.look_at_indexes();
    }

    /// Pods with the finalizer and a valid index that are not in `known` and satisfy the predicate.
    fn uncounted_pods(&self, known: &BTreeSet<&str>, passes: impl Fn(&Pod) -> bool) -> Vec<Arc<Pod>> {
        let valid = |pod: &&Arc<Pod>| {
            has_finalizer(pod)
                && !known.contains(pod.metadata.uid.as_deref().unwrap_or_default())
                && self.has_valid_index(pod)
                && passes(pod)
        };
        self.pods.iter().filter(valid).cloned().collect()
    }

    /// Returns whether a pod has a valid index, or needs none.
    pub(super) fn has_valid_index(&self, pod: &Pod) -> bool {
        let completions = self.spec().completions.unwrap_or_default().into();
        !is_indexed(self.spec()) || index_of(pod).is_some_and(|index| index < completions)
    }

    /// The outcome that was decided earlier.
    fn decided_before(&self) -> Option<JobCondition> {
        if let Some(met) = holding(&self.job, "SuccessCriteriaMet") {
            return Some(met.clone());
        }
        let target = holding(&self.job, "FailureTarget")?;
        Some(renamed(target, "Failed", self.now))
    }

    /// Returns the condition of a job that has to fail, except because of its indexes.
    fn fails(&mut self, failed: i64) -> Option<JobCondition> {
        let target = |reason, message: &str| Some(condition("FailureTarget", true, reason, message, self.now));
        let message = self.pods.iter().filter(|pod| self.is_failed(pod)).find_map(|pod| match self.judge(pod) {
            Failure::FailsJob(message) => Some(message),
            _ => None,
        });
        if let Some(message) = message {
            return target("PodFailurePolicy", &message);
        }
        let limit = self.spec().backoff_limit.unwrap_or(6);
        if failed > limit.into() || self.has_restarted_too_often(limit) {
            return target("BackoffLimitExceeded", "Job has reached the specified backoff limit");
        }
        let seconds = self.spec().active_deadline_seconds.filter(|_| !self.is_suspended())?;
        let started = self.job.status.as_ref()?.start_time.as_ref()?.0;
        let left = SignedDuration::from_secs(seconds).saturating_sub(self.now.duration_since(started));
        if left <= SignedDuration::ZERO {
            return target("DeadlineExceeded", "Job was active longer than specified deadline");
        }
        self.deadline = Duration::try_from(left).ok();
        None
    }

    /// Returns whether containers have been restarted in place too often.
    fn has_restarted_too_often(&self, limit: i32) -> bool {
        let template = self.spec().template.spec.as_ref();
        if template.and_then(|spec| spec.restart_policy.as_deref()) != Some("OnFailure") {
            return false;
        }
        let running = self.pods.iter().filter(|pod| matches!(phase(pod), "Running" | "Pending"));
        let statuses = running
            .filter_map(|pod| pod.status.as_ref())
            .flat_map(|status| status.init_container_statuses.iter().chain(&status.container_statuses).flatten());
        let restarts: i64 = statuses.map(|status| i64::from(status.restart_count)).sum();
        if limit == 0 { restarts > 0 } else { restarts >= limit.into() }
    }

    fn look_at_indexes(&mut self) {
        if !is_indexed(self.spec()) {
            return;
        }
        let completions = i64::from(self.spec().completions.unwrap_or_default());
        let status = self.job.status.as_ref();
        let parse = |text: Option<&String>| Indexes::parse(text.map_or("", String::as_str), completions);
        let counted = parse(status.and_then(|status| status.completed_indexes.as_ref()));
        let new = |passes: &dyn Fn(&Pod) -> bool| -> BTreeSet<i64> {
            let pods = self.pods.iter().filter(|pod| has_finalizer(pod) && self.has_valid_index(pod) && passes(pod));
            pods.filter_map(|pod| index_of(pod)).gather()
        };
        let succeeded = counted.with(&new(&|pod| phase(pod) == "Succeeded"));
        let failed = self.limits_each_index().then(|| {
            let before = parse(status.and_then(|status| status.failed_indexes.as_ref()));
            before.with(&new(&|pod| self.fails_index(pod)))
        });
        let mut indexed = Indexed { completions, counted, succeeded, failed, replaced: BTreeMap::new() };
        indexed.replaced = self.replaced(&indexed);
        self.succeeded = indexed.succeeded.total();
        self.finished = self.finished.take().or_else(|| self.ends_by_indexes(&indexed));
        self.indexed = Some(indexed);
    }

    fn fails_index(&self, pod: &Pod) -> bool {
        if !self.is_failed(pod) {
            return false;
        }
        let limit = self.spec().backoff_limit_per_index.unwrap_or_default();
        match self.judge(pod) {
            Failure::FailsIndex => true,
            failure => failure.counts() && number(pod, FAILURES) >= limit,
        }
    }

    fn ends_by_indexes(&self, indexed: &Indexed) -> Option<JobCondition> {
        let target = |reason, message| Some(condition("FailureTarget", true, reason, message, self.now));
        if let Some(failed) = &indexed.failed {
            if self.spec().max_failed_indexes.is_some_and(|most| failed.total() > most.into()) {
                let message = "Job has exceeded the specified maximal number of failed indexes";
                return target("MaxFailedIndexesExceeded", message);
            }
            if !failed.is_empty() && failed.total() + indexed.succeeded.total() >= indexed.completions {
                return target("FailedIndexes", "Job has failed indexes");
            }
        }
        let policy = self.spec().success_policy.as_ref();
        let message = policy::succeeded(policy, indexed.completions, &indexed.succeeded)?;
        Some(condition("SuccessCriteriaMet", true, "SuccessPolicy", &message, self.now))
    }

    fn replaced(&self, indexed: &Indexed) -> BTreeMap<i64, Arc<Pod>> {
        let Some(failed) = &indexed.failed else { return BTreeMap::new() };
        let active: BTreeSet<i64> = self.active.iter().filter_map(|pod| index_of(pod)).gather();
        let mut replaced: BTreeMap<i64, Arc<Pod>> = BTreeMap::new();
        for pod in self.uncounted_pods(&BTreeSet::new(), |pod| self.is_failed(pod)) {
            let Some(index) = index_of(&pod) else { continue };
            if indexed.succeeded.has(index) || failed.has(index) || active.contains(&index) {
                continue;
            }
            let later =
                |other: &Pod| all_failures(other) <= all_failures(&pod) && finished_at(&pod) >= finished_at(other);
            if replaced.get(&index).is_none_or(|other| later(other)) {
                replaced.insert(index, pod);
            }
        }
        replaced
    }
}

/// Returns whether a job is indexed.
pub(super) fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

/// Returns whether a pod is not counted yet.
pub(super) fn has_finalizer(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

/// The index of a pod, if it has a valid one.
pub(super) fn index_of(pod: &Pod) -> Option<i64> {
    let index = pod.metadata.annotations.as_ref()?.get(INDEX)?.parse().ok()?;
    (index >= 0).then_some(index)
}

/// A number in an annotation of a pod; 0 if it is invalid.
pub(super) fn number(pod: &Pod, annotation: &str) -> i32 {
    let text = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(annotation));
    text.and_then(|text| text.parse().ok()).filter(|number| *number >= 0).unwrap_or_default()
}

/// The failures of a pod's index before it, counted or ignored.
pub(super) fn all_failures(pod: &Pod) -> i32 {
    number(pod, FAILURES).saturating_add(number(pod, IGNORED_FAILURES))
}

/// A time in whole seconds, as in the API.
pub(super) fn seconds(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn long(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
