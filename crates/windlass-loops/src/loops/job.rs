//! Runs pods to completion.
//!
//! A reconciliation goes from the observed state ([`view`]) to the changes of pods ([`plan`]) and the counters
//! ([`track`]), all of them pure; this module performs the writes. A job finishes in two steps, because other clients
//! may wait for the first: the condition `SuccessCriteriaMet` or `FailureTarget` announces the outcome, and `Complete`
//! or `Failed` follows when all pods are counted and deleted.

mod backoff;
mod cluster;
mod conditions;
mod indexes;
mod plan;
mod policy;
mod template;
mod track;
mod view;

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use parking_lot::Mutex;
use windlass::{
    Error, Result,
    context::Context,
    controller::{Action, Controller, Reconciler, filter},
    key::ObjectKey,
    objects::owner::controller_of,
    operator::Operator,
    queue::RateLimit,
};

use self::{
    backoff::Failures,
    conditions::condition,
    plan::{Step, plan},
    template::is_managed_elsewhere,
    track::{Tracking, end, settle, suspension, track},
    view::{FINALIZER, View, has_finalizer},
};
use crate::{
    loops::ClusterCertificates,
    pods::{Children, candidates, parents},
};

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let jobs = Jobs::default();
    let failures = jobs.failures.clone();
    let forget = move |key, _ctx| {
        failures.lock().remove(&key);
        std::future::ready(Ok(()))
    };
    let jobs = super::controller::<Job>("job-controller", jobs)
        .watches::<Pod>(parents::<Job, Pod>)
        .on_deleted(forget)
        .rate_limit(RateLimit { base: Duration::from_secs(1), max: Duration::from_secs(60), ..RateLimit::default() })
        .concurrency(5);
    operator.controller(jobs).controller(orphans())
}

/// Returns the time at which a job finished, successfully or not. Returns `None` if it has not.
pub(super) fn finished_at(job: &Job) -> Option<Timestamp> {
    conditions::end(job)?.last_transition_time.as_ref().map(|time| time.0)
}

/// The outcome of a job, `Complete` or `Failed`. Returns `None` if it has not finished.
pub(super) fn ended_with(job: &Job) -> Option<&str> {
    conditions::end(job).map(|condition| condition.type_.as_str())
}

/// The reconciler and its memory of unfinished jobs.
#[derive(Default)]
struct Jobs {
    /// The failures of each job since its last success, with its UID. Lost on restart.
    failures: Arc<Mutex<HashMap<ObjectKey, (String, Failures)>>>,
}

impl Reconciler<Job> for Jobs {
    async fn reconcile(&self, job: Arc<Job>, ctx: Context) -> Result<Action> {
        let Some(selector) = job.spec.as_ref().and_then(|spec| spec.selector.as_ref()) else {
            return Ok(Action::done());
        };
        if is_managed_elsewhere(&job) {
            return Ok(Action::done());
        }
        if conditions::end(&job).is_some() {
            self.failures.lock().remove(&ObjectKey::of(&*job));
            return Ok(Action::done());
        }
        let children = Children::<Pod>::selected(selector)?.with_finalizer(FINALIZER);
        let pods = children.claim(&ctx, &*job, candidates(&ctx, &*job)?).await?;
        let mut view = View::new(&job, pods, self.failures_of(&job), windlass_clock::now());
        let managed = manage(&mut view, &ctx).await?;
        let tracking = track(&mut view, managed.changed);
        self.write(&ctx, &mut view, tracking).await?;
        match (managed.error, managed.wait.into_iter().chain(view.deadline).min()) {
            (Some(error), _) => Err(error),
            (None, Some(wait)) => Ok(Action::requeue_after(wait)),
            (None, None) => Ok(Action::done()),
        }
    }
}

/// The result of managing the pods of a job.
#[derive(Default)]
struct Managed {
    /// Whether the status has to be written.
    changed: bool,
    /// Time to wait before the next step.
    wait: Option<Duration>,
    /// The first error. The remaining work is done anyway.
    error: Option<Error>,
}

/// Creates and deletes pods, and updates the numbers and the completion in the status.
async fn manage(view: &mut View, ctx: &Context) -> Result<Managed> {
    let mut managed = Managed::default();
    let mut active = i32::try_from(view.active.len()).unwrap_or(i32::MAX);
    let mut removed = None;
    let goes_on = view.finished.is_none();
    if !goes_on {
        let gone = cluster::delete(ctx, &view.job, &view.active).await;
        if gone.count != active {
            // Not yet: the remaining pods are deleted first.
            view.finished = None;
        }
        removed = Some(gone);
    } else if view.job.metadata.deletion_timestamp.is_none() {
        match plan(view) {
            Step::Nothing => {}
            Step::Wait(wait) => managed.wait = Some(wait),
            Step::Remove(surplus) => removed = Some(cluster::release_and_delete(ctx, &view.job, &surplus).await),
            Step::Make(indexes) => {
                let (made, error) = cluster::make(ctx, view, &indexes).await?;
                active += made;
                managed.error = error;
            }
        }
    }
    if let Some(removed) = removed {
        active -= removed.count;
        view.terminating += removed.count;
        view.ready -= removed.ready;
        managed.error = removed.error;
    }
    if goes_on {
        managed.changed = conclude(view, ctx, active);
    }
    let (ready, terminating) = (view.ready, view.terminating);
    let status = view.status();
    managed.changed |= active != status.active.unwrap_or_default()
        || Some(ready) != status.ready
        || Some(terminating) != status.terminating;
    status.active = Some(active).filter(|active| *active > 0);
    (status.ready, status.terminating) = (Some(ready), Some(terminating));
    Ok(managed)
}

/// Completes or suspends the job. Returns whether the status changed.
fn conclude(view: &mut View, ctx: &Context, active: i32) -> bool {
    let going = view.job.metadata.deletion_timestamp.is_some();
    let enough = match view.spec().completions {
        None => view.succeeded > 0,
        Some(completions) => view.succeeded >= completions.into(),
    };
    if enough && active == 0 {
        let message = "Reached expected number of succeeded pods";
        view.finished = Some(condition("SuccessCriteriaMet", true, "CompletionsReached", message, view.now));
        return false;
    }
    if going {
        return false;
    }
    let Some(word) = suspension(view) else { return false };
    ctx.event(&view.job).normal(word, if word == "Suspended" { "Job suspended" } else { "Job resumed" });
    true
}

impl Jobs {
    fn failures_of(&self, job: &Job) -> Failures {
        let failures = self.failures.lock();
        let known = failures.get(&ObjectKey::of(job)).filter(|(uid, _)| job.metadata.uid.as_ref() == Some(uid));
        known.map(|(_, failures)| *failures).unwrap_or_default()
    }

    /// Writes the status with the pods to count, removes their finalizers, and counts them.
    async fn write(&self, ctx: &Context, view: &mut View, mut tracking: Tracking) -> Result<()> {
        if tracking.flush {
            write_status(ctx, view).await?;
            let uid = view.job.metadata.uid.clone().unwrap_or_default();
            self.failures.lock().insert(ObjectKey::of(&view.job), (uid, view.failures));
        }
        let (released, error) = cluster::release(ctx, &tracking.release).await;
        released.iter().for_each(|uid| {
            tracking.held.remove(uid);
        });
        let changed = settle(view.status(), &tracking.held);
        if let Some(error) = error {
            if changed {
                write_status(ctx, view).await?;
            }
            return Err(error);
        }
        let ended = !tracking.full && end(view);
        if changed || ended {
            write_status(ctx, view).await?;
        }
        if ended {
            announce(ctx, view);
        }
        Ok(())
    }
}

async fn write_status(ctx: &Context, view: &mut View) -> Result<()> {
    let written = ctx.update_status(view.job.clone()).await?;
    view.job = Arc::unwrap_or_clone(written);
    Ok(())
}

fn announce(ctx: &Context, view: &View) {
    let Some(finished) = &view.finished else { return };
    let succeeded = view.job.status.as_ref().and_then(|status| status.succeeded).unwrap_or_default();
    if finished.type_ == "Complete" {
        if view.spec().completions.is_some_and(|completions| succeeded > completions) {
            let message = "Too many succeeded pods running after completion count reached";
            ctx.event(&view.job).warning("TooManySucceededPods", message);
        }
        ctx.event(&view.job).normal("Completed", "Job completed");
    } else {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        ctx.event(&view.job).warning(&text(&finished.reason), &text(&finished.message));
    }
}

/// Removes the finalizer from pods whose job is deleted or has finished, or which no longer belong to it.
fn orphans() -> Controller<Pod> {
    super::controller::<Pod>("job-controller-orphan-pods", reconcile_orphan)
        .filter(filter::object(has_finalizer))
        .watches::<Job>(left_behind)
        .concurrency(5)
}

/// The pods of a deleted or finished job.
fn left_behind(job: &Job, ctx: &Context) -> Vec<ObjectKey> {
    let present = ctx.get::<Job>(&ObjectKey::of(job)).ok().flatten();
    let counts = |present: Arc<Job>| present.metadata.uid == job.metadata.uid && conditions::end(&present).is_none();
    if present.is_some_and(counts) {
        return Vec::new();
    }
    let pods: Vec<Arc<Pod>> = ctx.owned::<Pod, Job>(job).unwrap_or_default();
    pods.iter().filter(|pod| has_finalizer(pod)).map(|pod| ObjectKey::of(&**pod)).collect()
}

/// Removes the finalizer from a pod that no job counts anymore: it would keep the pod forever.
async fn reconcile_orphan(pod: Arc<Pod>, ctx: Context) -> Result<Action> {
    if has_finalizer(&pod) && is_orphan(&pod, &ctx).await? {
        cluster::release_one(&ctx, &pod).await?;
    }
    Ok(Action::done())
}

async fn is_orphan(pod: &Pod, ctx: &Context) -> Result<bool> {
    let Some(owner) = controller_of(&pod.metadata) else { return Ok(true) };
    if owner.kind != "Job" || owner.api_version != "batch/v1" {
        // Another controller uses the finalizer: leave it alone.
        return Ok(false);
    }
    let key = ObjectKey::namespaced(pod.metadata.namespace.as_deref().unwrap_or_default(), &owner.name);
    let same = |job: &Job| job.metadata.uid.as_deref() == Some(&owner.uid);
    let job = match ctx.get::<Job>(&key)?.filter(|job| same(job)) {
        Some(job) => Some(job),
        // The cache may not have it yet.
        None => ctx.live().get::<Job>(&key).await?.filter(same).map(Arc::new),
    };
    Ok(job.is_none_or(|job| !is_managed_elsewhere(&job) && conditions::end(&job).is_some()))
}
