//! Objects whose Rust type is forgotten.
//!
//! What is generic over a kind is compiled again for each kind that an operator has, and the async functions of a
//! controller or of a write are tens of kilobytes of machine code each. So what is generic is a thin shell: it forgets
//! the type, calls code that exists once, and [remembers](typed) the type of what comes back.

use std::{
    any::{Any, type_name},
    fmt::Debug,
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{controller::filter::Change, object::Object};

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

/// A [`Change`] of an object of whichever kind.
pub(crate) type AnyChange<'a> = Change<'a, dyn AnyObject>;

/// What is called with each event.
pub(crate) type ChangeHandler = Box<dyn FnMut(&AnyChange<'_>) + Send + Sync>;
