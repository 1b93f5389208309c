//! Deletes finished jobs after their TTL.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::api::DeleteParams;
use windlass::{Result, context::Context, controller::Action, key::ObjectKey, operator::Operator};

use super::{ClusterCertificates, job::finished_at};

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    operator.controller(super::controller::<Job>("ttl-after-finished-controller", reconcile))
}

async fn reconcile(job: Arc<Job>, ctx: Context) -> Result<Action> {
    let now = windlass_clock::now();
    match expires_at(&job) {
        None => return Ok(Action::done()),
        Some(end) if end > now => return Ok(Action::requeue_after(until(end, now))),
        Some(_) => {}
    }
    // The TTL may have been extended, and the cache may lag behind.
    let Some(fresh) = ctx.live().get::<Job>(&ObjectKey::of(job.as_ref())).await? else { return Ok(Action::done()) };
    match expires_at(&fresh) {
        None => Ok(Action::done()),
        Some(end) if end > now => Ok(Action::requeue_after(until(end, now))),
        Some(_) => {
            ctx.delete_with(&fresh, &DeleteParams::foreground()).await?;
            Ok(Action::done())
        }
    }
}

/// Returns the time at which a job may be deleted, if it has finished, has a TTL and is not being deleted yet.
fn expires_at(job: &Job) -> Option<Timestamp> {
    if job.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let seconds = job.spec.as_ref()?.ttl_seconds_after_finished?;
    finished_at(job)?.checked_add(jiff::SignedDuration::from_secs(seconds.into())).ok()
}

fn until(end: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(end.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_expires_after_its_ttl() {
        let finished = json!([{"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let running =
            json!([{"type": "FailureTarget", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        for (ttl, conditions, deleted, expected) in [
            (json!(10), &finished, json!(null), Some("2026-01-01T00:00:10Z")),
            (json!(0), &finished, json!(null), Some("2026-01-01T00:00:00Z")),
            (json!(null), &finished, json!(null), None),
            (json!(10), &running, json!(null), None),
            (json!(10), &finished, json!("2026-01-01T00:00:05Z"), None),
        ] {
            let job: Job = serde_json::from_value(json!({
                "metadata": {"deletionTimestamp": deleted},
                "spec": {"ttlSecondsAfterFinished": ttl, "template": {}},
                "status": {"conditions": conditions},
            }))
            .unwrap();
            assert_eq!(expires_at(&job), expected.map(|time| time.parse().unwrap()), "{ttl} {conditions} {deleted}");
        }
    }
}
