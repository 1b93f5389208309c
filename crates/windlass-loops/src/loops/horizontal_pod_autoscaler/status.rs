//! The status of an autoscaler.

use jiff::Timestamp;
use k8s_openapi::{
    api::autoscaling::v2::{HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus, MetricStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};

/// Sets a condition. Its transition time changes with its status.
pub(super) fn set(
    status: &mut HorizontalPodAutoscalerStatus,
    type_: &str,
    holds: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let conditions = status.conditions.get_or_insert_default();
    let place = conditions.iter().position(|condition| condition.type_ == type_).unwrap_or_else(|| {
        conditions.push(HorizontalPodAutoscalerCondition { type_: type_.to_owned(), ..Default::default() });
        conditions.len() - 1
    });
    let condition = &mut conditions[place];
    let holds = if holds { "True" } else { "False" };
    if condition.status != holds {
        condition.last_transition_time = Some(seconds(now));
    }
    condition.status = holds.to_owned();
    condition.reason = Some(reason.to_owned());
    condition.message = Some(message.to_owned());
}

/// Sets the current and desired replicas, and the metrics.
pub(super) fn count(
    status: &mut HorizontalPodAutoscalerStatus,
    current: i32,
    desired: i32,
    metrics: Option<Vec<MetricStatus>>,
) {
    status.current_replicas = Some(current).filter(|current| *current != 0);
    status.desired_replicas = desired;
    status.current_metrics = metrics;
    status.observed_generation = None;
}

/// A time in whole seconds, as in the API.
pub(super) fn seconds(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_changes_with_the_status() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut status = HorizontalPodAutoscalerStatus::default();
        set(&mut status, "AbleToScale", true, "A", "a", at(1));
        set(&mut status, "AbleToScale", true, "B", "b", at(2));
        let told = |status: &HorizontalPodAutoscalerStatus| {
            let condition = &status.conditions.as_ref().unwrap()[0];
            (condition.reason.clone().unwrap(), condition.last_transition_time.as_ref().unwrap().0)
        };
        assert_eq!(told(&status), ("B".to_owned(), at(1)));
        set(&mut status, "AbleToScale", false, "C", "c", at(3));
        assert_eq!(told(&status), ("C".to_owned(), at(3)));
    }
}
