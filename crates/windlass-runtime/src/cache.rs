//! The shared cache: one watch per resource and scope, whoever uses it.
//!
//! [`Caches`] has the informers of a process. An [`Informer`] keeps the objects of one resource and scope: it can be
//! read by key, namespace, owner, label selector or an [`Index`] of one's own, and it calls handlers with every
//! [`Event`]. Objects are kept in `Arc`s and never copied. In a small informer they are parsed once; in one of more than
//! 1,000 objects those that nobody reads are kept as text, which takes about half of the memory, and parsed when they
//! are read: see [`Packing`].
//!
//! **Order.** A handler sees every object's states in order of revision, none twice; an object that was deleted and
//! made anew under the same name is a `Deleted` and an `Added`. When the watch was cut for so long that a new list was
//! needed, what had changed meanwhile comes as events all the same, deletes included.
//!
//! **Own writes.** [`Caches::wrote`] and [`Caches::deleted`] put what this process has written into the informers
//! before the watch brings it, and keep older states out. The [context](crate::context) calls them; whoever writes by
//! other means can call them too, or wait with [`Informer::caught_up`].
//!
//! **Resources that are not served** (a definition that is not there yet) have informers without objects that are not
//! synced. When the definition is removed, all objects are deleted, and the informer waits for it to return.

use std::sync::Arc;

mod any_informer;
mod caches;
mod cell;
mod dispatch;
mod index;
mod informer;
mod metrics;
mod packed;
mod packing;
mod parsed_scope;
mod selector;
mod settings;
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

use crate::{
    any_object::{AnyObject, typed},
    object::Object,
};

/// What happened to an object, for a [handler](Informer::subscribe).
#[derive(Debug)]
pub enum Event<K: ?Sized> {
    /// An object is there that was not. `initial`: it was there before the watch began (or is replayed to a late
    /// subscriber).
    Added {
        /// Its state.
        object: Arc<K>,
        /// Whether it is part of the first state rather than news.
        initial: bool,
    },
    /// An object has changed; or, when both are the same `Arc`, a resync came by.
    Updated {
        /// Its former state.
        old: Arc<K>,
        /// Its new state.
        new: Arc<K>,
    },
    /// An object is gone; its last known state.
    Deleted {
        /// The last state that was seen.
        object: Arc<K>,
    },
}

impl<K: ?Sized> Event<K> {
    /// The object, in the latest state that the event has.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Added { object, .. } | Self::Updated { new: object, .. } | Self::Deleted { object } => object,
        }
    }

    /// Whether it tells of nothing new, but of a resync.
    pub fn is_resync(&self) -> bool {
        matches!(self, Self::Updated { old, new } if Arc::ptr_eq(old, new))
    }
}

impl Event<dyn AnyObject> {
    /// The same with objects of the type that they have.
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
