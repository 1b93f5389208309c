//! Looking up what has become of writes without response.

use std::{sync::Arc, time::Duration};

use hashbrown::{HashMap, HashSet};
use kube::{
    api::ListParams,
    core::{ApiResource, PartialObjectMeta, Selector, SelectorExt as _},
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Context, ContextError,
    any_kind::{AnyKind, KindInfo},
    error::Verb,
};
use crate::{any_object::AnyObject, key::ObjectKey};

/// First and maximum delay between attempts to look up the outcome of a write.
const FIRST_DELAY: Duration = Duration::from_millis(20);
const LAST_DELAY: Duration = Duration::from_secs(5);

/// Objects whose state must be looked up.
#[derive(Clone)]
pub(super) struct LookUp {
    pub(super) kind_info: Arc<dyn KindInfo>,
    /// The object, or only its namespace.
    pub(super) key: ObjectKey,
    pub(super) subject: Subject,
}

/// The objects that a write was about.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    /// The object of the key.
    Object,
    /// An object whose name was generated, with this prefix.
    Generated(String),
    /// All objects with these labels.
    Selected(Selector),
}

/// Objects of which it is unknown what a write has done to them, by the object that was being reconciled. Clones share
/// them.
#[derive(Clone, Default)]
pub(super) struct UnknownOutcomes(Arc<Mutex<HashMap<ObjectKey, Vec<LookUp>>>>);

impl LookUp {
    /// Returns what distinguishes the object from others.
    fn identity(&self) -> (ApiResource, &ObjectKey, String) {
        let subject = match &self.subject {
            Subject::Object => String::new(),
            Subject::Generated(prefix) => format!("generated {prefix}"),
            Subject::Selected(selector) => format!("selected {selector}"),
        };
        (self.kind_info.resource(), &self.key, subject)
    }

    fn kind<'a>(&self, context: &'a Context) -> AnyKind<'a> {
        AnyKind::new(context, self.kind_info.clone())
    }

    /// Notifies the caches of the state of the object, as soon as the API server responds. If it does not for the time of a
    /// request, that is left to the next reconcile of the object that was being reconciled.
    pub(super) async fn run(self, context: &Context) {
        let attempts = async {
            let mut delay = FIRST_DELAY;
            while let Err(error) = self.kind(context).look_up(&self).await {
                if error.is_final() {
                    return self.give_up(error);
                }
                let error = crate::Error::from(error);
                tracing::debug!(%error, ?delay, "the outcome of a write is still unknown");
                tokio::time::sleep(delay).await;
                delay = (delay * 2).min(LAST_DELAY);
            }
        };
        let limit = context.handles.request_timeout;
        if tokio::time::timeout(limit, attempts).await.is_err() {
            let (kind, key) = (self.kind_info.kind(), &self.key);
            tracing::warn!(
                %kind, %key, ?limit,
                "the outcome of a write without response is unknown; looking it up again before the next reconcile"
            );
            if let Some(primary) = &context.primary {
                context.writes.unknown_outcomes().add(primary, self);
            }
        }
    }

    /// Reports an error that the next attempt would get, too.
    fn give_up(&self, error: ContextError) {
        let (kind, key, error) = (self.kind_info.kind(), &self.key, crate::Error::from(error));
        tracing::warn!(%error, %kind, %key, "the outcome of a write without response is unknown; not looking it up any more");
    }
}

impl UnknownOutcomes {
    fn add(&self, primary: &ObjectKey, unknown: LookUp) {
        let mut all = self.0.lock();
        let known = all.entry(primary.clone()).or_default();
        if !known.iter().any(|one| one.identity() == unknown.identity()) {
            known.push(unknown);
        }
    }

    fn of(&self, primary: &ObjectKey) -> Vec<LookUp> {
        let all = self.0.lock();
        // Usually there are none.
        if all.is_empty() { Vec::new() } else { all.get(primary).cloned().unwrap_or_default() }
    }

    fn remove(&self, primary: &ObjectKey, known: &LookUp) {
        let mut all = self.0.lock();
        if let Some(unknown) = all.get_mut(primary) {
            unknown.retain(|one| one.identity() != known.identity());
            if unknown.is_empty() {
                all.remove(primary);
            }
        }
    }
}

impl std::fmt::Debug for UnknownOutcomes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnknownOutcomes").field("objects", &self.0.lock().len()).finish()
    }
}

impl Context {
    /// Notifies the caches of everything that earlier reconciles of an object have done. Fails if that is unknown, because
    /// the API server does not respond.
    pub(crate) async fn settle(&self, primary: &ObjectKey) -> Result<(), ContextError> {
        self.writes.settled(primary).await;
        let unknown_outcomes = self.writes.unknown_outcomes();
        for unknown in unknown_outcomes.of(primary) {
            if let Err(error) = unknown.kind(self).look_up(&unknown).await {
                if !error.is_final() {
                    let (kind, key) = (unknown.kind_info.kind(), unknown.key);
                    return Err(ContextError::UnknownOutcome { kind, key, source: Box::new(error) });
                }
                unknown.give_up(error);
            }
            unknown_outcomes.remove(primary, &unknown);
        }
        Ok(())
    }
}

impl AnyKind<'_> {
    /// Notifies the caches of the state of the objects.
    async fn look_up(&self, LookUp { key, subject, .. }: &LookUp) -> Result<(), ContextError> {
        let caches = self.cached_in();
        if caches.is_empty() {
            return Ok(());
        }
        match subject {
            Subject::Object => {}
            Subject::Generated(prefix) => return self.look_up_generated(key, prefix).await,
            Subject::Selected(selector) => return self.look_up_selected(key.namespace(), selector).await,
        }
        // Before the request: an object that is cached later is not the one that was deleted.
        let known: Vec<_> = caches.iter().filter_map(|entry| entry.informer.get(key)).collect();
        match self.live_text(key).await? {
            Some(text) => drop(self.register_text(self.target(Verb::Get, key), &text)?),
            None => {
                known.iter().for_each(|known| self.is_gone(key, known.metadata().uid.as_deref().unwrap_or_default()))
            }
        }
        Ok(())
    }

    async fn look_up_selected(&self, namespace: Option<&str>, selector: &Selector) -> Result<(), ContextError> {
        let none = Default::default();
        let is_selected = |object: &Arc<dyn AnyObject>| {
            let meta = object.metadata();
            namespace.is_none_or(|namespace| meta.namespace.as_deref() == Some(namespace))
                && selector.matches(meta.labels.as_ref().unwrap_or(&none))
        };
        let cached = self.cached_in();
        let cached = cached.iter().flat_map(|entry| entry.informer.keys().into_iter().map(move |key| (entry, key)));
        let known: Vec<_> =
            cached.filter_map(|(entry, key)| entry.informer.get(&key)).filter(|object| is_selected(object)).collect();
        let params = match selector.to_string() {
            all if all.is_empty() => ListParams::default(),
            _ => ListParams::default().labels_from(selector),
        };
        let staying = self.register_list(namespace, &params).await?;
        for meta in known.iter().map(|object| object.metadata()) {
            if !meta.uid.as_ref().is_some_and(|uid| staying.contains(uid)) {
                self.is_gone(&ObjectKey::of_meta(meta), meta.uid.as_deref().unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Lists objects, and notifies the caches of them. Returns their UIDs.
    pub(super) async fn register_list(
        &self,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> Result<HashSet<String>, ContextError> {
        let mut uids = HashSet::new();
        let (target, text) = self.live_list_text(namespace, params).await?;
        let items: Items<'_> = serde_json::from_str(&text).map_err(|error| target.clone().shape(error))?;
        for item in items.items {
            let state = self.register_text(target.clone(), item.get())?;
            uids.extend(state.metadata().uid.clone());
        }
        Ok(uids)
    }

    async fn look_up_generated(&self, key: &ObjectKey, prefix: &str) -> Result<(), ContextError> {
        let (target, text) = self.live_list_text(key.namespace(), &ListParams::default()).await?;
        let shape = |error| target.clone().shape(error);
        for item in serde_json::from_str::<Items<'_>>(&text).map_err(shape)?.items {
            let object: PartialObjectMeta = serde_json::from_str(item.get()).map_err(shape)?;
            if object.metadata.generate_name.as_deref() == Some(prefix) {
                self.register_text(target.clone(), item.get())?;
            }
        }
        Ok(())
    }
}

/// The items of a list; none in a Status.
#[derive(Deserialize)]
pub(super) struct Items<'a> {
    #[serde(borrow, default)]
    pub(super) items: Vec<&'a RawValue>,
}
