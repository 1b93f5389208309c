//! Runs each task from start to finish.

use k8s_openapi::{
    api::core::v1::{ConfigMap, Pod},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::ResourceExt;
use windlass::{clock, prelude::*};

use crate::{
    actions::{Outcome, pod_of, restart, snapshot, target},
    api::pod_task::{Phase, PodTask, PodTaskStatus, TaskAction},
};

/// Backoff before the first retry. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Watches PodTasks, their snapshots, and the pods they target.
pub fn controller() -> Controller<PodTask> {
    Controller::new("podtask", reconcile)
        .owns::<ConfigMap>()
        .watches_referenced::<Pod>(|task| vec![pod_of(task)])
        // A restart deletes the pod and creates it again; a finished task is deleted after its time to live.
        .creates::<Pod>()
        .deletes::<Pod>()
        .deletes::<PodTask>()
        .concurrency(4)
}

async fn reconcile(task: Arc<PodTask>, ctx: Context) -> Result<Action> {
    let mut status = task.status.clone().unwrap_or_default();
    if status.phase.is_over() {
        return expire(&task, &status, &ctx).await;
    }
    let now = clock::now_in_seconds();
    if let Some(wait) = status.retry_time.as_ref().and_then(|time| until(time, now)) {
        return Ok(Action::requeue_after(wait));
    }
    let outcome = match status.target_uid.clone() {
        None => match target(&task, &ctx)?.and_then(|pod| pod.uid()) {
            None => Outcome::Failed(format!("pod {} not found", task.spec.target)),
            Some(uid) => {
                // Recorded before anything is done, so that it is never done to another pod.
                status.target_uid = Some(uid);
                status.start_time = Some(Time(now));
                status.phase = Phase::Running;
                status.retry_time = None;
                status.message = format!("{:?} of {}", task.spec.action, task.spec.target);
                ctx.set_status(&task, status).await?;
                return Ok(Action::requeue_after(Duration::ZERO));
            }
        },
        Some(uid) => match task.spec.action {
            TaskAction::Restart => restart(&task, &uid, &ctx).await?,
            TaskAction::Snapshot => {
                let (outcome, name) = snapshot(&task, &uid, &ctx).await?;
                status.snapshot = name;
                outcome
            }
        },
    };
    settle(&task, status, outcome, &ctx).await
}

/// Records the result of an attempt and schedules the next step.
async fn settle(task: &Arc<PodTask>, mut status: PodTaskStatus, outcome: Outcome, ctx: &Context) -> Result<Action> {
    let now = clock::now_in_seconds();
    status.retry_time = None;
    let mut action = Action::done();
    match outcome {
        Outcome::Waiting(message) => status.message = message,
        Outcome::Done(message) => {
            ctx.event(task).normal("Succeeded", &message);
            status.set_condition(ready(true).reason("Succeeded").message(&message));
            (status.phase, status.message, status.completion_time) = (Phase::Succeeded, message, Some(Time(now)));
        }
        Outcome::Failed(message) => {
            status.failures += 1;
            ctx.event(task).warning("Failed", &message);
            let over = status.failures > task.spec.retries;
            let reason = if over { "Failed" } else { "Retrying" };
            status.set_condition(ready(false).reason(reason).message(&message));
            status.message = message;
            if over {
                (status.phase, status.completion_time) = (Phase::Failed, Some(Time(now)));
            } else {
                let pause = pause(status.failures);
                status.retry_time = now.checked_add(pause).ok().map(Time);
                action = Action::requeue_after(pause);
            }
        }
    }
    let is_over = status.phase.is_over();
    let task = ctx.set_status(task, status.clone()).await?;
    if is_over { expire(&task, &status, ctx).await } else { Ok(action) }
}

/// Deletes a finished task after its time to live.
async fn expire(task: &Arc<PodTask>, status: &PodTaskStatus, ctx: &Context) -> Result<Action> {
    let (Some(seconds), Some(ended)) = (task.spec.ttl_seconds_after_finished, &status.completion_time) else {
        return Ok(Action::done());
    };
    let end = ended.0.checked_add(Duration::from_secs(seconds.unsigned_abs()));
    match end.ok().map(Time).and_then(|end| until(&end, clock::now_in_seconds())) {
        Some(wait) => Ok(Action::requeue_after(wait)),
        None => {
            ctx.delete(task).await?;
            Ok(Action::done())
        }
    }
}

/// Returns the time that remains until `time`, or `None` if it has passed.
fn until(time: &Time, now: jiff::Timestamp) -> Option<Duration> {
    Duration::try_from(time.0.duration_since(now)).ok().filter(|wait| !wait.is_zero())
}

fn pause(failures: i32) -> Duration {
    let doublings = u32::try_from(failures - 1).unwrap_or(0).min(16);
    (FIRST_PAUSE * 2u32.pow(doublings)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        let seconds: Vec<u64> = [1, 2, 3, 7, 20].iter().map(|failures| pause(*failures).as_secs()).collect();
        assert_eq!(seconds, [5, 10, 20, 300, 300]);
    }
}
