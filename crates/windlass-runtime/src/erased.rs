//! Objects and informers whose Rust type is forgotten.
//!
//! What is generic over a kind is compiled again for each kind that an operator has, and the async functions of a
//! controller or of a write are tens of kilobytes of machine code each. So what is generic is a thin shell: it forgets
//! the type, calls code that exists once, and [remembers](typed) the type of what comes back.

use std::{
    any::{Any, type_name},
    fmt::Debug,
    sync::Arc,
};

use futures_util::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;

use crate::{
    cache::{Event, Informer, Subscription},
    controller::filter::Change,
    key::ObjectKey,
    object::Object,
    queue::Priority,
};

/// An object of whichever kind: all that is asked of objects by what keeps, watches, writes and hands them on.
pub(crate) trait AnyObject: Any + Debug + Send + Sync {
    /// Its metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// Its metadata, to be changed.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// A copy of it.
    fn copy(&self) -> Arc<dyn AnyObject>;

    /// Appends it as JSON. Always as bytes: each other form would be another copy of all the code that writes a kind.
    fn write_json(&self, to: &mut Vec<u8>) -> serde_json::Result<()>;
}

impl<K: Object> AnyObject for K {
    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        self.meta_mut()
    }

    fn copy(&self) -> Arc<dyn AnyObject> {
        Arc::new(self.clone())
    }

    fn write_json(&self, to: &mut Vec<u8>) -> serde_json::Result<()> {
        serde_json::to_writer(to, self)
    }
}

/// The object with the type that it has.
pub(crate) fn typed<K: Object>(object: Arc<dyn AnyObject>) -> Arc<K> {
    let object: Arc<dyn Any + Send + Sync> = object;
    object.downcast().unwrap_or_else(|_| other_type(type_name::<K>()))
}

/// The same for a reference.
pub(crate) fn typed_ref<K: Object>(object: &dyn AnyObject) -> &K {
    let object: &dyn Any = object;
    object.downcast_ref().unwrap_or_else(|| other_type(type_name::<K>()))
}

/// The same for a reference by which it is changed.
pub(crate) fn typed_mut<K: Object>(object: &mut dyn AnyObject) -> &mut K {
    let object: &mut dyn Any = object;
    object.downcast_mut().unwrap_or_else(|| other_type(type_name::<K>()))
}

/// The object, to be changed: a copy if somebody else has it, too.
pub(crate) fn unshared(object: &mut Arc<dyn AnyObject>) -> &mut dyn AnyObject {
    if Arc::get_mut(object).is_none() {
        *object = object.copy();
    }
    Arc::get_mut(object).expect("a copy must not be shared yet")
}

#[cold]
fn other_type(asked: &str) -> ! {
    unreachable!("what holds objects of type {asked} holds no others")
}

/// An object as JSON.
pub(crate) fn json_of(object: &dyn AnyObject) -> serde_json::Result<Vec<u8>> {
    let mut json = Vec::new();
    object.write_json(&mut json).map(|()| json)
}

/// An object as a tree of JSON.
pub(crate) fn value_of(object: &dyn AnyObject) -> serde_json::Result<serde_json::Value> {
    serde_json::from_slice(&json_of(object)?)
}

/// An informer of whichever kind.
pub(crate) trait AnyInformer: Any + Send + Sync {
    fn resource(&self) -> &ApiResource;
    fn get(&self, key: &ObjectKey) -> Option<Arc<dyn AnyObject>>;
    fn keys(&self) -> Vec<ObjectKey>;
    /// The objects with an owner of a uid.
    fn owned_by(&self, uid: &str) -> Vec<Arc<dyn AnyObject>>;
    fn is_synced(&self) -> bool;
    fn is_absent(&self) -> bool;
    fn synced(&self) -> BoxFuture<'_, ()>;
    fn subscribe(&self, hear: Hear) -> Subscription;
}

/// What is called with each event.
pub(crate) type Hear = Box<dyn FnMut(&AnyChange<'_>) + Send + Sync>;

impl<K: Object> AnyInformer for Informer<K> {
    fn resource(&self) -> &ApiResource {
        Informer::resource(self)
    }

    fn get(&self, key: &ObjectKey) -> Option<Arc<dyn AnyObject>> {
        Informer::get(self, key).map(|object| object as _)
    }

    fn keys(&self) -> Vec<ObjectKey> {
        Informer::keys(self)
    }

    fn owned_by(&self, uid: &str) -> Vec<Arc<dyn AnyObject>> {
        Informer::owned_by(self, uid).into_iter().map(|object| object as _).collect()
    }

    fn is_synced(&self) -> bool {
        Informer::is_synced(self)
    }

    fn is_absent(&self) -> bool {
        Informer::is_absent(self)
    }

    fn synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(Informer::synced(self))
    }

    fn subscribe(&self, mut hear: Hear) -> Subscription {
        Informer::subscribe(self, move |event: Event<K>| hear(&AnyChange::of(&event)))
    }
}

impl dyn AnyInformer {
    /// The informer in its own type again, if it is this one.
    pub(crate) fn typed<K: Object>(&self) -> Option<&Informer<K>> {
        let informer: &dyn Any = self;
        informer.downcast_ref()
    }
}

/// A [`Change`] of an object of whichever kind.
pub(crate) struct AnyChange<'a> {
    pub(crate) old: Option<&'a dyn AnyObject>,
    pub(crate) new: Option<&'a dyn AnyObject>,
    initial: bool,
    pub(crate) resync: bool,
}

impl<'a> AnyChange<'a> {
    pub(crate) fn of<K: Object>(event: &'a Event<K>) -> Self {
        let Change { old, new, initial, resync } = Change::of(event);
        Self { old: old.map(|old| old as _), new: new.map(|new| new as _), initial, resync }
    }

    /// The change in its own type again.
    pub(crate) fn typed<K: Object>(&self) -> Change<'a, K> {
        let Self { old, new, initial, resync } = *self;
        Change { old: old.map(typed_ref), new: new.map(typed_ref), initial, resync }
    }

    /// The object, in the latest state that there is.
    pub(crate) fn newest(&self) -> Option<&'a dyn AnyObject> {
        self.new.or(self.old)
    }

    /// See [`Change::priority`].
    pub(crate) fn priority(&self) -> Priority {
        if self.initial || self.resync { Priority::LOW } else { Priority::NORMAL }
    }
}
