//! A resource in a group version, with everything needed to serve it.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
};

use serde_json::{Value, json};
use windlass_builtins::{
    resource::{Resource, Table},
    strategy::Strategy,
    table,
};
use windlass_schema::types::StructId;
use windlass_store::Revision;

use crate::{
    custom::Custom,
    storage::{ResourceCache, StoredObject},
};

/// A resource in a group version.
pub struct Endpoint {
    /// Its names, verbs and subresources.
    pub resource: Arc<Resource>,
    /// The types that built-in kinds are made of.
    pub table: &'static Table,
    /// What the schema cannot say.
    pub strategy: &'static dyn Strategy,
    /// The resource as it is stored: the same, or another version of it.
    pub stored: Arc<Resource>,
    /// Its objects.
    pub cache: Arc<ResourceCache>,
    /// How its objects are stored.
    pub(crate) form: Form,
    /// Kinds that answer a completed deletion with the object instead of a Status.
    pub returns_deleted: bool,
    /// What [`Endpoint::empty`] gives, once it was asked for.
    pub(crate) empty: OnceLock<Value>,
}

/// How the objects of an endpoint are stored.
pub(crate) enum Form {
    /// As they are served.
    Stored,
    /// In another version.
    Converted(&'static Conversion),
    /// By the rules of a definition.
    Custom(Box<Custom>),
}

/// A pair of functions between the stored version of an object and another one.
pub struct Conversion {
    /// Stored to served.
    pub serve: fn(Value) -> Value,
    /// Served to stored.
    pub store: fn(Value) -> Value,
}

impl Endpoint {
    /// An object of which nothing is set.
    pub(crate) fn empty(&self) -> &Value {
        self.empty.get_or_init(|| {
            let object = json!({"apiVersion": self.resource.api_version(), "kind": &*self.resource.kind});
            match self.form {
                Form::Custom(_) => object,
                Form::Stored | Form::Converted(_) => self.normalize(object),
            }
        })
    }

    /// The struct of metadata.
    pub(crate) fn object_meta(&self) -> StructId {
        table::object_meta().id
    }

    /// The key of an object within the cache.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        if self.resource.namespaced { format!("{namespace}/{name}") } else { name.to_owned() }
    }

    /// The key of an object in the store.
    pub fn store_key(&self, key: &str) -> String {
        format!("{}{key}", self.cache.prefix())
    }

    /// What the definition of a custom resource says; `None` for built-in kinds.
    pub(crate) fn custom(&self) -> Option<&Custom> {
        match &self.form {
            Form::Custom(custom) => Some(custom),
            Form::Stored | Form::Converted(_) => None,
        }
    }

    /// The kind of its lists.
    pub(crate) fn list_kind(&self) -> Cow<'_, str> {
        match &self.form {
            Form::Custom(custom) => custom.list_kind.as_str().into(),
            Form::Stored | Form::Converted(_) => format!("{}List", self.resource.kind).into(),
        }
    }

    /// A stored object as this endpoint serves it.
    pub(crate) fn read(&self, stored: &StoredObject) -> Value {
        let value = stored.to_value();
        if self.is_as_stored(stored) { value } else { self.convert(value) }
    }

    /// An object of the stored version in this one.
    pub(crate) fn convert(&self, stored: Value) -> Value {
        match &self.form {
            Form::Stored => stored,
            Form::Converted(conversion) => (conversion.serve)(stored),
            Form::Custom(custom) => custom.read(stored),
        }
    }

    /// An object of this endpoint's version as it is stored.
    pub fn store(&self, served: Value) -> Value {
        match &self.form {
            Form::Stored => served,
            Form::Converted(conversion) => (conversion.store)(served),
            Form::Custom(custom) => custom.store(served),
        }
    }

    /// Everything written after this revision is stored as it is served.
    pub(crate) fn as_stored_after(&self) -> Revision {
        match &self.form {
            Form::Stored => Revision(0),
            Form::Converted(_) => Revision(u64::MAX),
            Form::Custom(custom) => custom.as_stored_after(),
        }
    }

    /// Whether an object is stored as it is served.
    pub(crate) fn is_as_stored(&self, object: &StoredObject) -> bool {
        object.is_converted() || object.written > self.as_stored_after()
    }
}
