//! One kind, as a context reads and writes it.

use std::{any::TypeId, sync::Arc};

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::core::{ApiResource, Request, Selector, SelectorExt};

use super::{
    Context, ContextError,
    error::{Target, Verb},
    wired::Entry,
};
use crate::{
    cache::Informer,
    key::ObjectKey,
    object::{Object, resource_of},
};

/// One kind, as a context reads and writes it. Made by [`Context::kind`] and, for types known at run time, by
/// [`Context::kind_with`]; everything that a context does to an object is a method of this.
pub struct Kind<'a, K: Object> {
    pub(super) context: &'a Context,
    pub(super) dynamic: K::DynamicType,
}

impl Context {
    /// A kind.
    pub fn kind<K: Object<DynamicType: Default>>(&self) -> Kind<'_, K> {
        Kind { context: self, dynamic: K::DynamicType::default() }
    }

    /// A kind whose type is known at run time.
    pub fn kind_with<K: Object>(&self, dynamic: &K::DynamicType) -> Kind<'_, K> {
        Kind { context: self, dynamic: dynamic.clone() }
    }
}

impl<K: Object> Kind<'_, K> {
    /// An object, from the cache.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, ContextError> {
        Ok(self.entries()?.iter().find_map(|entry| entry.informer.get(key)))
    }

    /// All objects in the cache, in no order.
    pub fn list(&self) -> Result<Vec<Arc<K>>, ContextError> {
        Ok(union(&self.entries()?, |entry| entry.informer.list()))
    }

    /// The objects of a namespace in the cache.
    pub fn list_in(&self, namespace: &str) -> Result<Vec<Arc<K>>, ContextError> {
        Ok(union(&self.entries()?, |entry| entry.informer.list_in(namespace)))
    }

    /// The objects in the cache whose labels match, within a namespace if one is given.
    pub fn select(&self, namespace: Option<&str>, selector: &Selector) -> Result<Vec<Arc<K>>, ContextError> {
        let Some(namespace) = namespace else {
            return Ok(union(&self.entries()?, |entry| entry.informer.select(selector)));
        };
        let mut objects = self.list_in(namespace)?;
        let none = Default::default();
        objects.retain(|object| selector.matches(object.meta().labels.as_ref().unwrap_or(&none)));
        Ok(objects)
    }

    /// The objects in the cache whose controller has this uid, by an index.
    pub fn owned(&self, uid: &str) -> Result<Vec<Arc<K>>, ContextError> {
        Ok(union(&self.entries()?, |entry| entry.controlled_by(uid)))
    }

    /// The informer, for indexes of one's own; the first, if the kind is watched in several scopes.
    pub fn informer(&self) -> Result<Informer<K>, ContextError> {
        Ok(self.entries()?[0].informer.clone())
    }

    /// At least one.
    pub(super) fn entries(&self) -> Result<Vec<Arc<Entry<K>>>, ContextError> {
        let entries = self.context.wired.entries::<K>(&self.dynamic);
        if entries.is_empty() {
            return Err(ContextError::NotWired { kind: K::kind(&self.dynamic).into_owned() });
        }
        Ok(entries)
    }

    pub(super) fn resource(&self) -> ApiResource {
        resource_of::<K>(&self.dynamic)
    }

    pub(super) fn target(&self, verb: Verb, key: &ObjectKey) -> Target {
        Target { verb, kind: K::kind(&self.dynamic).into_owned(), key: key.clone() }
    }

    /// Requests for an object: within its namespace, if the kind has them.
    pub(super) fn request(&self, verb: Verb, key: &ObjectKey) -> Result<Request, ContextError> {
        let namespace = key.namespace().filter(|_| !is_of_cluster::<K>());
        if namespace.is_none() && is_namespaced::<K>() {
            return Err(self.target(verb, key).lacks("namespace"));
        }
        Ok(Request::new(K::url_path(&self.dynamic, namespace)))
    }
}

/// Whether objects of a kind have no namespace; false if that is known only at run time.
pub(super) fn is_of_cluster<K: Object>() -> bool {
    TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>()
}

fn is_namespaced<K: Object>() -> bool {
    TypeId::of::<K::Scope>() == TypeId::of::<NamespaceResourceScope>()
}

/// What several caches of one kind have, each object once.
fn union<K: Object>(entries: &[Arc<Entry<K>>], read: impl Fn(&Entry<K>) -> Vec<Arc<K>>) -> Vec<Arc<K>> {
    if let [entry] = entries {
        return read(entry);
    }
    let mut seen = hashbrown::HashSet::new();
    let objects = entries.iter().flat_map(|entry| read(entry));
    objects.filter(|object| seen.insert(ObjectKey::of(object.as_ref()))).collect()
}
