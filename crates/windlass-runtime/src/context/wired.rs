//! The kinds that a controller watches, and so can read.

use std::{
    any::{Any, TypeId},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use hashbrown::HashMap;
use kube::{api::DeleteParams, core::ApiResource};
use parking_lot::{Mutex, RwLock};

use super::{Context, ContextError, intent::Memory};
use crate::{
    cache::{Event, Informer, Subscription},
    key::ObjectKey,
    object::{Object, resource_of},
    objects::owner::controller_of,
    scope::Scope,
};

/// The kinds that a controller watches: what its [contexts](super::Context) read. A cheap handle: clones share them.
///
/// A kind may be there several times, with different scopes; it reads as the union of them.
#[derive(Clone, Default)]
pub struct Wired {
    kinds: Arc<RwLock<Kinds>>,
}

/// By Rust type; types known at run time share one.
type Kinds = HashMap<TypeId, Vec<Arc<dyn WiredKind>>>;

/// One kind within one scope.
pub(super) struct Entry<K: Object> {
    pub(super) dynamic: K::DynamicType,
    pub(super) resource: ApiResource,
    pub(super) scope: Scope,
    pub(super) informer: Informer<K>,
    /// What was applied to objects of this kind. Entries go with their objects.
    pub(super) memory: Arc<Mutex<Memory>>,
    _forgetting: Subscription,
}

/// An object as far as pruning looks at it.
pub(super) struct OwnedObject {
    pub(super) key: ObjectKey,
    pub(super) set: Option<String>,
    pub(super) terminating: bool,
    object: Arc<dyn Any + Send + Sync>,
}

/// An [`Entry`] of whichever kind.
pub(super) trait WiredKind: Any + Send + Sync {
    fn resource(&self) -> &ApiResource;

    /// The objects whose controller has a uid.
    fn owned(&self, uid: &str) -> Vec<OwnedObject>;

    /// Deletes an object of [`WiredKind::owned`].
    fn delete<'a>(&'a self, context: &'a Context, owned: &'a OwnedObject) -> BoxFuture<'a, Result<(), ContextError>>;
}

impl Wired {
    /// No kinds.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a kind. `scope` is that of the informer.
    pub fn insert<K: Object>(&self, dynamic: &K::DynamicType, scope: &Scope, informer: Informer<K>) {
        let memory = Arc::new(Mutex::new(Memory::default()));
        let forgotten = Arc::clone(&memory);
        let forgetting = informer.subscribe(move |event| {
            if let Event::Deleted { object } = event {
                let uid = object.meta().uid.as_deref().unwrap_or_default();
                forgotten.lock().forget(&ObjectKey::of(object.as_ref()), uid);
            }
        });
        let entry = Entry {
            dynamic: dynamic.clone(),
            resource: resource_of::<K>(dynamic),
            scope: scope.clone(),
            informer,
            memory,
            _forgetting: forgetting,
        };
        let mut kinds = self.kinds.write();
        let entries = kinds.entry(TypeId::of::<K>()).or_default();
        // The same again, as by `owns` and `watches` of one kind.
        let known = entries.iter().any(|other| {
            let other: &dyn Any = other.as_ref();
            other.downcast_ref::<Entry<K>>().is_some_and(|it| it.dynamic == entry.dynamic && it.scope == entry.scope)
        });
        if !known {
            entries.push(Arc::new(entry));
        }
    }

    /// The informer of a kind; the first, if there are several.
    pub fn get<K: Object>(&self, dynamic: &K::DynamicType) -> Option<Informer<K>> {
        self.entries::<K>(dynamic).first().map(|entry| entry.informer.clone())
    }

    /// Whether a kind can be read.
    pub fn contains<K: Object>(&self, dynamic: &K::DynamicType) -> bool {
        !self.entries::<K>(dynamic).is_empty()
    }

    pub(super) fn entries<K: Object>(&self, dynamic: &K::DynamicType) -> Vec<Arc<Entry<K>>> {
        let kinds = self.kinds.read();
        let entries = kinds.get(&TypeId::of::<K>()).into_iter().flatten();
        entries
            .filter_map(|entry| {
                let entry: Arc<dyn Any + Send + Sync> = Arc::clone(entry) as _;
                entry.downcast::<Entry<K>>().ok().filter(|entry| entry.dynamic == *dynamic)
            })
            .collect()
    }

    /// All of them, of whichever kind.
    pub(super) fn all(&self) -> Vec<Arc<dyn WiredKind>> {
        self.kinds.read().values().flatten().cloned().collect()
    }
}

impl<K: Object> Entry<K> {
    /// The objects whose controller has a uid.
    pub(super) fn controlled_by(&self, uid: &str) -> Vec<Arc<K>> {
        let mut objects = self.informer.owned_by(uid);
        objects.retain(|object| controller_of(object.meta()).is_some_and(|owner| owner.uid == uid));
        objects
    }
}

impl<K: Object> WiredKind for Entry<K> {
    fn resource(&self) -> &ApiResource {
        &self.resource
    }

    fn owned(&self, uid: &str) -> Vec<OwnedObject> {
        let owned = |object: Arc<K>| OwnedObject {
            key: ObjectKey::of(object.as_ref()),
            set: object.meta().labels.as_ref().and_then(|labels| labels.get(super::SET_LABEL).cloned()),
            terminating: object.meta().deletion_timestamp.is_some(),
            object,
        };
        self.controlled_by(uid).into_iter().map(owned).collect()
    }

    fn delete<'a>(&'a self, context: &'a Context, owned: &'a OwnedObject) -> BoxFuture<'a, Result<(), ContextError>> {
        Box::pin(async move {
            let object = Arc::clone(&owned.object).downcast::<K>().expect("an entry must get its own objects back");
            context.kind_with::<K>(&self.dynamic).delete(object.as_ref(), &DeleteParams::background()).await
        })
    }
}
