//! Reads and writes within one namespace.

use std::{borrow::Cow, sync::Arc};

use k8s_openapi::NamespaceResourceScope;
use kube::{Resource, core::Selector};

use super::{Context, ContextError};
use crate::{key::ObjectKey, object::Object, objects::AsObject};

/// A kind whose objects have a namespace.
pub trait Namespaced: Object<DynamicType: Default> + Resource<Scope = NamespaceResourceScope> {}

impl<K: Object<DynamicType: Default> + Resource<Scope = NamespaceResourceScope>> Namespaced for K {}

/// Reads and writes of a [`Context`] within one namespace, where a name is enough.
///
/// ```no_run
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::{ConfigMap, Secret}};
/// # use windlass_runtime::{Result, context::Context};
/// # async fn reconcile(ctx: &Context, deployment: &Deployment) -> Result<()> {
/// let namespace = ctx.in_namespace_of(deployment);
/// let settings = namespace.get::<ConfigMap>("settings")?;
/// let password = namespace.live::<Secret>("password").await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct NamespacedContext<'a> {
    context: &'a Context,
    namespace: Cow<'a, str>,
}

impl Context {
    /// Returns the reads and writes of a namespace.
    pub fn in_namespace<'a>(&'a self, namespace: impl Into<Cow<'a, str>>) -> NamespacedContext<'a> {
        NamespacedContext { context: self, namespace: namespace.into() }
    }

    /// Returns the reads and writes of the namespace of an object.
    pub fn in_namespace_of<'a, K: Namespaced>(&'a self, object: &'a impl AsObject<K>) -> NamespacedContext<'a> {
        self.in_namespace(object.object().meta().namespace.as_deref().unwrap_or_default())
    }
}

impl NamespacedContext<'_> {
    /// Returns the namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the key of an object in the namespace.
    pub fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(&self.namespace, name)
    }

    /// Returns an object from the cache.
    pub fn get<K: Namespaced>(&self, name: &str) -> Result<Option<Arc<K>>, ContextError> {
        self.context.get(&self.key(name))
    }

    /// Returns all objects of the namespace from the cache.
    pub fn list<K: Namespaced>(&self) -> Result<Vec<Arc<K>>, ContextError> {
        self.context.list_in(&self.namespace)
    }

    /// Returns the objects of the namespace whose labels match, from the cache.
    pub fn select<K: Namespaced>(&self, selector: &Selector) -> Result<Vec<Arc<K>>, ContextError> {
        self.context.select_in(&self.namespace, selector)
    }

    /// Returns an object from the API server.
    pub async fn live<K: Namespaced>(&self, name: &str) -> Result<Option<K>, ContextError> {
        self.context.live().get(&self.key(name)).await
    }

    /// Creates an object, in the namespace unless it names another.
    pub async fn create<K: Namespaced>(&self, object: K) -> Result<Arc<K>, ContextError> {
        self.context.create(self.placed(object)).await
    }

    /// Applies an object, in the namespace unless it names another; see [`Kind::apply`](super::Kind::apply).
    pub async fn apply<K: Namespaced>(&self, object: K) -> Result<Arc<K>, ContextError> {
        self.context.apply(self.placed(object)).await
    }

    /// Deletes all objects of the namespace whose labels match; see [`Kind::delete_all`](super::Kind::delete_all).
    pub async fn delete_all<K: Namespaced>(&self, selector: &Selector) -> Result<usize, ContextError> {
        self.context.delete_all::<K>(&self.namespace, selector).await
    }

    fn placed<K: Namespaced>(&self, mut object: K) -> K {
        object.meta_mut().namespace.get_or_insert_with(|| self.namespace.to_string());
        object
    }
}
