//! Deletes events after an hour.
//!
//! kube-apiserver writes events with an etcd lease of one hour, renewed with every write; here a delay queue does the
//! same. The time of the last write comes from the managed fields, which are cached without their field lists for this
//! purpose.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use kube::{
    api::{DeleteParams, Preconditions},
    core::{ObjectMeta, PartialObjectMeta},
};
use windlass::{
    Result,
    cache::Settings,
    context::Context,
    controller::{Action, Controller, Watch},
    operator::Operator,
};

use super::{ClusterCertificates, FIELD_MANAGER};

/// Time for which events are kept after their last write.
const LIFE: SignedDuration = SignedDuration::from_hours(1);

type EventMeta = PartialObjectMeta<Event>;

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let controller = Controller::of("event-expiry-controller", Watch::metadata_of::<Event>(), reconcile);
    let settings = Settings::<EventMeta>::default().keep_managed_fields().transform(|event| {
        event.metadata.managed_fields.iter_mut().flatten().for_each(|entry| entry.fields_v1 = None);
        event.metadata.annotations = None;
    });
    operator
        .configure_caches(|caches| caches.configure(settings))
        .controller(controller.field_manager(FIELD_MANAGER).concurrency(4))
}

async fn reconcile(event: Arc<EventMeta>, ctx: Context) -> Result<Action> {
    let (end, now) =
        (last_write(&event.metadata).saturating_add(LIFE).unwrap_or(Timestamp::MAX), windlass_clock::now());
    if end > now {
        return Ok(Action::requeue_after(Duration::try_from(end.duration_since(now)).unwrap_or_default()));
    }
    // An event that has been written since is kept.
    let preconditions =
        Preconditions { uid: event.metadata.uid.clone(), resource_version: event.metadata.resource_version.clone() };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match ctx.delete_with(&event, &params).await {
        Err(error) if !error.is_conflict() => Err(error.into()),
        _ => Ok(Action::done()),
    }
}

/// Returns the time at which an event was last written, as far as known.
fn last_write(metadata: &ObjectMeta) -> Timestamp {
    let managed = metadata.managed_fields.iter().flatten().filter_map(|entry| entry.time.as_ref());
    managed.chain(&metadata.creation_timestamp).map(|time| time.0).max().unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_write_is_the_newest_time_of_the_metadata() {
        for (metadata, expected) in [
            (json!({"creationTimestamp": "2026-01-01T00:00:00Z"}), "2026-01-01T00:00:00Z"),
            (
                json!({"creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [
                    {"manager": "a", "time": "2026-01-01T00:30:00Z"},
                    {"manager": "b", "time": "2026-01-01T00:20:00Z"},
                    {"manager": "c"},
                ]}),
                "2026-01-01T00:30:00Z",
            ),
        ] {
            assert_eq!(last_write(&serde_json::from_value(metadata).unwrap()), expected.parse().unwrap());
        }
    }
}
