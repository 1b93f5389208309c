//! The order in which surplus pods are deleted.

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Time};
use windlass_schema::sorting;

use super::{is_active, is_ready, is_scheduled, phase, ready_condition};

/// Annotation with the cost of deleting a pod.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Sorts pods in the order in which they should be deleted. `related` are the pods that do the same work, including
/// these: pods on nodes with many of them are deleted first.
///
/// Pods that do the least come first: without a node, not running, not ready; then the cheapest by their annotation;
/// then pods that share a node with the most others; then the youngest by order of magnitude, so that the choice among
/// pods of similar age is random.
pub(crate) fn rank(pods: &mut [Arc<Pod>], related: &[Arc<Pod>], now: Timestamp) {
    let mut on_node: HashMap<&str, usize> = HashMap::new();
    for pod in related.iter().filter(|pod| is_active(pod)) {
        *on_node.entry(node(pod)).or_default() += 1;
    }
    let neighbours = |pod: &Pod| on_node.get(node(pod)).copied().unwrap_or_default();
    sorting::sort_by(pods, |first, second| compare(first, second, &neighbours, now));
}

/// Sorts pods in the same order without cost and related pods, as for the pods of Jobs.
#[allow(dead_code, reason = "not used by every kind of parent")]
pub(crate) fn rank_alone(pods: &mut [Arc<Pod>]) {
    sorting::sort_by(pods, |first, second| {
        by_duty(first, second)
            .then_with(|| by_time(ready_since(first), ready_since(second)))
            .then_with(|| restarts(second).cmp(&restarts(first)))
            .then_with(|| by_time(created(first), created(second)))
    });
}

fn compare(first: &Pod, second: &Pod, neighbours: &dyn Fn(&Pod) -> usize, now: Timestamp) -> Ordering {
    // A missing time counts as the youngest.
    let age = |since: Option<Timestamp>| since.map(|since| magnitude(since, now));
    by_duty(first, second)
        .then_with(|| deletion_cost(first).cmp(&deletion_cost(second)))
        .then_with(|| neighbours(second).cmp(&neighbours(first)))
        .then_with(|| age(ready_since(first)).cmp(&age(ready_since(second))))
        .then_with(|| restarts(second).cmp(&restarts(first)))
        .then_with(|| age(created(first)).cmp(&age(created(second))))
        .then_with(|| first.metadata.uid.cmp(&second.metadata.uid))
}

/// Pods that do the least come first.
fn by_duty(first: &Pod, second: &Pod) -> Ordering {
    let progress = |pod: &Pod| match phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        "Running" => 2,
        _ => 0,
    };
    is_scheduled(first)
        .cmp(&is_scheduled(second))
        .then_with(|| progress(first).cmp(&progress(second)))
        .then_with(|| is_ready(first).cmp(&is_ready(second)))
}

/// The younger pod comes first; a missing time counts as the youngest.
fn by_time(first: Option<Timestamp>, second: Option<Timestamp>) -> Ordering {
    match (first, second) {
        (Some(first), Some(second)) => second.cmp(&first),
        (first, second) => first.is_some().cmp(&second.is_some()),
    }
}

/// The age in powers of two.
fn magnitude(since: Timestamp, now: Timestamp) -> i64 {
    let nanoseconds = now.duration_since(since).as_nanos();
    u128::try_from(nanoseconds).ok().and_then(u128::checked_ilog2).map_or(-1, i64::from)
}

fn node(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

fn created(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = ready_condition(pod).filter(|condition| condition.status == "True")?;
    ready.last_transition_time.as_ref().map(|Time(time)| *time)
}

/// The highest restart counts among regular containers and among sidecars.
fn restarts(pod: &Pod) -> (i32, i32) {
    let Some(status) = &pod.status else { return (0, 0) };
    let statuses = status.container_statuses.iter().flatten();
    let sidecars: Vec<&str> = pod
        .spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten())
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let beside = status.init_container_statuses.iter().flatten();
    let beside = beside.filter(|status| sidecars.contains(&status.name.as_str()));
    (
        statuses.map(|status| status.restart_count).max().unwrap_or_default(),
        beside.map(|status| status.restart_count).max().unwrap_or_default(),
    )
}

/// An integer without a plus sign or leading zeros; anything else counts as zero.
fn deletion_cost(pod: &Pod) -> i32 {
    let said = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(DELETION_COST));
    let plain = |text: &&String| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        !text.starts_with('+') && (digits == "0" || !digits.starts_with('0'))
    };
    said.filter(plain).and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-01-01T10:00:00Z";

    fn pod(name: &str, change: Value) -> Arc<Pod> {
        let mut value = json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [], "nodeName": "one"},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}],
            },
        });
        for (path, new) in change.as_object().unwrap() {
            *value.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = new.clone();
        }
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn cost(name: &str, cost: &str) -> Arc<Pod> {
        let mut pod = Arc::unwrap_or_clone(pod(name, json!({})));
        pod.metadata.annotations = Some([(DELETION_COST.to_owned(), cost.to_owned())].into());
        Arc::new(pod)
    }

    fn restarted(name: &str, count: i32) -> Arc<Pod> {
        let mut pod = Arc::unwrap_or_clone(pod(name, json!({})));
        let status = json!({"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": count});
        pod.status.as_mut().unwrap().container_statuses = Some(vec![serde_json::from_value(status).unwrap()]);
        Arc::new(pod)
    }

    /// Asserts that the first of two pods comes first, in either input order.
    #[track_caller]
    fn goes_first(first: &Arc<Pod>, second: &Arc<Pod>, related: &[Arc<Pod>]) {
        for mut pods in [[first.clone(), second.clone()], [second.clone(), first.clone()]] {
            rank(&mut pods, related, NOW.parse().unwrap());
            assert_eq!(pods[0].metadata.name, first.metadata.name);
        }
    }

    #[test]
    fn pods_that_do_the_least_come_first() {
        let good = pod("b", json!({}));
        goes_first(&pod("a", json!({"/spec/nodeName": ""})), &good, &[]);
        goes_first(&pod("a", json!({"/status/phase": "Pending"})), &pod("b", json!({"/status/phase": "Unknown"})), &[]);
        goes_first(&pod("a", json!({"/status/phase": "Unknown"})), &good, &[]);
        goes_first(&pod("a", json!({"/status/conditions/0/status": "False"})), &good, &[]);
        goes_first(&cost("z", "-5"), &good, &[]);
        goes_first(&good, &cost("a", "5"), &[]);
        // An invalid number counts as zero.
        goes_first(&cost("a", "-05"), &good, &[]);
        goes_first(&cost("a", "+7"), &good, &[]);
        goes_first(&restarted("z", 3), &good, &[]);
    }

    #[test]
    fn pods_that_share_a_node_come_first() {
        let crowd = [pod("z", json!({})), pod("y", json!({})), pod("a", json!({"/spec/nodeName": "two"}))];
        goes_first(&crowd[0], &crowd[2], &crowd);
        // Pods that have ended do not count.
        let ended = [pod("z", json!({})), pod("y", json!({"/status/phase": "Failed"})), crowd[2].clone()];
        goes_first(&ended[2], &ended[0], &ended);
    }

    #[test]
    fn younger_pods_come_first_and_similar_ages_are_shuffled() {
        let ready = |name, time: &str| pod(name, json!({"/status/conditions/0/lastTransitionTime": time}));
        goes_first(&ready("z", "2026-01-01T09:59:00Z"), &ready("a", "2026-01-01T00:00:00Z"), &[]);
        goes_first(&ready("a", "2026-01-01T01:00:00Z"), &ready("b", "2026-01-01T02:00:00Z"), &[]);
        let made = |name, time: &str| pod(name, json!({"/metadata/creationTimestamp": time}));
        goes_first(&made("z", "2026-01-01T09:59:00Z"), &made("a", "2026-01-01T00:00:00Z"), &[]);
        let mut pods = [made("a", "2026-01-01T01:00:00Z"), made("b", "2026-01-01T02:00:00Z")];
        rank_alone(&mut pods);
        assert_eq!(pods[0].metadata.name.as_deref(), Some("b"));
    }
}
