//! The common interface of replica sets and replication controllers.

use k8s_openapi::api::{
    apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus},
    core::v1::{PodTemplateSpec, ReplicationController, ReplicationControllerCondition, ReplicationControllerStatus},
};

use super::status::{Condition, Status};
use crate::pods::Selecting;

/// An object with a number of identical pods.
pub(crate) trait Parent: Selecting {
    /// Whether its status counts terminating pods.
    const COUNTS_TERMINATING: bool;

    /// The desired number of pods.
    fn desired(&self) -> i32;

    /// The pod template.
    fn template(&self) -> Option<&PodTemplateSpec>;

    /// Returns the number of seconds for which a pod must be ready to be available.
    fn min_ready_seconds(&self) -> i32;

    /// Its status.
    fn status(&self) -> Status;

    /// A copy with another status.
    fn with_status(&self, status: Status) -> Self;
}

/// `None` for zero, which the server omits.
fn unless_zero<N: Default + PartialEq>(number: N) -> Option<N> {
    (number != N::default()).then_some(number)
}

macro_rules! parent {
    (
        $kind:ident, $status:ident, $condition:ident, terminating: $terminating:expr,
        |$old:ident| $was:expr, |$new:ident| { $($field:ident: $value:expr)? }
    ) => {
        impl Parent for $kind {
            const COUNTS_TERMINATING: bool = $terminating;

            fn desired(&self) -> i32 {
                self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
            }

            fn template(&self) -> Option<&PodTemplateSpec> {
                self.spec.as_ref()?.template.as_ref()
            }

            fn min_ready_seconds(&self) -> i32 {
                self.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or_default()
            }

            fn status(&self) -> Status {
                let $old = self.status.clone().unwrap_or_default();
                let conditions = $old.conditions.iter().flatten().map(|condition| Condition {
                    type_: condition.type_.clone(),
                    status: condition.status.clone(),
                    since: condition.last_transition_time.clone(),
                    reason: condition.reason.clone(),
                    message: condition.message.clone(),
                });
                Status {
                    conditions: conditions.collect(),
                    replicas: $old.replicas,
                    fully_labeled: $old.fully_labeled_replicas.unwrap_or_default(),
                    ready: $old.ready_replicas.unwrap_or_default(),
                    available: $old.available_replicas.unwrap_or_default(),
                    observed_generation: $old.observed_generation.unwrap_or_default(),
                    terminating: $was,
                }
            }

            fn with_status(&self, $new: Status) -> Self {
                let conditions = $new.conditions.iter().map(|condition| $condition {
                    type_: condition.type_.clone(),
                    status: condition.status.clone(),
                    last_transition_time: condition.since.clone(),
                    reason: condition.reason.clone(),
                    message: condition.message.clone(),
                });
                let conditions: Vec<_> = conditions.collect();
                let mut changed = self.clone();
                changed.status = Some($status {
                    conditions: (!conditions.is_empty()).then_some(conditions),
                    replicas: $new.replicas,
                    fully_labeled_replicas: unless_zero($new.fully_labeled),
                    ready_replicas: unless_zero($new.ready),
                    available_replicas: unless_zero($new.available),
                    observed_generation: unless_zero($new.observed_generation),
                    $($field: $value,)?
                });
                changed
            }
        }
    };
}

parent!(
    ReplicaSet, ReplicaSetStatus, ReplicaSetCondition, terminating: true,
    |old| old.terminating_replicas, |new| { terminating_replicas: new.terminating }
);

parent!(
    ReplicationController, ReplicationControllerStatus, ReplicationControllerCondition, terminating: false,
    |old| None, |new| {}
);
