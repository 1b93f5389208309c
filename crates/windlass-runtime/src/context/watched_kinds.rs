//! The kinds that a controller watches, and so can read.

use std::{
    any::{Any, TypeId},
    sync::Arc,
};

use hashbrown::HashMap;
use kube::core::ApiResource;
use parking_lot::{Mutex, RwLock};

use super::{
    any_kind::{KindInfo, kind_info},
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

/// The kinds that a controller watches: what its [contexts](super::Context) read. A cheap handle: clones share them.
///
/// A kind may be there several times, with different scopes; it reads as the union of them.
#[derive(Clone, Default)]
pub(crate) struct WatchedKinds {
    kinds: Arc<RwLock<Kinds>>,
}

/// By Rust type; types known at run time share one.
type Kinds = HashMap<TypeId, Vec<Arc<Entry>>>;

/// One kind within one scope.
pub(super) struct Entry {
    pub(super) kind_info: Arc<dyn KindInfo>,
    pub(super) resource: ApiResource,
    scope: Scope,
    pub(super) informer: Arc<AnyInformer>,
    /// What was applied to objects of this kind. Entries go with their objects.
    pub(super) last_applied: Arc<Mutex<LastApplied>>,
    _forgetting: Subscription,
}

impl WatchedKinds {
    /// No kinds.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a kind. `scope` is that of the informer.
    pub(crate) fn insert<K: Object>(&self, dynamic: &K::DynamicType, scope: &Scope, informer: Informer<K>) {
        self.insert_any(kind_info::<K>(dynamic), scope, informer.into_any());
    }

    pub(crate) fn insert_any(&self, kind_info: Arc<dyn KindInfo>, scope: &Scope, informer: Arc<AnyInformer>) {
        // Before the lock: to subscribe may call handlers, which may read.
        let entry = Entry::new(kind_info, scope, informer);
        let mut kinds = self.kinds.write();
        let entries = kinds.entry(entry.kind_info.object_type()).or_default();
        // The same again, as by `owns` and `watches` of one kind.
        if !entries.iter().any(|other| other.is_same(&entry)) {
            entries.push(Arc::new(entry));
        }
    }

    pub(super) fn entries_of<K: Object>(&self, dynamic: &K::DynamicType) -> Vec<Arc<Entry>> {
        self.entries(TypeId::of::<K>(), dynamic)
    }

    /// The entries of a Rust type that are this kind of it.
    pub(super) fn entries(&self, object: TypeId, dynamic: &dyn Any) -> Vec<Arc<Entry>> {
        let kinds = self.kinds.read();
        let entries = kinds.get(&object).into_iter().flatten();
        entries.filter(|entry| entry.kind_info.is_dynamic(dynamic)).cloned().collect()
    }

    /// All of them, of whichever kind.
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
        Self { kind_info, resource, scope: scope.clone(), informer, last_applied, _forgetting: forgetting }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.kind_info.is_dynamic(other.kind_info.dynamic()) && self.scope == other.scope
    }

    /// The informer in the type of its objects.
    pub(super) fn informer<K: Object>(&self) -> Informer<K> {
        self.informer.typed()
    }

    /// The objects whose controller has a uid.
    pub(super) fn controlled_by(&self, uid: &str) -> Vec<Arc<dyn AnyObject>> {
        let mut objects = self.informer.owned_by(uid);
        objects.retain(|object| controller_of(object.metadata()).is_some_and(|owner| owner.uid == uid));
        objects
    }
}
