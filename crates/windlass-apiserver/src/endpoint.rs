//! A resource in a group version, with everything needed to serve it.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
};

use serde_json::{Value, json};
use windlass_builtins::{
    facts::KindFacts,
    resource::{Resource, Table},
    strategy::Strategy,
    table,
};
use windlass_schema::{decode, types::StructId};
use windlass_store::Revision;

use crate::{
    custom::Custom,
    metrics::UsualSeries,
    status::qualified,
    storage::{DamagedObject, ResourceCache, StoredObject},
};

/// A resource in a group version.
pub(crate) struct Endpoint {
    /// Its names, verbs and subresources.
    pub(crate) resource: Arc<Resource>,
    /// The types of built-in kinds.
    pub(crate) table: &'static Table,
    /// The rules of the kind beyond its schema.
    pub(crate) strategy: &'static dyn Strategy,
    /// The constant properties of the kind.
    pub(crate) facts: &'static KindFacts,
    /// The resource in its storage version, which may be this one.
    pub(crate) stored: Arc<Resource>,
    /// Its objects.
    pub(crate) cache: Arc<ResourceCache>,
    /// Storage form of the endpoint's objects.
    pub(crate) form: Form,
    /// Whether the response to a completed deletion is the object instead of a Status.
    pub(crate) returns_deleted: bool,
    /// The value of [`Endpoint::empty`], once it was computed.
    pub(crate) empty: OnceLock<Value>,
    /// The metrics of its requests.
    pub(crate) usual: UsualSeries,
}

/// Storage form of the objects of an endpoint.
pub(crate) enum Form {
    /// In the version that is served.
    Stored,
    /// In another version, which differs only in its apiVersion.
    View,
    /// In another version.
    Converted(&'static Conversion),
    /// By the rules of a CustomResourceDefinition.
    Custom(Box<Custom>),
}

/// The conversions between the storage version and another one.
pub(crate) struct Conversion {
    /// Converts the stored version to the served one.
    pub(crate) to_served_version: fn(Value) -> Value,
    /// Converts the served version to the stored one.
    pub(crate) to_storage_version: fn(Value) -> Value,
}

impl Endpoint {
    /// Returns an object without any field set.
    pub(crate) fn empty(&self) -> &Value {
        self.empty.get_or_init(|| {
            let object = json!({"apiVersion": self.resource.api_version(), "kind": &*self.resource.kind});
            match self.form {
                Form::Custom(_) => object,
                Form::Stored | Form::View | Form::Converted(_) => self.normalize(object),
            }
        })
    }

    /// The type of metadata.
    pub(crate) fn object_meta(&self) -> StructId {
        table::object_meta().id
    }

    /// Returns the key of an object in the cache.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        if !self.resource.namespaced {
            return name.to_owned();
        }
        let mut key = String::with_capacity(namespace.len() + 1 + name.len());
        key.push_str(namespace);
        key.push('/');
        key.push_str(name);
        key
    }

    /// Returns the key of an object in the store.
    pub(crate) fn store_key(&self, key: &str) -> String {
        format!("{}{key}", self.cache.prefix())
    }

    /// Describes a damaged object for clients.
    pub(crate) fn describe_damaged(&self, key: &str, damaged: &DamagedObject) -> String {
        let resource = qualified(&self.resource.plural, &self.resource.group);
        let DamagedObject { revision, damage } = damaged;
        format!("{resource} \"{key}\" is damaged in the store at revision {revision}: {damage}; it can only be deleted")
    }

    /// Returns whether this is a version of the given resource.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        &*self.resource.group == group && &*self.resource.plural == plural
    }

    /// Returns whether objects may have to be converted by the webhook of their CustomResourceDefinition, or a
    /// function.
    pub(crate) fn has_converter(&self) -> bool {
        self.custom().is_some_and(|custom| custom.converter.is_some())
    }

    /// Returns an object as kube-apiserver would write it: absent fields that it never omits are filled in.
    pub(crate) fn normalize(&self, object: Value) -> Value {
        decode::decode(object, self.resource.ty, &self.table.types, self.wire_form()).value
    }

    /// The form in which kube-apiserver stores objects of this group, which decides how absent fields are decoded.
    pub(crate) fn wire_form(&self) -> decode::Storage {
        match &*self.resource.group {
            "apiextensions.k8s.io" | "apiregistration.k8s.io" => decode::Storage::Json,
            _ => decode::Storage::Protobuf,
        }
    }

    /// The CustomResourceDefinition's rules for this version; `None` for built-in kinds.
    pub(crate) fn custom(&self) -> Option<&Custom> {
        match &self.form {
            Form::Custom(custom) => Some(custom),
            Form::Stored | Form::View | Form::Converted(_) => None,
        }
    }

    /// The kind of its lists.
    pub(crate) fn list_kind(&self) -> Cow<'_, str> {
        match &self.form {
            Form::Custom(custom) => custom.list_kind.as_str().into(),
            Form::Stored | Form::View | Form::Converted(_) => format!("{}List", self.resource.kind).into(),
        }
    }

    /// Returns a stored object as this endpoint serves it.
    pub(crate) fn to_served_value(&self, stored: &StoredObject) -> Value {
        let value = stored.to_value();
        if self.serves_unchanged(stored) { value } else { self.to_served_version(value) }
    }

    /// Converts an object from the storage version to the version of this endpoint.
    pub(crate) fn to_served_version(&self, stored: Value) -> Value {
        match &self.form {
            Form::Stored => stored,
            Form::View => with_version(stored, &self.resource),
            Form::Converted(conversion) => (conversion.to_served_version)(stored),
            Form::Custom(custom) => custom.to_served_version(stored),
        }
    }

    /// Converts an object from the version of this endpoint to the storage version.
    pub(crate) fn to_storage_version(&self, served: Value) -> Value {
        match &self.form {
            Form::Stored => served,
            Form::View => with_version(served, &self.stored),
            Form::Converted(conversion) => (conversion.to_storage_version)(served),
            Form::Custom(custom) => custom.to_storage_version(served),
        }
    }

    /// The revision after which every object is stored exactly as it is served.
    pub(crate) fn served_as_stored_after(&self) -> Revision {
        match &self.form {
            Form::Stored => Revision(0),
            Form::View | Form::Converted(_) => Revision(u64::MAX),
            Form::Custom(custom) => custom.served_as_stored_after(),
        }
    }

    /// Returns whether an object is served as the bytes that are stored.
    pub(crate) fn is_served_as_stored(&self, object: &StoredObject) -> bool {
        object.is_converted() || object.written > self.served_as_stored_after()
    }

    /// Like [`Self::is_served_as_stored`], but reads an object that was written under another schema to find out.
    pub(crate) fn serves_unchanged(&self, object: &StoredObject) -> bool {
        self.is_served_as_stored(object) || self.custom().is_some_and(|custom| custom.serves_unchanged(object))
    }
}

/// Returns an object with the apiVersion of a resource.
fn with_version(mut object: Value, resource: &Resource) -> Value {
    object["apiVersion"] = resource.api_version().into();
    object
}
