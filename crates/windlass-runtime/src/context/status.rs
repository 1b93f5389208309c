//! Status updates, skipped when they would change nothing.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    ContextError, Kind,
    any_kind::{AnyKind, KindInfo},
    error::Verb,
    finalizers::TRIES,
    intent::{ApplyTarget, Intent, Precondition, without_nulls},
};
use crate::{
    any_object::{AnyObject, typed, value_of},
    key::ObjectKey,
    object::Object,
    objects::AsObject,
};

impl<K: Object> Kind<'_, K> {
    /// Sets the fields of `status` in the object's status, by server-side apply. Fields that others set are kept.
    ///
    /// Start from a new status rather than from the object's: it should contain what this controller observes, and
    /// nothing that another has reported. Conditions keep the time of their last transition unless their status
    /// changes, and get the generation of `object` if they have none.
    ///
    /// Nothing is sent if the status already has these values. If the kind's status has an `observedGeneration` and
    /// `status` does not set it, it becomes the generation of `object`, which is the one that the reconcile has seen.
    /// If another object has taken the name in the meantime, its status is not written.
    pub async fn set_status(&self, object: &impl AsObject<K>, status: impl Serialize) -> Result<Arc<K>, ContextError> {
        // Through bytes, as the kind itself is serialized: another format would be another copy of that code.
        let status = serde_json::to_vec(&status).and_then(|status| serde_json::from_slice(&status));
        self.any().set_status(object.object(), status).await.map(typed)
    }
}

impl AnyKind<'_> {
    /// See [`Kind::set_status`].
    pub(crate) async fn set_status(
        &self,
        object: &dyn AnyObject,
        status: serde_json::Result<Value>,
    ) -> Result<Arc<dyn AnyObject>, ContextError> {
        let meta = object.metadata();
        let key = ObjectKey::of_meta(meta);
        let shape = |error| self.target(Verb::SetStatus, &key).shape(error);
        let mut status = status.map_err(shape)?;
        without_nulls(&mut status);
        // The newest known state of the same object.
        let cached = self.cached_in().iter().find_map(|entry| entry.informer.get(&key));
        let cached = cached.filter(|cached| cached.metadata().uid == meta.uid);
        let newest = cached.as_deref().unwrap_or(object);
        let live = value_of(newest).map_err(shape)?;
        if let Value::Object(fields) = &mut status
            && !fields.contains_key("observedGeneration")
            && let Some(generation) = meta.generation
            && has_observed_generation(&*self.kind_info, &live, fields)
        {
            fields.insert("observedGeneration".into(), generation.into());
        }
        settle(&mut status, &live["status"], meta.generation);
        if let Some(cached) = &cached {
            let mut shown = live.get("status").cloned().unwrap_or_default();
            without_nulls(&mut shown);
            if shown == status {
                return Ok(Arc::clone(cached));
            }
        }
        let intent = Intent::status(&self.kind_info.resource(), &key, status);
        // The resource version keeps the status from another object of this name: the API server does not check the UID
        // here.
        let mut version = newest.metadata().resource_version.clone();
        for tries in 1.. {
            let guard = version.as_deref().map_or(Precondition::Nothing, Precondition::Version);
            match self.apply_intent(&key, ApplyTarget::Status, &intent, guard).await {
                Err(error) if error.is_conflict() && tries < TRIES => {
                    match self.same(&key, meta.uid.as_deref()).await? {
                        Some(fresh) => version = fresh.metadata().resource_version.clone(),
                        None => return Err(error),
                    }
                }
                answer => return answer,
            }
        }
        unreachable!("the last try returns")
    }
}

/// Returns whether a kind's status has a field `observedGeneration`, that is, whether it survives a round trip.
pub(super) fn has_observed_generation(kind: &dyn KindInfo, live: &Value, status: &Map<String, Value>) -> bool {
    // It accepts any field, so it is inconclusive.
    if kind.is_open() {
        return false;
    }
    // Shortcut: the field has been seen before.
    if live["status"].get("observedGeneration").is_some() {
        return true;
    }
    let mut probe = live.clone();
    let mut status = status.clone();
    status.insert("observedGeneration".into(), 1.into());
    probe["status"] = status.into();
    let there = serde_json::to_vec(&probe).and_then(|probe| kind.read(&probe));
    let and_back = there.and_then(|object| value_of(&*object));
    and_back.is_ok_and(|value| value["status"]["observedGeneration"] == 1)
}

/// Completes conditions: an unchanged status keeps its transition time, and all refer to this generation.
pub(super) fn settle(status: &mut Value, live: &Value, generation: Option<i64>) {
    let Some(Value::Array(conditions)) = status.get_mut("conditions") else { return };
    for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
        let mut others = live["conditions"].as_array().into_iter().flatten();
        let old = others.find(|old| old.get("type") == condition.get("type"));
        if old.and_then(Value::as_object) == Some(&*condition) {
            continue;
        }
        if let Some(old) = old
            && old.get("status") == condition.get("status")
            && let Some(time) = old.get("lastTransitionTime")
            && condition.contains_key("lastTransitionTime")
        {
            condition.insert("lastTransitionTime".into(), time.clone());
        }
        if let Some(generation) = generation
            && condition.contains_key("lastTransitionTime")
        {
            condition.entry("observedGeneration").or_insert(generation.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{ApiResource, DynamicObject};
    use serde_json::json;

    use super::*;
    use crate::context::any_kind::kind_info;

    #[test]
    fn conditions_keep_the_time_of_their_last_transition() {
        let live = json!({ "conditions": [
            { "type": "Ready", "status": "True", "lastTransitionTime": "1" },
            { "type": "Available", "status": "True", "lastTransitionTime": "2" },
            { "type": "Theirs", "status": "True", "lastTransitionTime": "3" },
        ] });
        let mut status = json!({ "conditions": [
            { "type": "Available", "status": "False", "lastTransitionTime": "9" },
            { "type": "New", "status": "True", "lastTransitionTime": "9", "observedGeneration": 1 },
            { "type": "Ready", "status": "True", "lastTransitionTime": "9" },
        ] });
        settle(&mut status, &live, Some(5));
        let expected = json!({ "conditions": [
            { "type": "Available", "status": "False", "lastTransitionTime": "9", "observedGeneration": 5 },
            { "type": "New", "status": "True", "lastTransitionTime": "9", "observedGeneration": 1 },
            { "type": "Ready", "status": "True", "lastTransitionTime": "1", "observedGeneration": 5 },
        ] });
        assert_eq!(status, expected);
    }

    #[test]
    fn fields_that_only_look_like_conditions_are_left_alone() {
        for odd in [json!({}), json!(null), json!({"conditions": "x"}), json!({"conditions": [1, {"type": "A"}]})] {
            let mut status = odd.clone();
            settle(&mut status, &odd, Some(5));
            assert_eq!(status, odd);
        }
    }

    #[test]
    fn kinds_with_an_observed_generation_are_known() {
        use k8s_openapi::api::{apps::v1::Deployment, batch::v1::Job, core::v1::Pod};
        let has = |kind: Arc<dyn KindInfo>| has_observed_generation(&*kind, &json!({"metadata": {}}), &Map::new());
        assert!(has(kind_info::<Deployment>(&())));
        assert!(!has(kind_info::<Job>(&())));
        assert!(has(kind_info::<Pod>(&())), "since 1.34");
        assert!(!has(kind_info::<DynamicObject>(&ApiResource::erase::<Pod>(&()))));
    }
}
