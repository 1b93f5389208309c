//! The status of a budget. Pure.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        core::v1::Pod,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    },
    apimachinery::pkg::{
        apis::meta::v1::{Condition, Time},
        util::intstr::IntOrString,
    },
};

use crate::pods;

/// The condition of a budget.
const CONDITION: &str = "DisruptionAllowed";
/// Time limit for the deletion of an evicted pod.
const DELETION: SignedDuration = SignedDuration::from_mins(2);

/// Numbers of pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Expected pods.
    pub(super) expected: i32,
    /// Pods that must be healthy.
    pub(super) desired: i32,
    /// Healthy pods.
    pub(super) healthy: i32,
}

/// Evicted pods that have not been deleted yet.
#[derive(Debug, Default)]
pub(super) struct Disrupted {
    pub(super) pods: BTreeMap<String, Time>,
    /// Pods whose deletion is overdue.
    pub(super) overdue: Vec<Arc<Pod>>,
    /// Time until the next of them becomes overdue.
    pub(super) again: Option<Duration>,
}

/// Converts a bound to a number of pods out of `total`, rounding percentages up.
pub(super) fn scaled(bound: &IntOrString, total: i32) -> Result<i32, String> {
    match bound {
        IntOrString::Int(number) => Ok(*number),
        IntOrString::String(text) => {
            let percent = text.strip_suffix('%').and_then(|number| number.parse::<i64>().ok());
            let percent =
                percent.ok_or("invalid value for IntOrString: invalid type: string is not a percentage".to_owned())?;
            let exact = i64::from(total).saturating_mul(percent);
            Ok(i32::try_from(exact.div_euclid(100) + i64::from(exact.rem_euclid(100) > 0)).unwrap_or(i32::MAX))
        }
    }
}

/// The evicted pods of a budget that still exist.
pub(super) fn disrupted(budget: &PodDisruptionBudget, pods: &[Arc<Pod>], now: Timestamp) -> Disrupted {
    let mut disrupted = Disrupted::default();
    let Some(noted) = budget.status.as_ref().and_then(|status| status.disrupted_pods.as_ref()) else {
        return disrupted;
    };
    for pod in pods.iter().filter(|pod| !pods::is_terminating(pod)) {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let Some(time) = noted.get(name) else { continue };
        let left = DELETION - now.duration_since(time.0);
        match Duration::try_from(left) {
            Ok(left) => {
                // A second more, so that it has passed by then.
                let again = left + Duration::from_secs(1);
                disrupted.again = Some(disrupted.again.map_or(again, |other| other.min(again)));
                disrupted.pods.insert(name.to_owned(), time.clone());
            }
            Err(_) => disrupted.overdue.push(pod.clone()),
        }
    }
    disrupted
}

/// The number of healthy pods that are not about to be deleted.
pub(super) fn healthy(pods: &[Arc<Pod>], disrupted: &BTreeMap<String, Time>) -> i32 {
    let counts = |pod: &&Arc<Pod>| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        !pods::is_terminating(pod) && !disrupted.contains_key(name) && pods::is_ready(pod)
    };
    i32::try_from(pods.iter().filter(counts).count()).unwrap_or(i32::MAX)
}

/// Returns the new status of a budget, or `None` if it is unchanged.
pub(super) fn status(
    budget: &PodDisruptionBudget,
    counts: Counts,
    disrupted: BTreeMap<String, Time>,
    now: Timestamp,
) -> Option<PodDisruptionBudgetStatus> {
    let old = budget.status.clone().unwrap_or_default();
    let allowed = if counts.expected <= 0 { 0 } else { (counts.healthy - counts.desired).max(0) };
    let generation = budget.metadata.generation;
    let (state, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let is_said = old
        .conditions
        .iter()
        .flatten()
        .any(|condition| condition.type_ == CONDITION && condition.status == state && condition.reason == reason);
    let numbers = (old.current_healthy, old.desired_healthy, old.expected_pods, old.disruptions_allowed);
    if numbers == (Some(counts.healthy), Some(counts.desired), Some(counts.expected), Some(allowed))
        && old.disrupted_pods.clone().unwrap_or_default() == disrupted
        && old.observed_generation == generation
        && is_said
    {
        return None;
    }
    Some(PodDisruptionBudgetStatus {
        current_healthy: Some(counts.healthy),
        desired_healthy: Some(counts.desired),
        expected_pods: Some(counts.expected),
        disruptions_allowed: Some(allowed),
        disrupted_pods: Some(disrupted).filter(|pods| !pods.is_empty()),
        observed_generation: generation,
        conditions: Some(with_condition(old.conditions, state, reason, "", generation, now)),
    })
}

/// Returns the status of a budget whose pods cannot be counted, which allows no disruption, or `None` if it is
/// unchanged.
pub(super) fn failed(budget: &PodDisruptionBudget, why: &str, now: Timestamp) -> Option<PodDisruptionBudgetStatus> {
    let old = budget.status.clone().unwrap_or_default();
    let observed = old.observed_generation;
    let conditions = with_condition(old.conditions.clone(), "False", "SyncFailed", why, observed, now);
    let status =
        PodDisruptionBudgetStatus { disruptions_allowed: Some(0), conditions: Some(conditions), ..old.clone() };
    (status != old).then_some(status)
}

fn with_condition(
    conditions: Option<Vec<Condition>>,
    state: &str,
    reason: &str,
    message: &str,
    observed_generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions = conditions.unwrap_or_default();
    let mut condition = Condition {
        type_: CONDITION.to_owned(),
        status: state.to_owned(),
        observed_generation: observed_generation.filter(|generation| *generation != 0),
        last_transition_time: Time(now),
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    match conditions.iter_mut().find(|condition| condition.type_ == CONDITION) {
        Some(old) => {
            if old.status == state {
                condition.last_transition_time = old.last_transition_time.clone();
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
    conditions
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn budget(status: Value) -> PodDisruptionBudget {
        let budget = json!({"metadata": {"name": "b", "generation": 1}, "status": status});
        serde_json::from_value(budget).unwrap()
    }

    fn pod(name: &str, ready: &str) -> Arc<Pod> {
        let pod = json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn percentages_are_rounded_up() {
        for (bound, total, expected) in [
            (json!(3), 10, Ok(3)),
            (json!("10%"), 10, Ok(1)),
            (json!("10%"), 11, Ok(2)),
            (json!("0%"), 5, Ok(0)),
            (json!("100%"), 7, Ok(7)),
        ] {
            let bound: IntOrString = serde_json::from_value(bound).unwrap();
            assert_eq!(scaled(&bound, total), expected, "{bound:?} of {total}");
        }
        assert!(scaled(&IntOrString::String("ten".into()), 1).is_err());
    }

    #[test]
    fn healthy_pods_beyond_the_desired_number_may_be_disrupted() {
        let counts = |expected, desired, healthy| Counts { expected, desired, healthy };
        for (counts, allowed, reason) in [
            (counts(3, 2, 3), 1, "SufficientPods"),
            (counts(3, 2, 2), 0, "InsufficientPods"),
            (counts(3, 2, 1), 0, "InsufficientPods"),
            (counts(0, 0, 1), 0, "InsufficientPods"),
        ] {
            let first = status(&budget(Value::Null), counts, BTreeMap::new(), at(5)).unwrap();
            assert_eq!((first.disruptions_allowed, first.observed_generation), (Some(allowed), Some(1)));
            assert_eq!(first.conditions.as_ref().unwrap()[0].reason, reason);
            let again = PodDisruptionBudget { status: Some(first), ..budget(Value::Null) };
            assert_eq!(status(&again, counts, BTreeMap::new(), at(9)), None, "a second look finds nothing to write");
        }
    }

    #[test]
    fn the_condition_keeps_its_time_while_it_stays_the_same() {
        let counts = Counts { expected: 1, desired: 1, healthy: 0 };
        let first = status(&budget(Value::Null), counts, BTreeMap::new(), at(5)).unwrap();
        let old = PodDisruptionBudget { status: Some(first), ..budget(Value::Null) };
        let next = status(&old, Counts { healthy: 1, ..counts }, BTreeMap::new(), at(9)).unwrap();
        assert_eq!(next.conditions.unwrap()[0].last_transition_time, Time(at(5)));
        let free = status(&old, Counts { healthy: 2, ..counts }, BTreeMap::new(), at(9)).unwrap();
        assert_eq!(free.conditions.unwrap()[0].last_transition_time, Time(at(9)));
    }

    #[test]
    fn a_failed_budget_allows_no_disruption_and_is_written_once() {
        let budget =
            budget(json!({"disruptionsAllowed": 2, "currentHealthy": 3, "desiredHealthy": 1, "expectedPods": 3}));
        let status = failed(&budget, "no scale", at(5)).unwrap();
        assert_eq!((status.disruptions_allowed, status.current_healthy), (Some(0), Some(3)));
        let condition = &status.conditions.as_ref().unwrap()[0];
        assert_eq!((condition.reason.as_str(), condition.message.as_str()), ("SyncFailed", "no scale"));
        assert_eq!(failed(&PodDisruptionBudget { status: Some(status), ..budget }, "no scale", at(7)), None);
    }

    #[test]
    fn an_evicted_pod_does_not_count_until_it_is_overdue() {
        let evicted = json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
            "disruptedPods": {"a": "1970-01-01T00:00:10Z", "gone": "1970-01-01T00:00:10Z"}});
        let (budget, pods) = (budget(evicted), [pod("a", "True"), pod("b", "True"), pod("c", "False")]);
        let soon = disrupted(&budget, &pods, at(20));
        assert_eq!(soon.pods.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!((soon.again, healthy(&pods, &soon.pods)), (Some(Duration::from_secs(111)), 1));
        let late = disrupted(&budget, &pods, at(131));
        assert_eq!((late.pods.len(), late.overdue.len(), late.again), (0, 1, None));
        assert_eq!(healthy(&pods, &late.pods), 2);
    }
}
