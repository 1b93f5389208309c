//! Server-side apply, skipped when it would change nothing; and owner references.

use std::sync::Arc;

use kube::{
    api::{Patch, PatchParams},
    core::ObjectMeta,
};
use serde_json::Value;

use super::{
    ContextError, Kind,
    any_kind::{AnyKind, ResourceScope},
    error::Verb,
    finalizers::TRIES,
    intent::{Applied, ApplyTarget, Intent, Precondition},
    watched_kinds::Entry,
};
use crate::{
    any_object::{AnyObject, typed, value_of},
    key::ObjectKey,
    object::{Object, revision},
    objects::owner::{Owner, controller_of},
};

/// Policy for an existing object that has no controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdoptionPolicy {
    /// Leave it unchanged and fail with [`ContextError::NotOurs`]: another client created it.
    #[default]
    Reject,
    /// Become its controller.
    Adopt,
}

impl<K: Object> Kind<'_, K> {
    /// Applies an object by server-side apply. Sets the fields of `object`, and removes fields that an earlier apply
    /// set and this one omits; everything else is unchanged, including server-side defaults. Creates the object if it
    /// does not exist. Takes over fields from other managers.
    ///
    /// If the kind is cached, nothing is sent while the last apply of this process was the same and none of its fields
    /// has changed. For the first apply of an object after the start of the process, the managed fields of the API
    /// server show whether anything would change.
    pub async fn apply(&self, object: K) -> Result<Arc<K>, ContextError> {
        self.any().apply(Box::new(object)).await.map(typed)
    }

    /// Applies an object with an owner: in the owner's namespace if it names none, and with the owner as its
    /// controller. Fails with [`ContextError::NotOurs`] if the object has another controller, or none and must not be
    /// adopted. The kind must be cached, because changes to owned objects should be noticed.
    ///
    /// A stale cache is harmless: an object that is not cached is looked up on the API server before it is created, and
    /// a cached object is changed only if it is still the same one. One race remains: if another client creates an
    /// object of this name between the lookup and the apply, without a controller and with no field that differs from
    /// `object`, it gets this owner. (If a field differs, this is a conflict, and the object is looked up again; the
    /// API server rejects a second controller.)
    pub async fn apply_owned(
        &self,
        owner: &Owner,
        object: K,
        existing: AdoptionPolicy,
    ) -> Result<Arc<K>, ContextError> {
        let object: Box<dyn AnyObject> = Box::new(object);
        self.any().apply_owned(owner, &*object, object.metadata().clone(), existing).await.map(typed)
    }

    /// Creates an object with an owner. Meant for objects with a `generateName`; others are better applied.
    pub async fn create_owned(&self, owner: &Owner, mut object: K) -> Result<Arc<K>, ContextError> {
        let any = self.any();
        any.entries()?;
        any.own(owner, object.meta_mut())?;
        any.create(Box::new(object)).await.map(typed)
    }
}

impl AnyKind<'_> {
    /// See [`Kind::apply`].
    async fn apply(&self, object: Box<dyn AnyObject>) -> Result<Arc<dyn AnyObject>, ContextError> {
        let (key, intent) = self.intent_of(&*object, object.metadata())?;
        self.apply_intent(&key, ApplyTarget::Object, &intent, Precondition::Nothing).await
    }

    /// See [`Kind::apply_owned`]. The object gets this metadata instead of its own, and the owner.
    pub(super) async fn apply_owned(
        &self,
        owner: &Owner,
        object: &dyn AnyObject,
        mut meta: ObjectMeta,
        existing: AdoptionPolicy,
    ) -> Result<Arc<dyn AnyObject>, ContextError> {
        let entries = self.entries()?;
        self.own(owner, &mut meta)?;
        let (key, intent) = self.intent_of(object, &meta)?;
        let mut live = match entries.iter().find_map(|entry| entry.informer.get(&key)) {
            Some(live) => Some(live.metadata().clone()),
            // The cache may be stale, or select by labels.
            None => self.live_metadata(&key).await?,
        };
        for tries in 1.. {
            let guard = match &live {
                Some(live) => {
                    self.check_ours(owner, &key, live, existing)?;
                    live.uid.as_deref().map_or(Precondition::Nothing, Precondition::Uid)
                }
                None => Precondition::Absent,
            };
            match self.apply_intent(&key, ApplyTarget::Object, &intent, guard).await {
                Err(error) if error.is_conflict() && tries < TRIES => live = self.live_metadata(&key).await?,
                answer => return answer,
            }
        }
        unreachable!("the last try returns")
    }

    fn check_ours(
        &self,
        owner: &Owner,
        key: &ObjectKey,
        live: &ObjectMeta,
        existing: AdoptionPolicy,
    ) -> Result<(), ContextError> {
        let controller = controller_of(live);
        let ours = match controller {
            Some(controller) => controller.uid == owner.uid(),
            None => existing == AdoptionPolicy::Adopt,
        };
        if ours {
            return Ok(());
        }
        Err(ContextError::NotOurs {
            kind: self.kind_info.kind(),
            key: key.clone(),
            parent: format!("{} {}", owner.reference().kind, owner.reference().name),
            controller: controller.map(|controller| format!("{} {}", controller.kind, controller.name)),
        })
    }

    /// Returns the intent for an object with this metadata.
    fn intent_of(&self, object: &dyn AnyObject, meta: &ObjectMeta) -> Result<(ObjectKey, Intent), ContextError> {
        let key = ObjectKey::of_meta(meta);
        let target = self.target(Verb::Apply, &key);
        if key.name().is_empty() {
            return Err(target.lacks("name"));
        }
        let value = value_of(object).and_then(|mut value| {
            if let Value::Object(fields) = &mut value {
                fields.insert("metadata".into(), serde_json::to_value(meta)?);
            }
            Ok(value)
        });
        let value = value.map_err(|error| target.shape(error))?;
        let intent = Intent::object(&self.kind_info.resource(), value);
        Ok((key, intent))
    }

    /// Puts an object into its owner's namespace, with the owner as its controller.
    fn own(&self, owner: &Owner, meta: &mut ObjectMeta) -> Result<(), ContextError> {
        if meta.namespace.is_none() && self.kind_info.resource_scope() != ResourceScope::Cluster {
            meta.namespace = owner.namespace().map(str::to_owned);
        }
        owner.own(meta).map_err(|source| ContextError::Owner {
            kind: self.kind_info.kind(),
            key: ObjectKey::of_meta(meta),
            source,
        })
    }

    /// Applies an intent under a precondition, unless everything is in place.
    pub(super) async fn apply_intent(
        &self,
        key: &ObjectKey,
        half: ApplyTarget,
        intent: &Intent,
        guard: Precondition<'_>,
    ) -> Result<Arc<dyn AnyObject>, ContextError> {
        let entries = self.cached_in();
        let cached = entries.iter().find_map(|entry| Some((entry, entry.informer.get(key)?)));
        if let Some((entry, live)) = cached {
            if entry.in_place(key, half, intent, &*live) {
                return Ok(live);
            }
            if guard != Precondition::Absent && self.is_in_place_at_first(entry, key, half, intent, &live).await {
                for entry in &entries {
                    entry.remember(key, half, intent, &live);
                }
                return Ok(live);
            }
        }
        let verb = if half == ApplyTarget::Status { Verb::SetStatus } else { Verb::Apply };
        let request = self.request(verb, key)?;
        let params = PatchParams {
            force: guard != Precondition::Absent,
            ..PatchParams::apply(&self.context.handles.field_manager)
        };
        let patch = Patch::Apply(intent.guarded(guard));
        let request = match half {
            ApplyTarget::Object => request.patch(key.name(), &params, &patch),
            ApplyTarget::Status => request.patch_subresource("status", key.name(), &params, &patch),
        };
        let answer = self.write(self.target(verb, key), request).await?;
        for entry in entries.iter().filter(|_| !self.context.is_dry_run()) {
            entry.remember(key, half, intent, &answer);
        }
        Ok(answer)
    }
}

impl Entry {
    fn in_place(&self, key: &ObjectKey, half: ApplyTarget, intent: &Intent, live: &dyn AnyObject) -> bool {
        let meta = live.metadata();
        let uid = meta.uid.as_deref().unwrap_or_default();
        self.last_applied.lock().in_place(key, half, intent, uid, revision(meta), || self.shown(intent, live))
    }

    /// Returns whether this process has applied the object.
    pub(super) fn has_applied(&self, key: &ObjectKey, half: ApplyTarget) -> bool {
        self.last_applied.lock().contains(key, half)
    }

    fn remember(&self, key: &ObjectKey, half: ApplyTarget, intent: &Intent, answer: &Arc<dyn AnyObject>) {
        let answered = revision(answer.metadata());
        // With a transform, the cached state may have fewer fields than the response.
        let cached = self.informer.get(key).filter(|cached| revision(cached.metadata()) == answered);
        let live = cached.as_ref().unwrap_or(answer);
        let applied = Applied {
            intent: intent.fingerprint,
            uid: answer.metadata().uid.clone().unwrap_or_default(),
            revision: answered,
            shown: self.shown(intent, &**live),
        };
        let uid = applied.uid.clone();
        self.last_applied.lock().remember(key, half, applied);
        if half == ApplyTarget::Object {
            self.managed_fields.forget(key);
        }
        // An object that is not (or no longer) cached cannot be in place, and its deletion has been delivered or never
        // will be. This is checked afterwards, so that a later deletion is delivered later.
        let shown = self.informer.get(key).and_then(|cached| cached.metadata().uid.clone());
        if shown.unwrap_or_default() != uid {
            self.last_applied.lock().forget(key, &uid);
        }
    }

    /// Returns the fingerprint of the intent's fields in an object; `None` if only its metadata is known.
    fn shown(&self, intent: &Intent, live: &dyn AnyObject) -> Option<u64> {
        if self.kind_info.is_metadata() {
            return None;
        }
        value_of(live).ok().map(|live| intent.shown_in(&live))
    }
}
