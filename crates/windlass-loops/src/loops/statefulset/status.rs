//! The status of a stateful set.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{StatefulSet, StatefulSetStatus},
    core::v1::Pod,
};

use super::{identity, plan::is_running_and_ready};
use crate::pods;

/// The revisions by which pods are counted.
pub(super) struct Names<'a> {
    pub(super) current: &'a str,
    pub(super) update: &'a str,
    pub(super) collisions: i32,
}

/// Computes the status of a set with these pods.
pub(super) fn of(set: &StatefulSet, names: &Names<'_>, pods: &[Arc<Pod>], now: Timestamp) -> StatefulSetStatus {
    let spec = set.spec.as_ref();
    let min_ready_seconds = spec.and_then(|spec| spec.min_ready_seconds);
    let count = |counts: &dyn Fn(&Pod) -> bool| {
        i32::try_from(pods.iter().filter(|pod| counts(pod)).count()).unwrap_or(i32::MAX)
    };
    let of_revision = |name: &str| count(&|pod| !pods::is_terminating(pod) && identity::revision(pod) == name);
    let replicas = count(&|_| true);
    let ready = count(&is_running_and_ready);
    let available = count(&|pod| is_running_and_ready(pod) && pods::is_available(pod, min_ready_seconds, now));
    let updated = of_revision(names.update);
    let (mut current, mut current_revision) = (of_revision(names.current), names.current);
    // A complete rollout makes its revision the current one.
    let strategy = spec.and_then(|spec| spec.update_strategy.as_ref()?.type_.as_deref());
    if strategy != Some("OnDelete") && [updated, ready, replicas] == [identity::replicas(set); 3] {
        (current, current_revision) = (updated, names.update);
    }
    let unless_zero = |count: i32| (count != 0).then_some(count);
    StatefulSetStatus {
        observed_generation: set.metadata.generation,
        replicas,
        ready_replicas: unless_zero(ready),
        available_replicas: Some(available),
        current_replicas: unless_zero(current),
        updated_replicas: unless_zero(updated),
        current_revision: Some(current_revision.to_owned()),
        update_revision: Some(names.update.to_owned()),
        collision_count: Some(names.collisions),
        conditions: None,
    }
}

/// Returns whether a status differs from the set's own.
pub(super) fn differs(set: &StatefulSet, status: &StatefulSetStatus) -> bool {
    let empty = StatefulSetStatus::default();
    let old = set.status.as_ref().unwrap_or(&empty);
    let counts = |status: &StatefulSetStatus| {
        [
            Some(status.replicas),
            status.ready_replicas,
            status.available_replicas,
            status.current_replicas,
            status.updated_replicas,
            status.collision_count,
        ]
        .map(|count| count.unwrap_or(0))
    };
    status.observed_generation > old.observed_generation
        || counts(status) != counts(old)
        || status.current_revision != old.current_revision
        || status.update_revision != old.update_revision
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, revision: &str, ready: bool, terminating: bool) -> Arc<Pod> {
        let mut pod = json!({ "metadata": { "name": name, "labels": { "controller-revision-hash": revision } },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }] } });
        if terminating {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn set() -> StatefulSet {
        let set = json!({ "metadata": { "generation": 3 }, "spec": { "selector": {}, "template": {}, "replicas": 2 } });
        serde_json::from_value(set).unwrap()
    }

    const NAMES: Names<'static> = Names { current: "old", update: "new", collisions: 0 };

    #[test]
    fn pods_are_counted_by_state_and_revision() {
        let pods = [pod("a-0", "old", true, false), pod("a-1", "new", false, false), pod("a-2", "old", true, true)];
        let status = of(&set(), &NAMES, &pods, Timestamp::UNIX_EPOCH);
        let expected = json!({ "replicas": 3, "readyReplicas": 2, "availableReplicas": 2, "currentReplicas": 1,
            "updatedReplicas": 1, "currentRevision": "old", "updateRevision": "new", "observedGeneration": 3,
            "collisionCount": 0 });
        assert_eq!(serde_json::to_value(status).unwrap(), expected);
    }

    #[test]
    fn a_complete_rollout_makes_its_revision_the_current_one() {
        let pods = [pod("a-0", "new", true, false), pod("a-1", "new", true, false)];
        let status = of(&set(), &NAMES, &pods, Timestamp::UNIX_EPOCH);
        assert_eq!(status.current_revision.as_deref(), Some("new"));
        assert_eq!(status.current_replicas, Some(2));
        let mut set = set();
        set.status = Some(status.clone());
        assert!(!differs(&set, &status));
        set.metadata.generation = Some(4);
        assert!(differs(&set, &of(&set, &NAMES, &pods, Timestamp::UNIX_EPOCH)));
    }
}
