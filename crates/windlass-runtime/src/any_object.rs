//! Type-erased objects.
//!
//! Generic code is compiled once per kind of an operator, and the async functions of a controller or of a write take
//! tens of kilobytes of machine code each. So generic code is a thin shell: it erases the type, calls code that exists
//! once, and [restores](typed) the type of the result.

use std::{
    any::{Any, type_name},
    fmt::Debug,
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{controller::filter::Change, object::Object};

/// An object of any kind, with everything that caches, watches and writes need of it.
pub(crate) trait AnyObject: Any + Debug + Send + Sync {
    fn metadata(&self) -> &ObjectMeta;

    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// Returns a copy.
    fn copy(&self) -> Arc<dyn AnyObject>;

    /// Appends the object as JSON. Always as bytes: every other format would be another copy of all the code that
    /// serializes a kind.
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

/// Downcasts an object to its Rust type.
pub(crate) fn typed<K: Object>(object: Arc<dyn AnyObject>) -> Arc<K> {
    let object: Arc<dyn Any + Send + Sync> = object;
    object.downcast().unwrap_or_else(|_| other_type(type_name::<K>()))
}

/// Downcasts a reference.
pub(crate) fn typed_ref<K: Object>(object: &dyn AnyObject) -> &K {
    let object: &dyn Any = object;
    object.downcast_ref().unwrap_or_else(|| other_type(type_name::<K>()))
}

/// Downcasts a mutable reference.
pub(crate) fn typed_mut<K: Object>(object: &mut dyn AnyObject) -> &mut K {
    let object: &mut dyn Any = object;
    object.downcast_mut().unwrap_or_else(|| other_type(type_name::<K>()))
}

/// Returns a mutable reference to the object, after copying it if it is shared.
pub(crate) fn unshared(object: &mut Arc<dyn AnyObject>) -> &mut dyn AnyObject {
    if Arc::get_mut(object).is_none() {
        *object = object.copy();
    }
    Arc::get_mut(object).expect("a new copy cannot be shared")
}

#[cold]
fn other_type(asked: &str) -> ! {
    unreachable!("expected an object of type {asked}")
}

/// Serializes an object as JSON text.
pub(crate) fn json_of(object: &dyn AnyObject) -> serde_json::Result<Vec<u8>> {
    let mut json = Vec::new();
    object.write_json(&mut json).map(|()| json)
}

/// Serializes an object as a JSON value.
pub(crate) fn value_of(object: &dyn AnyObject) -> serde_json::Result<serde_json::Value> {
    serde_json::from_slice(&json_of(object)?)
}

/// A type-erased [`Change`].
pub(crate) type AnyChange<'a> = Change<'a, dyn AnyObject>;

/// Handler of a subscription.
pub(crate) type ChangeHandler = Box<dyn FnMut(&AnyChange<'_>) + Send + Sync>;
