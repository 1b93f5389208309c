//! The status of a parent, derived from its pods.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Time};

use super::Parent;
use crate::pods::{is_active, is_available, is_ready, is_terminating, phase};

/// The condition that reports failures to create or delete pods.
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The status of either kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Status {
    pub(super) conditions: Vec<Condition>,
    pub(super) replicas: i32,
    pub(super) fully_labeled: i32,
    pub(super) ready: i32,
    pub(super) available: i32,
    pub(super) observed_generation: i64,
    /// `None` if they are not counted.
    pub(super) terminating: Option<i32>,
}

/// A condition of either kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    pub(super) type_: String,
    pub(super) status: String,
    pub(super) since: Option<Time>,
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
}

/// Reasons why pods could not be created or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// `FailedCreate` or `FailedDelete`.
    pub(super) reason: &'static str,
    /// The server's message.
    pub(super) message: String,
}

/// Computes the status of a parent with these pods.
pub(super) fn status_of<K: Parent>(parent: &K, pods: &[Arc<Pod>], failure: Option<&Failure>, now: Timestamp) -> Status {
    let active = || pods.iter().filter(|pod| is_active(pod));
    let ready = || active().filter(|pod| is_ready(pod));
    let leaving = || pods.iter().filter(|pod| is_terminating(pod) && !matches!(phase(pod), "Succeeded" | "Failed"));
    let wanted = parent.template().and_then(|template| template.metadata.as_ref()?.labels.as_ref());
    let labeled = |pod: &&Arc<Pod>| {
        let has = |name, value| pod.metadata.labels.as_ref().and_then(|labels| labels.get(name)) == Some(value);
        wanted.into_iter().flatten().all(|(name, value)| has(name, value))
    };
    Status {
        conditions: conditions(&parent.status().conditions, failure, now),
        replicas: count(active()),
        fully_labeled: count(active().filter(labeled)),
        ready: count(ready()),
        available: count(ready().filter(|pod| is_available(pod, Some(parent.min_ready_seconds()), now))),
        observed_generation: parent.meta().generation.unwrap_or_default(),
        terminating: K::COUNTS_TERMINATING.then(|| count(leaving())),
    }
}

/// Adds the failure condition if it is new, and removes it if the failure is over.
fn conditions(before: &[Condition], failure: Option<&Failure>, now: Timestamp) -> Vec<Condition> {
    let known = before.iter().any(|condition| condition.type_ == REPLICA_FAILURE);
    let mut conditions = before.to_vec();
    match failure {
        None => conditions.retain(|condition| condition.type_ != REPLICA_FAILURE),
        // The message is not updated: a persistent failure would cause a write each time.
        Some(_) if known => {}
        Some(failure) => conditions.push(Condition {
            type_: REPLICA_FAILURE.to_owned(),
            status: "True".to_owned(),
            // The API has whole seconds only.
            since: Timestamp::from_second(now.as_second()).ok().map(Time),
            reason: Some(failure.reason.to_owned()),
            message: Some(failure.message.clone()),
        }),
    }
    conditions
}

fn count<T>(pods: impl Iterator<Item = T>) -> i32 {
    i32::try_from(pods.count()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
