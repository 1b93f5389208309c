//! Owner references, finalizers, conditions, schemas: parts of objects that every operator handles.
//!
//! Everything here is pure: functions over objects, without a client. The [context](crate::context::Context) writes
//! them.

use std::sync::Arc;

use crate::object::Object;

pub mod conditions;
pub mod finalizer;
pub mod meta;
pub mod owner;
pub mod readiness;
pub mod schema;

/// A `K`, or an `Arc<K>`: parameter type of functions that only read an object, so that `&foo` works for both.
pub trait AsObject<K> {
    /// Returns the object.
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
