//! First applies of a process: skipped if the API server's managed fields show that nothing would change.
//!
//! After a restart or a failover, or when keys move to this replica, every object is applied once although most of them
//! are in place, and an operator may have tens of thousands. Caches do not keep managed fields, so they are fetched: for
//! the first few objects of a kind one by one, then for all of them with one list, in pages. The list is dropped after a
//! while, and fetched again if it is needed again. If it cannot be fetched, applies are sent without it for a while.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::FutureExt as _;
use hashbrown::HashMap;
use kube::{
    api::{GetParams, ListParams},
    core::{ObjectList, ObjectMeta, PartialObjectMeta},
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{task::JoinSet, time::Instant};

use super::{
    ContextError,
    any_kind::AnyKind,
    error::Verb,
    intent::{ApplyTarget, Intent},
    ownership::{is_in_place, may_be_in_place, subresource},
    watched_kinds::Entry,
};
use crate::{
    any_object::{AnyObject, value_of},
    context::intent::without_nulls,
    key::ObjectKey,
    lease::Shard,
    object::revision,
    objects::owner::controller_of,
};

/// Number of objects of a kind that are looked up one by one: an operator with few objects should not list many.
const SINGLE: usize = 16;
/// Objects per page of a list.
const PAGE: u32 = 500;
/// Time after which listed managed fields are dropped: all objects have been reconciled, or have changed. Objects that are
/// applied for the first time later are looked up anew.
const KEEP: Duration = Duration::from_secs(600);
/// Time for which nothing is fetched after the first failure. It doubles with each further one, up to `KEEP`.
const FIRST_PAUSE: Duration = Duration::from_secs(30);

/// Managed fields of the objects of one kind, while they are needed.
#[derive(Default)]
pub(super) struct ManagedFields {
    state: Arc<Mutex<State>>,
    /// Held while they are listed.
    listing: tokio::sync::Mutex<()>,
    /// The task that drops what was listed.
    dropping: Mutex<JoinSet<()>>,
}

#[derive(Default)]
struct State {
    looked_up: usize,
    listed: Option<Listed>,
    /// Number of failures in a row, and when to fetch again.
    failed: Option<(u32, Instant)>,
}

/// Managed fields of all objects of a kind that may belong to this process.
struct Listed {
    objects: HashMap<ObjectKey, Managed>,
    /// The share of keys at that time.
    shard: Shard,
}

/// The applied fields of our manager, at a revision of the object.
#[derive(Clone)]
struct Managed {
    revision: u64,
    /// By subresource, as JSON, which is compact.
    fields: Vec<(String, Box<[u8]>)>,
}

impl Managed {
    /// Returns `None` if the manager has applied nothing.
    fn of(meta: &ObjectMeta, manager: &str) -> Option<Self> {
        let ours =
            meta.managed_fields.iter().flatten().filter(|entry| {
                entry.manager.as_deref() == Some(manager) && entry.operation.as_deref() == Some("Apply")
            });
        let fields = ours.filter_map(|entry| {
            let fields = serde_json::to_vec(entry.fields_v1.as_ref()?).ok()?;
            Some((entry.subresource.clone().unwrap_or_default(), fields.into()))
        });
        let fields: Vec<_> = fields.collect();
        (!fields.is_empty()).then(|| Self { revision: revision(meta), fields })
    }

    fn fields(&self, half: ApplyTarget) -> Option<Value> {
        let (_, fields) = self.fields.iter().find(|(of, _)| of == subresource(half))?;
        serde_json::from_slice(fields).ok()
    }
}

impl AnyKind<'_> {
    /// Returns whether the first apply of an object would change nothing. Errors do not fail the apply.
    pub(super) async fn is_in_place_at_first(
        &self,
        entry: &Entry,
        key: &ObjectKey,
        half: ApplyTarget,
        intent: &Intent,
        live: &Arc<dyn AnyObject>,
    ) -> bool {
        if self.kind_info.is_metadata() || entry.has_applied(key, half) {
            return false;
        }
        let Ok(mut shown) = value_of(&**live) else { return false };
        without_nulls(&mut shown);
        if !may_be_in_place(intent, &shown) {
            return false;
        }
        let managed = match self.managed(entry, key, live.metadata()).await {
            Ok(managed) => managed,
            Err(error) => {
                let error = crate::Error::from(error);
                tracing::info!(%error, "failed to fetch managed fields; applying without them for a while");
                return false;
            }
        };
        // They prove nothing if they belong to another state than the cached one.
        let managed = managed.filter(|managed| managed.revision == revision(live.metadata()));
        managed.and_then(|managed| managed.fields(half)).is_some_and(|fields| is_in_place(intent, &fields, &shown))
    }

    async fn managed(
        &self,
        entry: &Entry,
        key: &ObjectKey,
        live: &ObjectMeta,
    ) -> Result<Option<Managed>, ContextError> {
        if entry.managed_fields.state.lock().is_paused() {
            return Ok(None);
        }
        let managed = self.fetch_managed(entry, key, live).await;
        if managed.is_err() {
            entry.managed_fields.state.lock().failed();
        }
        managed
    }

    async fn fetch_managed(
        &self,
        entry: &Entry,
        key: &ObjectKey,
        live: &ObjectMeta,
    ) -> Result<Option<Managed>, ContextError> {
        let managed_fields = &entry.managed_fields;
        if managed_fields.state.lock().counts_single() {
            let request = self.request(Verb::Get, key)?.get_metadata(key.name(), &GetParams::default());
            let Some(text) = self.fetch(key, request).await? else { return Ok(None) };
            let object: PartialObjectMeta =
                serde_json::from_str(&text).map_err(|error| self.target(Verb::Get, key).shape(error))?;
            return Ok(Managed::of(&object.metadata, self.context.field_manager()));
        }
        // If this is dropped, another call lists.
        let _listing = managed_fields.listing.lock().await;
        if let Some(known) = managed_fields.state.lock().listed(key) {
            return Ok(known);
        }
        // The list that this call has waited for may have failed.
        if managed_fields.state.lock().is_paused() {
            return Ok(None);
        }
        // Before the request: what belongs to this process later is listed again.
        let mut shard = self.context.shard().clone();
        shard.mark_unchanged();
        let primary = self.controlling_primary(live);
        let is_wanted = |meta: &ObjectMeta| primary.is_none_or(|primary| may_belong(&shard, primary, meta));
        let objects = self.list_managed(entry, is_wanted).await?;
        let managed = objects.get(key).cloned();
        managed_fields.keep(Listed { objects, shard });
        Ok(managed)
    }

    /// Returns the object that is being reconciled if it controls this one. Then others of the kind will be controlled like
    /// this.
    fn controlling_primary(&self, meta: &ObjectMeta) -> Option<&ObjectKey> {
        let owner = controller_of(meta)?;
        self.context.primary.as_ref().filter(|primary| primary.name() == owner.name)
    }

    async fn list_managed(
        &self,
        entry: &Entry,
        is_wanted: impl Fn(&ObjectMeta) -> bool,
    ) -> Result<HashMap<ObjectKey, Managed>, ContextError> {
        let scope = entry.scope();
        let mut params = ListParams {
            label_selector: scope.labels.clone(),
            field_selector: scope.fields.clone(),
            ..ListParams::default()
        };
        params.limit = Some(PAGE);
        let mut listed = HashMap::new();
        loop {
            let (target, text) = self.live_metadata_list_text(scope.namespace.as_deref(), &params).await?;
            let page: ObjectList<PartialObjectMeta> =
                serde_json::from_str(&text).map_err(|error| target.shape(error))?;
            for object in page.items.iter().filter(|object| is_wanted(&object.metadata)) {
                if let Some(managed) = Managed::of(&object.metadata, self.context.field_manager()) {
                    listed.insert(ObjectKey::of_meta(&object.metadata), managed);
                }
            }
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                return Ok(listed);
            }
        }
    }
}

/// Returns whether an object may be applied by this process, in a reconcile of its controlling owner. At worst, another one is
/// applied once more.
fn may_belong(shard: &Shard, primary: &ObjectKey, meta: &ObjectMeta) -> bool {
    let Some(owner) = controller_of(meta) else { return true };
    let namespace = primary.namespace().and(meta.namespace.as_deref());
    shard.owns(&ObjectKey::namespaced(namespace.unwrap_or_default(), &owner.name))
}

impl ManagedFields {
    /// Drops what is known of an object, which has been applied.
    pub(super) fn forget(&self, key: &ObjectKey) {
        if let Some(listed) = &mut self.state.lock().listed {
            listed.objects.remove(key);
        }
    }

    /// Keeps what was listed for a while.
    fn keep(&self, listed: Listed) {
        {
            let mut state = self.state.lock();
            (state.listed, state.failed) = (Some(listed), None);
        }
        let state: Weak<Mutex<State>> = Arc::downgrade(&self.state);
        let mut dropping = JoinSet::new();
        let task = async move {
            tokio::time::sleep(KEEP).await;
            if let Some(state) = state.upgrade() {
                *state.lock() = State::default();
            }
        };
        dropping.spawn(task.boxed());
        *self.dropping.lock() = dropping;
    }
}

impl State {
    /// Returns whether another object is looked up alone.
    fn counts_single(&mut self) -> bool {
        self.looked_up += usize::from(self.looked_up < SINGLE);
        self.listed.is_none() && self.looked_up < SINGLE
    }

    /// Returns whether nothing is fetched because that has failed.
    fn is_paused(&self) -> bool {
        self.failed.is_some_and(|(_, until)| Instant::now() < until)
    }

    fn failed(&mut self) {
        let times = self.failed.map_or(0, |(times, _)| times);
        let pause = FIRST_PAUSE.saturating_mul(1 << times.min(16)).min(KEEP);
        self.failed = Some((times + 1, Instant::now() + pause));
    }

    /// Returns what is known of an object; `None` if it must be listed.
    fn listed(&self, key: &ObjectKey) -> Option<Option<Managed>> {
        let listed = self.listed.as_ref()?;
        let managed = listed.objects.get(key).cloned();
        // Objects that did not belong to this process may do so now.
        (managed.is_some() || !listed.shard.has_changed()).then_some(managed)
    }
}

#[cfg(test)]
mod tests;
