//! The status of a deployment and the progress of its rollout.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet},
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::{
    arithmetic::sum,
    conditions::{self, AVAILABLE, PROGRESSING, REPLICA_FAILURE, condition, reason},
};

/// The replica sets of a deployment.
#[derive(Clone, Copy)]
pub(super) struct Sets<'a> {
    /// All replica sets.
    pub(super) all: &'a [ReplicaSet],
    /// The one with the deployment's template, if it exists.
    pub(super) new: Option<&'a ReplicaSet>,
}

impl Sets<'_> {
    fn sum(&self, number: impl Fn(&ReplicaSet) -> i32) -> i32 {
        sum(self.all.iter().map(number))
    }

    /// The subject of messages.
    fn subject(&self, deployment: &Deployment) -> String {
        match self.new {
            Some(set) => format!("ReplicaSet \"{}\"", set.metadata.name.as_deref().unwrap_or_default()),
            None => format!("Deployment \"{}\"", deployment.metadata.name.as_deref().unwrap_or_default()),
        }
    }
}

/// The desired size of a replica set.
pub(super) fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// The available pods of a replica set.
pub(super) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or_default()
}

/// The actual size of a replica set.
pub(super) fn actual(set: &ReplicaSet) -> i32 {
    set.status.as_ref().map(|status| status.replicas).unwrap_or_default()
}

/// The desired size of a deployment.
pub(super) fn desired(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// The progress deadline in seconds.
pub(super) fn deadline(deployment: &Deployment) -> Option<i32> {
    let deadline = deployment.spec.as_ref().and_then(|spec| spec.progress_deadline_seconds);
    deadline.filter(|deadline| *deadline != i32::MAX)
}

/// The status computed from the replica sets, with the previous conditions except `Available`.
pub(super) fn counted(deployment: &Deployment, sets: Sets<'_>, unavailable: i32, now: Timestamp) -> DeploymentStatus {
    let before = deployment.status.clone().unwrap_or_default();
    let ready = |set: &ReplicaSet| set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or_default();
    let available = sets.sum(available);
    let mut status = DeploymentStatus {
        observed_generation: unless_zero(deployment.metadata.generation.unwrap_or_default()),
        replicas: unless_zero(sets.sum(actual)),
        updated_replicas: unless_zero(sets.new.map(actual).unwrap_or_default()),
        ready_replicas: unless_zero(sets.sum(ready)),
        available_replicas: unless_zero(available),
        unavailable_replicas: unless_zero(sets.sum(replicas).saturating_sub(available).max(0)),
        terminating_replicas: terminating(sets.all),
        collision_count: before.collision_count,
        conditions: before.conditions,
    };
    let enough = available >= desired(deployment) - unavailable;
    let (is, reason, message) = match enough {
        true => ("True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
        false => ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
    };
    conditions::set(&mut status, condition(AVAILABLE, is, reason, message, now));
    status
}

/// The number of terminating pods; unknown if a replica set with an observed status does not report it.
fn terminating(sets: &[ReplicaSet]) -> Option<i32> {
    let status = |set: &ReplicaSet| set.status.clone().unwrap_or_default();
    let looked_at = |set: &&ReplicaSet| {
        let status = status(set);
        status.terminating_replicas.is_some() || status.observed_generation.unwrap_or_default() != 0
    };
    sets.iter().filter(looked_at).map(|set| status(set).terminating_replicas).sum()
}

fn unless_zero<N: Default + PartialEq>(number: N) -> Option<N> {
    (number != N::default()).then_some(number)
}

/// Returns whether all pods are new and available. A status that has not observed the current spec does not count.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let desired = desired(deployment);
    let all = |number: Option<i32>| number.unwrap_or_default() == desired;
    all(status.updated_replicas)
        && all(status.replicas)
        && all(status.available_replicas)
        && status.observed_generation >= deployment.metadata.generation
}

/// Returns whether the rollout progressed: more new pods, fewer old ones, more ready or available ones.
fn has_progressed(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let number = |number: Option<i32>| number.unwrap_or_default();
    let old = |status: &DeploymentStatus| number(status.replicas) - number(status.updated_replicas);
    number(after.updated_replicas) > number(before.updated_replicas)
        || old(after) < old(before)
        || number(after.ready_replicas) > number(before.ready_replicas)
        || number(after.available_replicas) > number(before.available_replicas)
}

/// Sets the condition `Progressing` and the failure condition in a status that was just computed.
pub(super) fn judge(deployment: &Deployment, status: &mut DeploymentStatus, sets: Sets<'_>, now: Timestamp) {
    let before = deployment.status.clone().unwrap_or_default();
    let deadline = deadline(deployment);
    if deadline.is_none() {
        conditions::remove(status, PROGRESSING);
    }
    let settled =
        status.replicas == status.updated_replicas && conditions::has_reason(&before, PROGRESSING, reason::COMPLETE);
    if let Some(deadline) = deadline.filter(|_| !settled) {
        let subject = sets.subject(deployment);
        if is_complete(deployment, status) {
            let message = format!("{subject} has successfully progressed.");
            conditions::set(status, condition(PROGRESSING, "True", reason::COMPLETE, &message, now));
        } else if has_progressed(&before, status) {
            let message = format!("{subject} is progressing.");
            let mut progressing = condition(PROGRESSING, "True", reason::UPDATED, &message, now);
            // The update time is that of the last progress, so it changes even if nothing else does.
            if let Some(present) = conditions::get(&before, PROGRESSING) {
                if present.status == "True" {
                    progressing.last_transition_time.clone_from(&present.last_transition_time);
                }
                conditions::remove(status, PROGRESSING);
            }
            conditions::set(status, progressing);
        } else if is_timed_out(status, deadline, now) {
            let message = format!("{subject} has timed out progressing.");
            conditions::set(status, condition(PROGRESSING, "False", reason::TIMED_OUT, &message, now));
        }
    }
    match failure(sets) {
        Some(failure) => conditions::set(status, failure),
        None => conditions::remove(status, REPLICA_FAILURE),
    }
}

/// Returns whether the last progress is too long ago.
fn is_timed_out(status: &DeploymentStatus, deadline: i32, now: Timestamp) -> bool {
    match conditions::get(status, PROGRESSING) {
        None => false,
        // A complete rollout does not time out.
        Some(condition) if condition.reason.as_deref() == Some(reason::COMPLETE) => false,
        Some(condition) if condition.reason.as_deref() == Some(reason::TIMED_OUT) => true,
        Some(condition) => due(condition, deadline).is_some_and(|due| due < now),
    }
}

/// Returns the time at which a rollout without further progress exceeds its deadline.
fn due(condition: &DeploymentCondition, deadline: i32) -> Option<Timestamp> {
    let Time(last) = condition.last_update_time.as_ref()?;
    last.checked_add(SignedDuration::from_secs(deadline.into())).ok()
}

/// Returns the time until the next check of the deadline, if nothing happens before.
pub(super) fn look_again(deployment: &Deployment, status: &DeploymentStatus, now: Timestamp) -> Option<Duration> {
    let condition = conditions::get(status, PROGRESSING)?;
    if is_complete(deployment, status) || condition.reason.as_deref() == Some(reason::TIMED_OUT) {
        return None;
    }
    let left = due(condition, deadline(deployment)?)?.duration_since(now);
    // The deadline is exceeded only after its last second.
    Some(Duration::try_from(left).unwrap_or_default() + Duration::from_secs(1))
}

/// The failure of the newest replica set or, if it has none, of another.
fn failure(sets: Sets<'_>) -> Option<DeploymentCondition> {
    let failed = |set: &ReplicaSet| {
        let conditions = set.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|condition| condition.type_ == REPLICA_FAILURE).cloned()
    };
    let found = sets.new.and_then(failed).or_else(|| sets.all.iter().find_map(failed))?;
    Some(DeploymentCondition {
        type_: found.type_,
        status: found.status,
        last_update_time: found.last_transition_time.clone(),
        last_transition_time: found.last_transition_time,
        reason: found.reason,
        message: found.message,
    })
}

#[cfg(test)]
mod tests;
