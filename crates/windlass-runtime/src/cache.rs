//! Shared informers: one watch per resource and scope.
//!
//! [`Caches`] holds the informers of a process. An [`Informer`] keeps the objects of one resource and scope. It can be
//! read by key, namespace, owner, label selector or a custom [`Index`], and it calls handlers with every [`Event`].
//! Objects are kept in `Arc`s and never copied. In a small informer, they are parsed once. In an informer of more than
//! 1,000 objects, objects that are not read are kept as text, which takes about half of the memory, and parsed when they
//! are read: see [`Packing`].
//!
//! **Order.** A handler sees the states of an object in order of their revision, and none twice. An object that was
//! deleted and recreated under the same name is a `Deleted` and an `Added`. If the watch was interrupted for so long
//! that a new list was needed, all changes in between are delivered as events, including deletions.
//!
//! **Own writes.** [`Caches::wrote`] and [`Caches::deleted`] put the writes of this process into the informers before
//! the watch delivers them, and keep older states out. The [context](crate::context) calls them. Code that writes by
//! other means can call them as well, or wait with [`Informer::caught_up`].
//!
//! **Resources that are not served**, for example because a CRD is missing, have informers that are empty and not
//! synced. When a CRD is removed, all its objects are deleted from the cache, and the informer waits for it to return.

use std::sync::Arc;

mod any_informer;
mod caches;
mod cell;
mod dispatch;
mod index;
mod informer;
mod lossless;
mod managed_fields;
mod metrics;
mod packed;
mod packing;
mod parsed_scope;
mod selector;
mod settings;
mod shape;
mod store;
mod table;
mod tombstones;

pub(crate) use self::any_informer::AnyInformer;
pub use self::{
    caches::{Caches, InformerStatus},
    dispatch::Subscription,
    index::{Index, IndexError},
    informer::Informer,
    packing::Packing,
    selector::{SelectorError, parse_selector},
    settings::{Settings, Transform},
};
pub(crate) use caches::InformerLease;

use crate::{
    any_object::{AnyObject, typed},
    object::Object,
};

/// An event, for a [handler](Informer::subscribe).
#[derive(Debug)]
pub enum Event<K: ?Sized> {
    /// An object was added. `initial`: it existed before the watch began, or is replayed to a late subscriber.
    Added {
        /// The object.
        object: Arc<K>,
        /// Whether it is part of the initial list.
        initial: bool,
    },
    /// An object has changed; or, if both are the same `Arc`, this is a resync.
    Updated {
        /// Previous state.
        old: Arc<K>,
        /// New state.
        new: Arc<K>,
    },
    /// An object was deleted.
    Deleted {
        /// Last known state.
        object: Arc<K>,
    },
}

impl<K: ?Sized> Event<K> {
    /// Returns the object in the latest state of the event.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Added { object, .. } | Self::Updated { new: object, .. } | Self::Deleted { object } => object,
        }
    }

    /// Returns whether this is a resync, without a change.
    pub fn is_resync(&self) -> bool {
        matches!(self, Self::Updated { old, new } if Arc::ptr_eq(old, new))
    }
}

impl Event<dyn AnyObject> {
    /// Downcasts the objects.
    fn typed<K: Object>(self) -> Event<K> {
        match self {
            Self::Added { object, initial } => Event::Added { object: typed(object), initial },
            Self::Updated { old, new } => Event::Updated { old: typed(old), new: typed(new) },
            Self::Deleted { object } => Event::Deleted { object: typed(object) },
        }
    }
}

impl<K: ?Sized> Clone for Event<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added { object, initial } => Self::Added { object: object.clone(), initial: *initial },
            Self::Updated { old, new } => Self::Updated { old: old.clone(), new: new.clone() },
            Self::Deleted { object } => Self::Deleted { object: object.clone() },
        }
    }
}
