//! Owners, finalizers, conditions, schemas: the parts of objects that every operator handles.
//!
//! Everything here is pure: functions over objects, without a client. What writes them is the
//! [context](crate::context::Context).

use std::sync::Arc;

use crate::object::Object;

pub mod conditions;
pub mod finalizer;
pub mod meta;
pub mod owner;
pub mod schema;

/// A `K`, or an `Arc` of one: what functions take that only look at an object, so that `&foo` is right for both.
pub trait AsObject<K> {
    /// The object.
    fn object(&self) -> &K;
}

impl<K: Object> AsObject<K> for K {
    fn object(&self) -> &K {
        self
    }
}

impl<K: Object> AsObject<K> for Arc<K> {
    fn object(&self) -> &K {
        self
    }
}
