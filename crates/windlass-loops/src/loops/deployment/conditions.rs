//! The conditions of a deployment.

use jiff::Timestamp;
use k8s_openapi::{
    api::apps::v1::{DeploymentCondition, DeploymentStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};

/// Whether a rollout makes progress or is complete.
pub(super) const PROGRESSING: &str = "Progressing";
/// Whether enough pods are available.
pub(super) const AVAILABLE: &str = "Available";
/// Whether pods could not be created or deleted.
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Reasons of the condition `Progressing`.
pub(super) mod reason {
    pub(in super::super) const CREATE_FAILED: &str = "ReplicaSetCreateError";
    pub(in super::super) const CREATED: &str = "NewReplicaSetCreated";
    pub(in super::super) const FOUND: &str = "FoundNewReplicaSet";
    pub(in super::super) const UPDATED: &str = "ReplicaSetUpdated";
    pub(in super::super) const COMPLETE: &str = "NewReplicaSetAvailable";
    pub(in super::super) const TIMED_OUT: &str = "ProgressDeadlineExceeded";
    pub(in super::super) const PAUSED: &str = "DeploymentPaused";
    pub(in super::super) const RESUMED: &str = "DeploymentResumed";
}

/// A condition that starts now.
pub(super) fn condition(type_: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> DeploymentCondition {
    DeploymentCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_update_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
    }
}

/// The condition of a type.
pub(super) fn get<'a>(status: &'a DeploymentStatus, type_: &str) -> Option<&'a DeploymentCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == type_)
}

/// Returns whether a condition has a reason.
pub(super) fn has_reason(status: &DeploymentStatus, type_: &str, reason: &str) -> bool {
    get(status, type_).is_some_and(|condition| condition.reason.as_deref() == Some(reason))
}

/// Sets a condition, unless it exists with the same status and reason. Its transition time is kept while the status
/// stays the same.
pub(super) fn set(status: &mut DeploymentStatus, mut condition: DeploymentCondition) {
    if let Some(present) = get(status, &condition.type_) {
        if present.status == condition.status && present.reason == condition.reason {
            return;
        }
        if present.status == condition.status {
            condition.last_transition_time.clone_from(&present.last_transition_time);
        }
    }
    remove(status, &condition.type_);
    status.conditions.get_or_insert_default().push(condition);
}

/// Removes a condition.
pub(super) fn remove(status: &mut DeploymentStatus, type_: &str) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| condition.type_ != type_);
        if conditions.is_empty() {
            status.conditions = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_condition_keeps_its_times_while_it_is_unchanged() {
        let mut status = DeploymentStatus::default();
        set(&mut status, condition(PROGRESSING, "True", "a", "first", at(1)));
        set(&mut status, condition(PROGRESSING, "True", "a", "second", at(2)));
        let present = get(&status, PROGRESSING).unwrap();
        assert_eq!((present.message.as_deref(), present.last_update_time.clone()), (Some("first"), Some(Time(at(1)))));
        set(&mut status, condition(PROGRESSING, "True", "b", "third", at(3)));
        let present = get(&status, PROGRESSING).unwrap();
        assert_eq!(present.last_transition_time, Some(Time(at(1))));
        assert_eq!(present.last_update_time, Some(Time(at(3))));
        set(&mut status, condition(PROGRESSING, "False", "b", "fourth", at(4)));
        assert_eq!(get(&status, PROGRESSING).unwrap().last_transition_time, Some(Time(at(4))));
        remove(&mut status, PROGRESSING);
        assert_eq!(status, DeploymentStatus::default());
    }
}
