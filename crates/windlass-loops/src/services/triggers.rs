//! The times of changes that cause writes of endpoints.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use parking_lot::Mutex;
use windlass::key::ObjectKey;
use windlass_schema::sorting::Gather as _;

use crate::pods;

/// The times of observed changes, by service. They are written to objects to measure propagation latency, and never
/// influence decisions.
#[derive(Default)]
pub(crate) struct Triggers {
    seen: Mutex<HashMap<ObjectKey, Seen>>,
}

struct Seen {
    service: Option<Timestamp>,
    /// By pod name.
    pods: BTreeMap<String, Timestamp>,
}

impl Triggers {
    /// Returns the time of the earliest change since the last call; for a new service, its creation.
    pub(crate) fn observe(&self, service: &Service, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        let created = service.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let changed = |pod: &Arc<Pod>| {
            let time = pods::ready_condition(pod)?.last_transition_time.as_ref()?.0;
            Some((pod.metadata.name.clone()?, time))
        };
        let now = Seen { service: created, pods: pods.iter().filter_map(changed).gather() };
        let mut all = self.seen.lock();
        let entry = all.entry(ObjectKey::of(service));
        let std::collections::hash_map::Entry::Occupied(mut before) = entry else {
            entry.insert_entry(now);
            return created;
        };
        let news = now.pods.iter().filter(|(name, time)| before.get().pods.get(*name).is_none_or(|last| *time > last));
        let earliest = news.map(|(_, time)| *time).min();
        let recreated = created.filter(|created| before.get().service.is_none_or(|last| *created > last));
        before.insert(now);
        [earliest, recreated].into_iter().flatten().min()
    }

    /// Removes a deleted service.
    pub(crate) fn remove(&self, service: &ObjectKey) {
        self.seen.lock().remove(service);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_earliest_change_since_the_last_call_counts() {
        let service: Service = serde_json::from_value(
            json!({ "metadata": { "name": "s", "namespace": "n", "creationTimestamp": "2026-01-01T00:00:00Z" } }),
        )
        .unwrap();
        let pod = |name: &str, second: i64| -> Arc<Pod> {
            let time = Timestamp::from_second(second).unwrap().to_string();
            let conditions = json!([{ "type": "Ready", "status": "True", "lastTransitionTime": time }]);
            let pod = json!({ "metadata": { "name": name }, "status": { "conditions": conditions } });
            Arc::new(serde_json::from_value(pod).unwrap())
        };
        let triggers = Triggers::default();
        let seconds = |pods: &[Arc<Pod>]| triggers.observe(&service, pods).map(Timestamp::as_second);
        let created = service.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
        assert_eq!(seconds(&[pod("a", 5)]), created);
        assert_eq!(seconds(&[pod("a", 5)]), None);
        assert_eq!(seconds(&[pod("a", 9), pod("b", 7)]), Some(7));
        assert_eq!(seconds(&[pod("b", 7)]), None);
        triggers.remove(&ObjectKey::of(&service));
        assert_eq!(seconds(&[]), created);
    }
}
