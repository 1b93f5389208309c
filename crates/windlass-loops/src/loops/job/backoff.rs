//! Backoff before a failed pod is replaced: 10 seconds, doubling up to 10 minutes.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use crate::pods::ready_condition;

const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(600);

/// The failures of a job since its last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures {
    count: u32,
    last: Option<Timestamp>,
}

impl Failures {
    /// Adds pods that have ended since.
    pub(super) fn with(mut self, succeeded: &[Arc<Pod>], failed: &[Arc<Pod>]) -> Self {
        let latest = |pods: &[Arc<Pod>]| pods.iter().map(|pod| finished_at(pod)).max();
        if let Some(success) = latest(succeeded) {
            let after: Vec<_> = failed.iter().map(|pod| finished_at(pod)).filter(|time| *time > success).collect();
            return Self { count: count(after.len()), last: after.into_iter().max() };
        }
        self.count = self.count.saturating_add(count(failed.len()));
        self.last = latest(failed).or(self.last);
        self
    }

    /// The remaining backoff.
    pub(super) fn remaining(self, now: Timestamp) -> Duration {
        self.last.map_or(Duration::ZERO, |last| remaining(self.count, last, now))
    }
}

/// The remaining backoff after a number of failures.
pub(super) fn remaining(failures: u32, last: Timestamp, now: Timestamp) -> Duration {
    if failures == 0 {
        return Duration::ZERO;
    }
    let wait = FIRST.saturating_mul(2_u32.saturating_pow(failures - 1)).min(LONGEST);
    let passed = now.duration_since(last);
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    Duration::try_from(wait.saturating_sub(passed)).unwrap_or_default()
}

/// Returns the time at which a pod ended: when its last container terminated, else when it became unready, was deleted
/// or was created.
pub(super) fn finished_at(pod: &Pod) -> Timestamp {
    let created = pod.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    containers_finished_at(pod).or_else(|| unready_since(pod)).or_else(|| deleted_at(pod)).unwrap_or(created)
}

fn containers_finished_at(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let sidecar = |status: &&ContainerStatus| {
        let containers = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        containers
            .filter(|container| container.name == status.name)
            .any(|container| container.restart_policy.as_deref() == Some("Always"))
    };
    let finished = |status: &ContainerStatus| Some(status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0);
    let mut latest = None;
    // Sidecars end after the regular containers.
    let beside = status.init_container_statuses.iter().flatten().filter(sidecar);
    for status in status.container_statuses.iter().flatten().chain(beside) {
        latest = latest.max(Some(finished(status)?));
    }
    latest
}

fn unready_since(pod: &Pod) -> Option<Timestamp> {
    let condition = ready_condition(pod).filter(|condition| condition.status == "False")?;
    condition.last_transition_time.as_ref().map(|time| time.0)
}

fn deleted_at(pod: &Pod) -> Option<Timestamp> {
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
    let end = pod.metadata.deletion_timestamp.as_ref()?.0;
    end.checked_sub(SignedDuration::from_secs(grace)).ok()
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn ended(seconds: i64) -> Arc<Pod> {
        Arc::new(pod(json!({"containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"terminated": {"exitCode": 1, "finishedAt": at(seconds).to_string()}}}]})))
    }

    fn pod(status: Value) -> Pod {
        let metadata = json!({"name": "p", "creationTimestamp": at(0).to_string()});
        serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
    }

    #[test]
    fn the_backoff_doubles_up_to_ten_minutes() {
        for (failures, passed, expected) in [
            (0, 0, 0),
            (1, 0, 10),
            (1, 4, 6),
            (1, 11, 0),
            (2, 0, 20),
            (3, 0, 40),
            (7, 0, 600),
            (40, 0, 600),
            (40, 700, 0),
        ] {
            assert_eq!(remaining(failures, at(0), at(passed)), Duration::from_secs(expected), "{failures} {passed}");
        }
    }

    #[test]
    fn a_success_resets_the_failures() {
        let two = Failures::default().with(&[], &[ended(1), ended(5)]);
        assert_eq!(two, Failures { count: 2, last: Some(at(5)) });
        assert_eq!(two.with(&[], &[]), two);
        assert_eq!(two.with(&[], &[ended(7)]), Failures { count: 3, last: Some(at(7)) });
        assert_eq!(two.with(&[ended(8)], &[]), Failures::default());
        assert_eq!(two.with(&[ended(8)], &[ended(6), ended(9)]), Failures { count: 1, last: Some(at(9)) });
    }

    #[test]
    fn the_end_of_a_pod_comes_from_several_fields() {
        let ready =
            json!({"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at(3).to_string()}]});
        assert_eq!(finished_at(&ended(4)), at(4));
        assert_eq!(finished_at(&pod(ready)), at(3));
        assert_eq!(finished_at(&pod(json!({}))), at(0));
        let mut deleted = pod(json!({}));
        deleted.metadata.deletion_timestamp = Some(serde_json::from_value(json!(at(40).to_string())).unwrap());
        deleted.metadata.deletion_grace_period_seconds = Some(30);
        assert_eq!(finished_at(&deleted), at(10));
    }
}
