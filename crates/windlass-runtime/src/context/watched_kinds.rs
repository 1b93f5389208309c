//! The kinds that a controller watches and can read.

use std::{
    any::{Any, TypeId},
    sync::Arc,
};

use hashbrown::HashMap;
use kube::core::ApiResource;
use parking_lot::{Mutex, RwLock};

use super::{
    any_kind::{KindInfo, kind_info},
    first_apply::ManagedFields,
    intent::LastApplied,
};
use crate::{
    any_object::AnyObject,
    cache::{AnyInformer, Event, Informer, Subscription},
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
}

/// By Rust type; kinds known at run time share one.
type Kinds = HashMap<TypeId, Vec<Arc<Entry>>>;

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
    _forgetting: Subscription,
}

impl WatchedKinds {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a kind. `scope` must be the scope of the informer.
    pub(crate) fn insert<K: Object>(&self, dynamic: &K::DynamicType, scope: &Scope, informer: Informer<K>) {
        self.insert_any(kind_info::<K>(dynamic), scope, informer.into_any());
    }

    pub(crate) fn insert_any(&self, kind_info: Arc<dyn KindInfo>, scope: &Scope, informer: Arc<AnyInformer>) {
        // Before the lock is taken: subscribing may call handlers, which may read.
        let entry = Entry::new(kind_info, scope, informer);
        let mut kinds = self.kinds.write();
        let entries = kinds.entry(entry.kind_info.object_type()).or_default();
        // Skip duplicates, as of `owns` and `watches` for one kind.
        if !entries.iter().any(|other| other.is_same(&entry)) {
            entries.push(Arc::new(entry));
        }
    }

    pub(super) fn entries_of<K: Object>(&self, dynamic: &K::DynamicType) -> Vec<Arc<Entry>> {
        self.entries(TypeId::of::<K>(), dynamic)
    }

    /// Returns the entries of a Rust type with this `DynamicType`.
    pub(super) fn entries(&self, object: TypeId, dynamic: &dyn Any) -> Vec<Arc<Entry>> {
        let kinds = self.kinds.read();
        let entries = kinds.get(&object).into_iter().flatten();
        entries.filter(|entry| entry.kind_info.is_dynamic(dynamic)).cloned().collect()
    }

    /// Returns the entries of all kinds.
    pub(super) fn all(&self) -> Vec<Arc<Entry>> {
        self.kinds.read().values().flatten().cloned().collect()
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
