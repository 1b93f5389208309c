//! Starts the runs of CronTabs when they are due.

use jiff::Timestamp;
use k8s_openapi::{api::batch::v1::Job, apimachinery::pkg::apis::meta::v1::Time};
use kube::{ResourceExt, api::DeleteParams};
use windlass::{clock, prelude::*};

use crate::{
    api::cron_tab::{CronTab, CronTabConcurrencyPolicy, CronTabStatus},
    runs::{Runs, job},
    schedule::Timetable,
};

/// Keeps a CronTab until its active runs are deleted.
pub const FINALIZER: &str = "stable.example.com/end-runs";

/// Watches CronTabs and their Jobs.
pub fn controller() -> Controller<CronTab> {
    Controller::new("cron-tab", reconcile).owns::<Job>().finalizer(FINALIZER, end_runs).concurrency(4)
}

async fn reconcile(crontab: Arc<CronTab>, ctx: Context) -> Result<Action> {
    let mut runs = Runs::new(&crontab.spec, ctx.owned(&crontab)?);
    for job in &runs.expired {
        ctx.delete(job).await?;
    }
    let before = crontab.status.clone().unwrap_or_default();
    let mut status = CronTabStatus {
        last_schedule_time: before.last_schedule_time.clone(),
        last_successful_time: runs.last_success.max(before.last_successful_time.map(|time| time.0)).map(Time),
        ..CronTabStatus::default()
    };
    let mut action = Action::done();
    match Timetable::new(&crontab.spec) {
        Err(why) => {
            ctx.event(&crontab).warning("InvalidSchedule", &why);
            status.set_condition(ready(false).reason("InvalidSchedule").message(why));
        }
        Ok(_) if crontab.spec.suspend => {
            status.set_condition(ready(false).reason("Suspended").message("no new runs are started"));
        }
        Ok(timetable) => {
            let now = clock::now();
            let made = crontab.metadata.creation_timestamp.as_ref().map(|time| time.0);
            let since = before.last_schedule_time.map(|time| time.0).max(made).unwrap_or(now);
            let due = timetable.due(since, now);
            if let Some(time) = due.run
                && begin(&crontab, &ctx, &mut runs, time, due.missed).await?
            {
                status.last_schedule_time = Some(Time(time));
            }
            if let Some(next) = due.next {
                action = Action::requeue_after(next.duration_since(now).unsigned_abs());
            }
            status.set_condition(ready(true).reason("Scheduled").message("the schedule is active"));
        }
    }
    status.active = runs.active.iter().map(|job| job.name_any()).collect();
    status.replicas = runs.replicas;
    ctx.set_status(&crontab, status).await?;
    Ok(action)
}

/// Starts the run of a scheduled time and returns whether it was started. Under `Forbid` it waits for the active run,
/// whose end triggers the next reconcile.
async fn begin(crontab: &Arc<CronTab>, ctx: &Context, runs: &mut Runs, time: Timestamp, missed: usize) -> Result<bool> {
    if missed > 1 {
        let message = format!("missed {} runs; starting only the latest", missed - 1);
        ctx.event(crontab).warning("MissedRuns", &message);
    }
    match crontab.spec.concurrency_policy {
        CronTabConcurrencyPolicy::Forbid if !runs.active.is_empty() => {
            ctx.event(crontab).normal("StillRunning", "waiting for the previous run to end");
            return Ok(false);
        }
        CronTabConcurrencyPolicy::Replace => {
            for other in runs.active.drain(..) {
                ctx.delete_with(&other, &DeleteParams::background()).await?;
                ctx.event(crontab).normal("Replaced", &format!("deleted {}", other.name_any()));
            }
        }
        _ => {}
    }
    match ctx.create_owned(crontab, job(crontab, time)).await {
        Ok(job) => {
            ctx.event(crontab).normal("Started", &format!("created {}", job.name_any()));
            runs.active.push(job);
        }
        // An earlier reconcile created it, but did not get to update the status.
        Err(error) if error.is_already_exists() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}

/// Deletes all runs before their CronTab is deleted.
async fn end_runs(crontab: Arc<CronTab>, ctx: Context) -> Result<Action> {
    let jobs: Vec<Arc<Job>> = ctx.owned(&crontab)?;
    for job in jobs.iter().filter(|job| job.metadata.deletion_timestamp.is_none()) {
        ctx.delete_with(job, &DeleteParams::foreground()).await?;
    }
    // The deletion of each triggers another call.
    Ok(if jobs.is_empty() { Action::done() } else { Action::requeue_after(Duration::from_secs(60)) })
}
