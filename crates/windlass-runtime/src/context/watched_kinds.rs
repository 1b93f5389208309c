//! The kinds that a controller watches and can read.

use std::{
    any::{Any, TypeId},
    sync::Arc,
};

use hashbrown::HashMap;
use kube::core::ApiResource;
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use super::{
    ContextError, Reader,
    any_kind::{KindInfo, kind_info},
    first_apply::ManagedFields,
    intent::LastApplied,
};
use crate::{
    any_object::AnyObject,
    cache::{AnyInformer, Event, Informer, InformerLease, Subscription},
    key::ObjectKey,
    object::Object,
    objects::owner::controller_of,
    scope::Scope,
};

/// The kinds that a controller watches, and that its [contexts](super::Context) can read. A cheap handle: clones share
/// them.
///
/// A kind may occur several times with different scopes. Reads return the union.
#[derive(Clone, Default)]
pub(crate) struct WatchedKinds {
    kinds: Arc<RwLock<Kinds>>,
    reader: Reader,
}

/// By Rust type; kinds known at run time share one.
type Kinds = HashMap<TypeId, Vec<Slot>>;

/// An entry and its users.
struct Slot {
    entry: Arc<Entry>,
    /// Whether it stays for good.
    pinned: bool,
    leases: usize,
}

/// A kind that can be read until this is dropped.
pub(crate) struct WatchLease {
    watched_kinds: WatchedKinds,
    entry: Arc<Entry>,
    /// Dropped after the kind is no longer readable.
    _informer: Option<InformerLease>,
}

/// One kind within one scope.
pub(super) struct Entry {
    pub(super) kind_info: Arc<dyn KindInfo>,
    pub(super) resource: ApiResource,
    scope: Scope,
    pub(super) informer: Arc<AnyInformer>,
    /// The last apply to each object of this kind. Removed with the object.
    pub(super) last_applied: Arc<Mutex<LastApplied>>,
    /// Managed fields of objects that were not applied yet.
    pub(super) managed_fields: ManagedFields,
    /// Whether the kind is served in any version although it is absent, and when this was found out.
    pub(super) served_otherwise: Mutex<Option<(Instant, bool)>>,
    _forgetting: Subscription,
}

impl WatchedKinds {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Creates an empty set for a part of the program.
    pub(crate) fn of(reader: Reader) -> Self {
        Self { reader, ..Self::default() }
    }

    /// Returns the error for a kind that is not watched.
    pub(super) fn missing(&self, kind: String) -> ContextError {
        ContextError::NotWatched { kind, reader: self.reader }
    }

    /// Adds a kind. `scope` must be the scope of the informer.
    pub(crate) fn insert<K: Object>(&self, dynamic: &K::DynamicType, scope: &Scope, informer: Informer<K>) {
        self.insert_any(kind_info::<K>(dynamic), scope, informer.into_any());
    }

    pub(crate) fn insert_any(&self, kind_info: Arc<dyn KindInfo>, scope: &Scope, informer: Arc<AnyInformer>) {
        self.insert_for(Entry::new(kind_info, scope, informer), |slot| slot.pinned = true);
    }

    /// Adds a kind until the lease is dropped.
    pub(crate) fn insert_leased(
        &self,
        kind_info: Arc<dyn KindInfo>,
        scope: &Scope,
        informer: Arc<AnyInformer>,
        lease: Option<InformerLease>,
    ) -> WatchLease {
        let entry = self.insert_for(Entry::new(kind_info, scope, informer), |slot| slot.leases += 1);
        WatchLease { watched_kinds: self.clone(), entry, _informer: lease }
    }

    /// Adds an entry, or finds one of the same kind and scope, as of `owns` and `watches` for one kind. The entry is created
    /// before the lock is taken: subscribing may call handlers, which may read.
    fn insert_for(&self, entry: Entry, register: impl FnOnce(&mut Slot)) -> Arc<Entry> {
        let entry = Arc::new(entry);
        let mut kinds = self.kinds.write();
        let slots = kinds.entry(entry.kind_info.object_type()).or_default();
        let place = slots.iter().position(|other| other.entry.is_same(&entry));
        let place = place.unwrap_or_else(|| {
            slots.push(Slot { entry: entry.clone(), pinned: false, leases: 0 });
            slots.len() - 1
        });
        register(&mut slots[place]);
        slots[place].entry.clone()
    }

    pub(super) fn entries_of<K: Object>(&self, dynamic: &K::DynamicType) -> Vec<Arc<Entry>> {
        self.entries(TypeId::of::<K>(), dynamic)
    }

    /// Returns the entries of a Rust type with this `DynamicType`.
    pub(super) fn entries(&self, object: TypeId, dynamic: &dyn Any) -> Vec<Arc<Entry>> {
        let kinds = self.kinds.read();
        let entries = kinds.get(&object).into_iter().flatten().map(|slot| &slot.entry);
        entries.filter(|entry| entry.kind_info.is_dynamic(dynamic)).cloned().collect()
    }

    /// Returns the entries of all kinds.
    pub(super) fn all(&self) -> Vec<Arc<Entry>> {
        self.kinds.read().values().flatten().map(|slot| slot.entry.clone()).collect()
    }
}

impl Drop for WatchLease {
    fn drop(&mut self) {
        let mut kinds = self.watched_kinds.kinds.write();
        let Some(slots) = kinds.get_mut(&self.entry.kind_info.object_type()) else { return };
        let Some(place) = slots.iter().position(|slot| Arc::ptr_eq(&slot.entry, &self.entry)) else { return };
        slots[place].leases -= 1;
        if slots[place].leases == 0 && !slots[place].pinned {
            let removed = slots.swap_remove(place);
            drop(kinds);
            // Not under the lock: its subscription ends with it.
            drop(removed);
        }
    }
}

impl Entry {
    fn new(kind_info: Arc<dyn KindInfo>, scope: &Scope, informer: Arc<AnyInformer>) -> Self {
        let last_applied = Arc::new(Mutex::new(LastApplied::default()));
        let forgotten = Arc::clone(&last_applied);
        let forgetting = informer.subscribe(Box::new(move |event| {
            if let Event::Deleted { object } = event {
                let meta = object.metadata();
                forgotten.lock().forget(&ObjectKey::of_meta(meta), meta.uid.as_deref().unwrap_or_default());
            }
        }));
        let resource = kind_info.resource();
        Self {
            kind_info,
            resource,
            scope: scope.clone(),
            informer,
            last_applied,
            managed_fields: ManagedFields::default(),
            served_otherwise: Mutex::default(),
            _forgetting: forgetting,
        }
    }

    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    fn is_same(&self, other: &Self) -> bool {
        self.kind_info.is_dynamic(other.kind_info.dynamic()) && self.scope == other.scope
    }

    /// Returns the typed informer.
    pub(super) fn informer<K: Object>(&self) -> Informer<K> {
        self.informer.typed()
    }

    /// Returns the objects whose controller has this UID.
    pub(super) fn controlled_by(&self, uid: &str) -> Vec<Arc<dyn AnyObject>> {
        let mut objects = self.informer.owned_by(uid);
        objects.retain(|object| controller_of(object.metadata()).is_some_and(|owner| owner.uid == uid));
        objects
    }
}
