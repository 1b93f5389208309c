//! Detecting whether a node reports. Pure.
//!
//! A kubelet reports by renewing the lease of its node, or by updating the heartbeat of the `Ready` condition. The time
//! of a report is measured by our own clock, regardless of the times that the kubelet writes.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Node, NodeCondition},
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use tokio::time::Instant;

/// Time without reports of its kubelet after which the status of a node is unknown.
pub(super) const GRACE: Duration = Duration::from_secs(50);
/// Time that a new kubelet has for its first report.
const STARTUP_GRACE: Duration = Duration::from_secs(60);

/// Conditions that become unknown when a node stops reporting.
const CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The current time, monotonic and wall clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) instant: Instant,
    pub(super) time: Timestamp,
}

/// The observed health of a node.
#[derive(Debug, Clone)]
pub(super) struct Health {
    /// Time at which it last reported.
    pub(super) heard: Instant,
    /// The heartbeat of its condition `Ready` at that time, if any.
    heartbeat: Option<Option<Time>>,
    /// The renewal of its lease at that time, if any.
    renewal: Option<Option<Timestamp>>,
}

/// The result of checking a node.
#[derive(Debug)]
pub(super) struct Finding {
    /// The new health.
    pub(super) health: Health,
    /// Whether it was ready.
    pub(super) was_ready: bool,
    /// The status of its condition `Ready`, including pending changes.
    pub(super) ready: Option<String>,
    /// All conditions, if they have to be written.
    pub(super) conditions: Option<Vec<NodeCondition>>,
}

/// Checks a node.
pub(super) fn examine(known: Option<&Health>, node: &Node, lease: Option<&Lease>, now: Now) -> Finding {
    let present = ready_of(node);
    let heartbeat = present.map(|condition| condition.last_heartbeat_time.clone());
    let mut health = match known {
        Some(known) if known.heartbeat == heartbeat => known.clone(),
        // The kubelet started to report, reported again, or lost its condition.
        Some(_) => Health { heard: now.instant, heartbeat, renewal: None },
        None if present.is_some() => Health { heard: now.instant, heartbeat, renewal: None },
        None => Health { heard: created(node, now), heartbeat, renewal: None },
    };
    let before = known.and_then(|known| known.renewal);
    if let Some(lease) = lease {
        let renewal = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0);
        let newer = match before {
            None => true,
            Some(before) => before.is_some() && renewal.is_some() && before < renewal,
        };
        if newer {
            health.renewal = Some(renewal);
            health.heard = now.instant;
        }
    }
    let grace = if present.is_some() { GRACE } else { STARTUP_GRACE };
    let was_ready = present.is_some_and(|ready| ready.status == "True");
    let mut finding = Finding { was_ready, ready: present.map(|ready| ready.status.clone()), conditions: None, health };
    if now.instant.saturating_duration_since(finding.health.heard) > grace {
        let conditions = unknown(node, now.time);
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
        if ready != present {
            finding.health.heartbeat = ready.map(|ready| ready.last_heartbeat_time.clone());
            finding.ready = ready.map(|ready| ready.status.clone());
            finding.conditions = Some(conditions);
        }
    }
    finding
}

/// The condition `Ready` of a node.
pub(super) fn ready_of(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready")
}

/// Returns the time at which a node was created, by the monotonic clock.
fn created(node: &Node, now: Now) -> Instant {
    let created = node.metadata.creation_timestamp.as_ref().map_or(now.time, |time| time.0);
    let age = Duration::try_from(now.time.duration_since(created)).unwrap_or_default();
    now.instant.checked_sub(age).unwrap_or(now.instant)
}

/// The conditions of a node that stopped reporting.
fn unknown(node: &Node, now: Timestamp) -> Vec<NodeCondition> {
    let mut conditions = node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    for kind in CONDITIONS {
        match conditions.iter_mut().find(|condition| condition.type_ == kind) {
            Some(condition) if condition.status == "Unknown" => {}
            Some(condition) => {
                condition.status = "Unknown".to_owned();
                condition.reason = Some("NodeStatusUnknown".to_owned());
                condition.message = Some("Kubelet stopped posting node status.".to_owned());
                condition.last_transition_time = Some(Time(now));
            }
            None => conditions.push(NodeCondition {
                type_: kind.to_owned(),
                status: "Unknown".to_owned(),
                reason: Some("NodeStatusNeverUpdated".to_owned()),
                message: Some("Kubelet never posted node status.".to_owned()),
                last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                last_transition_time: Some(Time(now)),
            }),
        }
    }
    conditions
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const START: &str = "2026-01-01T00:00:00Z";

    fn node(conditions: Value) -> Node {
        let metadata = json!({"name": "n", "creationTimestamp": START});
        serde_json::from_value(json!({"metadata": metadata, "status": {"conditions": conditions}})).unwrap()
    }

    fn lease(second: u32) -> Lease {
        let time = format!("2026-01-01T00:{:02}:{:02}.000000Z", second / 60, second % 60);
        serde_json::from_value(json!({"spec": {"renewTime": time}})).unwrap()
    }

    /// Times of checks, with the node and its lease, and whether it is considered as not reporting.
    fn check(looks: &[(u64, &Node, Option<Lease>, bool)]) {
        let (instant, time) = (Instant::now(), START.parse::<Timestamp>().unwrap());
        let mut health: Option<Health> = None;
        for (second, node, lease, silent) in looks {
            let after = Duration::from_secs(*second);
            let now = Now { instant: instant + after, time: time + after };
            let finding = examine(health.as_ref(), node, lease.as_ref(), now);
            assert_eq!(finding.conditions.is_some(), *silent, "after {second} seconds");
            health = Some(finding.health);
        }
    }

    #[test]
    fn a_node_that_never_reported_has_a_minute() {
        let mute = node(json!([]));
        check(&[(0, &mute, None, false), (60, &mute, None, false), (61, &mute, None, true)]);
        check(&[(300, &mute, None, true)]);
        // Lease renewals are enough.
        check(&[
            (0, &mute, Some(lease(0)), false),
            (55, &mute, Some(lease(50)), false),
            (70, &mute, Some(lease(50)), false),
            (116, &mute, Some(lease(50)), true),
        ]);
    }

    #[test]
    fn a_ready_node_has_fifty_seconds_from_its_last_report() {
        let beat = |second: u32| {
            let time = format!("2026-01-01T00:00:{second:02}Z");
            node(json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": time, "lastTransitionTime": START}]))
        };
        check(&[(0, &beat(0), None, false), (50, &beat(0), None, false), (51, &beat(0), None, true)]);
        check(&[
            (0, &beat(0), None, false),
            (50, &beat(50), None, false),
            (100, &beat(50), None, false),
            (101, &beat(50), None, true),
        ]);
        check(&[
            (0, &beat(0), Some(lease(0)), false),
            (40, &beat(0), Some(lease(40)), false),
            (90, &beat(0), Some(lease(40)), false),
            (91, &beat(0), Some(lease(40)), true),
        ]);
        // Reports from before the first check count from then.
        check(&[(1000, &beat(0), None, false), (1050, &beat(0), None, false), (1051, &beat(0), None, true)]);
    }

    #[test]
    fn a_node_that_stops_reporting_becomes_unknown_once() {
        let now = Now { instant: Instant::now(), time: "2026-01-01T01:00:00Z".parse().unwrap() };
        let later = Now { instant: now.instant + Duration::from_secs(100), ..now };
        let ready = node(json!([
            {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": START},
            {"type": "NetworkUnavailable", "status": "False"},
        ]));
        let first = examine(None, &ready, None, now);
        assert!(first.was_ready && first.conditions.is_none());
        let second = examine(Some(&first.health), &ready, None, later);
        assert!(second.was_ready);
        assert_eq!(second.ready.as_deref(), Some("Unknown"));
        let conditions = second.conditions.unwrap();
        let told: Vec<_> = conditions
            .iter()
            .map(|condition| (condition.type_.as_str(), condition.status.as_str(), condition.reason.as_deref()))
            .collect();
        assert_eq!(
            told,
            [
                ("Ready", "Unknown", Some("NodeStatusUnknown")),
                ("NetworkUnavailable", "False", None),
                ("MemoryPressure", "Unknown", Some("NodeStatusNeverUpdated")),
                ("DiskPressure", "Unknown", Some("NodeStatusNeverUpdated")),
                ("PIDPressure", "Unknown", Some("NodeStatusNeverUpdated")),
            ]
        );
        let silent = node(serde_json::to_value(&conditions).unwrap());
        let third = examine(Some(&second.health), &silent, None, later);
        assert!(!third.was_ready && third.conditions.is_none());
        assert_eq!(third.ready.as_deref(), Some("Unknown"));
    }
}
