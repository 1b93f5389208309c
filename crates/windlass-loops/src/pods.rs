//! Pods from the perspective of the loops that create them, and ownership of objects in general.

pub(crate) mod batch;
mod claim;
mod disruption;
mod ranking;
mod selecting;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{Pod, PodCondition, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use windlass::cache::{Index, Informer};

#[allow(unused_imports, reason = "available to all loops")]
pub(crate) use self::{
    claim::{Children, candidates},
    disruption::disruption_target,
    ranking::{rank, rank_alone},
    selecting::{Selecting, compiled, orphans, parents, selected, selecting, selects},
};

/// Maximum length of an object name.
const LONGEST_NAME: usize = 253;

/// Creates a pod from a template, controlled by an owner. The server generates its name, or the caller sets one.
pub(crate) fn from_template(template: &PodTemplateSpec, namespace: &str, prefix: &str, owner: OwnerReference) -> Pod {
    let from = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(prefix.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: from.labels,
            annotations: from.annotations,
            finalizers: from.finalizers,
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// The prefix for names of an owner's pods.
pub(crate) fn name_prefix(owner: &str) -> String {
    // With a dash, the longest names would exceed the limit of a prefix.
    if owner.len() < LONGEST_NAME { format!("{owner}-") } else { owner.to_owned() }
}

/// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

/// Returns whether it is being deleted.
pub fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Returns whether it has neither ended nor is terminating.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !matches!(phase(pod), "Succeeded" | "Failed") && !is_terminating(pod)
}

/// The condition `Ready`.
pub(crate) fn ready_condition(pod: &Pod) -> Option<&PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == "Ready")
}

/// Returns whether it is ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_condition(pod).is_some_and(|condition| condition.status == "True")
}

/// Returns whether it has been ready for at least this many seconds, 0 by default.
pub(crate) fn is_available(pod: &Pod, min_ready_seconds: Option<i32>, now: Timestamp) -> bool {
    let Some(condition) = ready_condition(pod).filter(|condition| condition.status == "True") else { return false };
    let min_ready_seconds = min_ready_seconds.unwrap_or_default();
    if min_ready_seconds == 0 {
        return true;
    }
    let since = condition.last_transition_time.as_ref().map(|time| time.0.as_second());
    since.is_some_and(|since| since + i64::from(min_ready_seconds) <= now.as_second())
}

/// Returns whether it is bound to a node.
pub(crate) fn is_scheduled(pod: &Pod) -> bool {
    node_of(pod).is_some()
}

/// The node of a pod, if it is bound to one.
pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())
}

/// Index of pods by node name.
pub(crate) fn by_node(pods: &Informer<Pod>) -> Index<Pod, String> {
    pods.index("node", |pod: &Pod| node_of(pod).map(str::to_owned).into_iter().collect())
        .expect("an index name must always have the same value type")
}

/// Returns the time until the next ready pod becomes available, if nothing changes.
pub(crate) fn next_available<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Option<Duration> {
    let due = |pod: &Pod| {
        let since =
            ready_condition(pod).filter(|condition| condition.status == "True")?.last_transition_time.as_ref()?;
        let due = since.0.checked_add(SignedDuration::from_secs(min_ready_seconds.into())).ok()?;
        Duration::try_from(due.duration_since(now)).ok().filter(|wait| !wait.is_zero())
    };
    pods.into_iter().filter_map(due).min()
}
