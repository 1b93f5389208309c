//! First applies of a process: skipped if the API server's managed fields show that nothing would change.
//!
//! After a restart or a failover, every object is applied once although most of them are in place, and an operator may
//! have tens of thousands. Caches do not keep managed fields, so they are fetched: for the first few objects of a kind
//! one by one, then for all of them with one list, in pages.

use std::{sync::Arc, time::Duration};

use hashbrown::HashMap;
use kube::{
    api::{GetParams, ListParams},
    core::{ObjectList, ObjectMeta, PartialObjectMeta},
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{sync::OnceCell, time::Instant};

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
    object::revision,
};

/// Number of objects of a kind that are looked up one by one: an operator with few objects should not list many.
const SINGLE: usize = 16;
/// Objects per page of a list.
const PAGE: u32 = 500;
/// Time after which listed managed fields are dropped: all objects have been reconciled, or have changed.
const KEEP: Duration = Duration::from_secs(600);

/// Managed fields of the objects of one kind, while they are needed.
#[derive(Default)]
pub(super) struct ManagedFields {
    state: Mutex<State>,
    list: OnceCell<()>,
}

#[derive(Default)]
struct State {
    looked_up: usize,
    listed: HashMap<ObjectKey, Managed>,
    /// When they were listed.
    since: Option<Instant>,
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
        let managed = match self.managed(entry, key).await {
            Ok(managed) => managed,
            Err(error) => {
                let error = crate::Error::from(error);
                tracing::debug!(%error, "failed to fetch managed fields; applying");
                return false;
            }
        };
        // They prove nothing if they belong to another state than the cached one.
        let managed = managed.filter(|managed| managed.revision == revision(live.metadata()));
        managed.and_then(|managed| managed.fields(half)).is_some_and(|fields| is_in_place(intent, &fields, &shown))
    }

    async fn managed(&self, entry: &Entry, key: &ObjectKey) -> Result<Option<Managed>, ContextError> {
        let managed_fields = &entry.managed_fields;
        if managed_fields.state.lock().counts_single() {
            let request = self.request(Verb::Get, key)?.get_metadata(key.name(), &GetParams::default());
            let Some(text) = self.fetch(key, request).await? else { return Ok(None) };
            let object: PartialObjectMeta =
                serde_json::from_str(&text).map_err(|error| self.target(Verb::Get, key).shape(error))?;
            return Ok(Managed::of(&object.metadata, self.context.field_manager()));
        }
        // If this is dropped, another call lists.
        managed_fields.list.get_or_try_init(|| self.list_managed(entry)).await?;
        let mut state = managed_fields.state.lock();
        if state.since.is_some_and(|since| since.elapsed() > KEEP) {
            state.listed = HashMap::new();
        }
        Ok(state.listed.get(key).cloned())
    }

    async fn list_managed(&self, entry: &Entry) -> Result<(), ContextError> {
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
            for object in &page.items {
                if let Some(managed) = Managed::of(&object.metadata, self.context.field_manager()) {
                    listed.insert(ObjectKey::of_meta(&object.metadata), managed);
                }
            }
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                break;
            }
        }
        let mut state = entry.managed_fields.state.lock();
        (state.listed, state.since) = (listed, Some(Instant::now()));
        Ok(())
    }
}

impl ManagedFields {
    /// Drops what is known of an object, which has been applied.
    pub(super) fn forget(&self, key: &ObjectKey) {
        let mut state = self.state.lock();
        if !state.listed.is_empty() {
            state.listed.remove(key);
        }
    }
}

impl State {
    /// Returns whether another object is looked up alone.
    fn counts_single(&mut self) -> bool {
        self.looked_up += usize::from(self.looked_up < SINGLE);
        self.since.is_none() && self.looked_up < SINGLE
    }
}
