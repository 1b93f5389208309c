//! Type-erased reads and writes of one kind.
//!
//! The methods of [`Kind`](super::Kind) are shells around those of [`AnyKind`]: compiled for each kind, the code behind
//! a write (requests, races, registration with the caches) would take hundreds of kilobytes per kind.

use std::{
    any::{Any, TypeId},
    sync::Arc,
};

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::core::{ApiResource, DynamicObject, Request};

use super::{
    Context, ContextError,
    error::{RequestSubject, Verb},
    watched_kinds::Entry,
};
use crate::{
    any_object::{AnyObject, typed},
    cache::Caches,
    key::ObjectKey,
    object::{Object, resource_of},
    watch::Parse,
};

/// A type-erased [`Kind`](super::Kind).
pub(crate) struct AnyKind<'a> {
    pub(super) context: &'a Context,
    pub(super) kind_info: Arc<dyn KindInfo>,
}

/// Whether the objects of a kind have a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceScope {
    /// Objects have a namespace.
    Namespaced,
    /// Objects are cluster-scoped.
    Cluster,
    /// The kind is known only at run time.
    Unknown,
}

impl ResourceScope {
    /// Returns the scope that a Rust type declares.
    pub(crate) fn of<K: Object>() -> Self {
        let scope = TypeId::of::<K::Scope>();
        if scope == TypeId::of::<NamespaceResourceScope>() {
            Self::Namespaced
        } else if scope == TypeId::of::<ClusterResourceScope>() {
            Self::Cluster
        } else {
            Self::Unknown
        }
    }
}

/// Properties of a kind that depend on its Rust type.
pub(crate) trait KindInfo: Send + Sync {
    fn resource(&self) -> ApiResource;
    fn kind(&self) -> String;
    fn resource_scope(&self) -> ResourceScope;
    fn url_path(&self, namespace: Option<&str>) -> String;
    /// Rust type of the objects.
    fn object_type(&self) -> TypeId;
    /// The `DynamicType`, which distinguishes kinds that share a Rust type.
    fn dynamic(&self) -> &dyn Any;
    /// Returns whether this kind has the given `DynamicType`.
    fn is_dynamic(&self, dynamic: &dyn Any) -> bool;
    /// Returns whether objects consist of metadata only.
    fn is_metadata(&self) -> bool;
    /// Returns whether objects accept arbitrary fields.
    fn is_open(&self) -> bool;
    /// Parses an object from JSON. Always from bytes: every other format would be another copy of all the code that
    /// deserializes a kind.
    fn read(&self, json: &[u8]) -> serde_json::Result<Arc<dyn AnyObject>>;
    /// See [`Caches::wrote`].
    fn wrote(&self, caches: &Caches, object: Arc<dyn AnyObject>);
    /// See [`Caches::deleted`].
    fn deleted(&self, caches: &Caches, key: &ObjectKey, uid: &str);
}

struct TypedKindInfo<K: Object> {
    dynamic: K::DynamicType,
}

/// Returns the kind of a Rust type.
pub(crate) fn kind_info<K: Object>(dynamic: &K::DynamicType) -> Arc<dyn KindInfo> {
    Arc::new(TypedKindInfo::<K> { dynamic: dynamic.clone() })
}

impl<K: Object> KindInfo for TypedKindInfo<K> {
    fn resource(&self) -> ApiResource {
        resource_of::<K>(&self.dynamic)
    }

    fn kind(&self) -> String {
        K::kind(&self.dynamic).into_owned()
    }

    fn resource_scope(&self) -> ResourceScope {
        ResourceScope::of::<K>()
    }

    fn url_path(&self, namespace: Option<&str>) -> String {
        K::url_path(&self.dynamic, namespace)
    }

    fn object_type(&self) -> TypeId {
        TypeId::of::<K>()
    }

    fn dynamic(&self) -> &dyn Any {
        &self.dynamic
    }

    fn is_dynamic(&self, dynamic: &dyn Any) -> bool {
        dynamic.downcast_ref() == Some(&self.dynamic)
    }

    fn is_metadata(&self) -> bool {
        K::metadata_api()
    }

    fn is_open(&self) -> bool {
        TypeId::of::<K>() == TypeId::of::<DynamicObject>()
    }

    fn read(&self, json: &[u8]) -> serde_json::Result<Arc<dyn AnyObject>> {
        Parse::of::<K>().read(json)
    }

    fn wrote(&self, caches: &Caches, object: Arc<dyn AnyObject>) {
        caches.wrote(&self.dynamic, &typed::<K>(object));
    }

    fn deleted(&self, caches: &Caches, key: &ObjectKey, uid: &str) {
        caches.deleted::<K>(&self.dynamic, key, uid);
    }
}

impl<'a> AnyKind<'a> {
    pub(crate) fn new(context: &'a Context, kind_info: Arc<dyn KindInfo>) -> Self {
        Self { context, kind_info }
    }

    pub(crate) fn context(&self) -> &'a Context {
        self.context
    }

    /// Returns the caches of the kind, if any.
    pub(super) fn cached_in(&self) -> Vec<Arc<Entry>> {
        self.context.watched_kinds.entries(self.kind_info.object_type(), self.kind_info.dynamic())
    }

    /// Returns the caches of the kind; an error if there are none.
    pub(super) fn entries(&self) -> Result<Vec<Arc<Entry>>, ContextError> {
        let entries = self.cached_in();
        if entries.is_empty() {
            return Err(self.context.watched_kinds.missing(self.kind_info.kind()));
        }
        Ok(entries)
    }

    pub(super) fn target(&self, verb: Verb, key: &ObjectKey) -> RequestSubject {
        RequestSubject { verb, kind: self.kind_info.kind(), key: key.clone(), is_typed: !self.kind_info.is_open() }
    }

    /// Returns the requests for an object, within its namespace if the kind is namespaced.
    pub(super) fn request(&self, verb: Verb, key: &ObjectKey) -> Result<Request, ContextError> {
        let resource_scope = self.kind_info.resource_scope();
        let namespace = key.namespace().filter(|_| resource_scope != ResourceScope::Cluster);
        if namespace.is_none() && resource_scope == ResourceScope::Namespaced {
            return Err(self.target(verb, key).lacks("namespace"));
        }
        Ok(Request::new(self.kind_info.url_path(namespace)))
    }

    /// Notifies the caches that an object is deleted.
    pub(super) fn is_gone(&self, key: &ObjectKey, uid: &str) {
        self.kind_info.deleted(&self.context.handles.caches, key, uid);
    }
}
