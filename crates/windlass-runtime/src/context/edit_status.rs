//! Changes of a status that keep everything else in it.

use std::sync::Arc;

use kube::{api::Patch, core::object::HasStatus};
use serde_json::{Map, Value, json};

use super::{
    Context, ContextError, Kind,
    any_kind::AnyKind,
    error::Verb,
    finalizers::TRIES,
    intent::without_nulls,
    status::{has_observed_generation, settle},
};
use crate::{
    any_object::{AnyObject, typed, typed_mut, unshared, value_of},
    key::ObjectKey,
    object::{Object, revision},
    objects::AsObject,
};

impl Context {
    /// Changes an object's status, and keeps everything in it that the function does not change. See
    /// [`Kind::edit_status`].
    pub async fn edit_status<K>(
        &self,
        object: &impl AsObject<K>,
        edit: impl Fn(&mut K::Status) + Send + Sync,
    ) -> Result<Arc<K>, ContextError>
    where
        K: Object<DynamicType: Default> + HasStatus<Status: Default>,
    {
        self.kind::<K>().edit_status(object, edit).await
    }
}

impl<K: Object + HasStatus<Status: Default>> Kind<'_, K> {
    /// Changes an object's status: the function gets the newest known status, and only what it changes is sent. It may be
    /// called several times, if the object changes at the same time.
    ///
    /// Use it when parts of the status are carried over from one reconcile to the next, such as the time of the last
    /// run, or when several places set different parts. A controller that observes everything again in each reconcile
    /// [sets](Self::set_status) its status instead: what it no longer sets is removed then. A controller should use one
    /// of the two, as fields that were set by the other stay.
    ///
    /// If the kind's status has an `observedGeneration`, it becomes the generation of `object` before the function is
    /// called; so do conditions that the function sets. Conditions keep the time of their last transition unless their
    /// status changes. Nothing is sent if nothing changes.
    ///
    /// ```no_run
    /// # #[derive(kube::CustomResource, Clone, Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
    /// # #[kube(group = "example.com", version = "v1", kind = "Backup", namespaced, status = "BackupStatus")]
    /// # pub struct BackupSpec {}
    /// # #[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
    /// # pub struct BackupStatus { last: Option<String>, runs: i64 }
    /// # async fn done(ctx: &windlass_runtime::context::Context, backup: &Backup) -> windlass_runtime::Result<()> {
    /// ctx.edit_status(backup, |status| status.runs += 1).await?;
    /// # Ok(()) }
    /// ```
    pub async fn edit_status(
        &self,
        object: &impl AsObject<K>,
        edit: impl Fn(&mut K::Status) + Send + Sync,
    ) -> Result<Arc<K>, ContextError> {
        let edit = |object: &mut dyn AnyObject| {
            edit(typed_mut::<K>(object).status_mut().get_or_insert_default());
        };
        self.any().edit_status(object.object(), &edit).await.map(typed)
    }
}

impl AnyKind<'_> {
    /// See [`Kind::edit_status`].
    async fn edit_status(
        &self,
        object: &dyn AnyObject,
        edit: &(dyn Fn(&mut dyn AnyObject) + Send + Sync),
    ) -> Result<Arc<dyn AnyObject>, ContextError> {
        let meta = object.metadata();
        let key = ObjectKey::of_meta(meta);
        let cached = self.cached_in().iter().find_map(|entry| entry.informer.get(&key));
        let cached =
            cached.filter(|cached| cached.metadata().uid == meta.uid && revision(cached.metadata()) >= revision(meta));
        let mut newest = cached.unwrap_or_else(|| object.copy());
        for tries in 1.. {
            let changes = self.status_changes(&newest, meta.generation, edit);
            let changes = changes.map_err(|error| self.target(Verb::SetStatus, &key).shape(error))?;
            if changes.is_empty() {
                return Ok(newest);
            }
            // The resource version ensures that the object was neither recreated nor changed by another client.
            let patch = json!({
                "metadata": { "resourceVersion": newest.metadata().resource_version },
                "status": changes,
            });
            match self.patch_status(&key, &Patch::Merge(patch)).await {
                Err(error) if error.is_conflict() && tries < TRIES => {
                    match self.same(&key, meta.uid.as_deref()).await? {
                        Some(fresh) => newest = fresh,
                        None => return Err(error),
                    }
                }
                answer => return answer,
            }
        }
        unreachable!("the last try returns")
    }

    /// Returns what the function changes in a status, as a merge patch.
    fn status_changes(
        &self,
        newest: &Arc<dyn AnyObject>,
        generation: Option<i64>,
        edit: &(dyn Fn(&mut dyn AnyObject) + Send + Sync),
    ) -> serde_json::Result<Map<String, Value>> {
        let live = value_of(&**newest)?;
        let mut before = live.get("status").cloned().unwrap_or_default();
        without_nulls(&mut before);
        let known_fields = before.as_object().cloned().unwrap_or_default();
        let mut edited = newest.clone();
        if let Some(generation) = generation
            && has_observed_generation(&*self.kind_info, &live, &known_fields)
        {
            let mut observed = live.clone();
            let known = observed["status"]["observedGeneration"].as_i64();
            observed["status"]["observedGeneration"] = known.map_or(generation, |known| known.max(generation)).into();
            if let Ok(object) = self.kind_info.read(&serde_json::to_vec(&observed)?) {
                edited = object;
            }
        }
        edit(unshared(&mut edited));
        let mut after = value_of(&*edited)?.get("status").cloned().unwrap_or_default();
        without_nulls(&mut after);
        // Not known before if the status was missing and has required fields.
        if let (Value::Object(fields), Some(generation)) = (&mut after, generation)
            && !fields.contains_key("observedGeneration")
            && has_observed_generation(&*self.kind_info, &live, fields)
        {
            fields.insert("observedGeneration".into(), generation.into());
        }
        settle(&mut after, &before, generation);
        Ok(changed(&before, &after))
    }
}

/// Returns the merge patch from one object to another.
fn changed(before: &Value, after: &Value) -> Map<String, Value> {
    let none = Map::new();
    let (before, after) = (before.as_object().unwrap_or(&none), after.as_object().unwrap_or(&none));
    let mut patch = Map::new();
    for (field, new) in after {
        match before.get(field) {
            Some(old) if old == new => {}
            Some(old @ Value::Object(_)) if new.is_object() => {
                patch.insert(field.clone(), changed(old, new).into());
            }
            _ => {
                patch.insert(field.clone(), new.clone());
            }
        }
    }
    for field in before.keys().filter(|field| !after.contains_key(*field)) {
        patch.insert(field.clone(), Value::Null);
    }
    patch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_has_only_what_has_changed() {
        let before = json!({"a": 1, "b": {"c": 1, "d": 2}, "gone": true, "list": [1]});
        let after = json!({"a": 1, "b": {"c": 1, "d": 3}, "list": [1, 2], "new": {"x": 1}});
        let patch = json!({"b": {"d": 3}, "gone": null, "list": [1, 2], "new": {"x": 1}});
        assert_eq!(Value::from(changed(&before, &after)), patch);
        assert!(changed(&before, &before).is_empty());
        assert_eq!(Value::from(changed(&Value::Null, &json!({"a": 1}))), json!({"a": 1}));
    }
}
