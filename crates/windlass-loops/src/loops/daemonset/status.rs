//! The status of a daemon set.

use k8s_openapi::api::apps::v1::DaemonSetStatus;

use super::{fit::fit, plan::View};
use crate::pods;

/// Computes the status of a set with these pods and nodes.
pub(super) fn of(view: &View<'_>, collisions: i32) -> DaemonSetStatus {
    let by_node = view.by_node();
    let mut status = view.set.status.clone().unwrap_or_default();
    let [mut desired, mut current, mut misscheduled, mut ready, mut available, mut updated] = [0; 6];
    for node in view.nodes {
        let first = by_node.get(node.metadata.name.as_deref().unwrap_or_default()).and_then(|pods| pods.first());
        if !fit(view.set, node).runs {
            misscheduled += i32::from(first.is_some());
            continue;
        }
        desired += 1;
        let Some(pod) = first else { continue };
        current += 1;
        ready += i32::from(pods::is_ready(pod));
        available += i32::from(view.is_available(pod));
        updated += i32::from(view.is_updated(pod));
    }
    let unless_zero = |count: i32| (count != 0).then_some(count);
    status.observed_generation = view.set.metadata.generation;
    status.desired_number_scheduled = desired;
    status.current_number_scheduled = current;
    status.number_misscheduled = misscheduled;
    status.number_ready = ready;
    status.updated_number_scheduled = unless_zero(updated);
    status.number_available = unless_zero(available);
    status.number_unavailable = unless_zero(desired - available);
    if collisions != 0 {
        status.collision_count = Some(collisions);
    }
    status
}
