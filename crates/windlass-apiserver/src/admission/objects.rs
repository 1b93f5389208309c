//! Read access to the objects of the server, for admission plugins.

use std::sync::Arc;

use futures_util::FutureExt as _;
use kube::core::GroupVersionResource;
use serde_json::Value;

use crate::{
    endpoint::Endpoint,
    server::Inner,
    status::{ApiError, Result},
    storage::StoredObject,
    write::convert,
};

/// Read access to all objects of the server, past authorization.
///
/// Reads come from the server's caches and see every write that was acknowledged before.
#[derive(Clone, Copy)]
pub struct Objects<'a> {
    /// A trait object, so that the compiler does not prove again for the future of each plugin that all parts of the
    /// server are [`Sync`].
    server: &'a dyn AsInner,
}

trait AsInner: Send + Sync {
    fn inner(&self) -> &Arc<Inner>;
}

impl AsInner for Arc<Inner> {
    fn inner(&self) -> &Arc<Inner> {
        self
    }
}

impl<'a> Objects<'a> {
    pub(super) fn of(server: &'a Arc<Inner>) -> Self {
        Self { server }
    }

    pub(super) fn server(&self) -> &'a Arc<Inner> {
        self.server.inner()
    }

    /// Returns an object in the given version; `None` if it does not exist. `namespace` is empty for cluster-scoped
    /// resources.
    ///
    /// # Errors
    /// Returns an error if the resource is not served, the store cannot be reached, or a conversion webhook fails.
    pub async fn get(&self, resource: &GroupVersionResource, namespace: &str, name: &str) -> Result<Option<Value>> {
        self.find(resource, namespace, name).boxed().await
    }

    async fn find(&self, resource: &GroupVersionResource, namespace: &str, name: &str) -> Result<Option<Value>> {
        let endpoint = self.endpoint(resource).await?;
        let found = endpoint.cache.get(&endpoint.key(namespace, name));
        Ok(self.values(&endpoint, found.into_iter().collect()).await?.pop())
    }

    /// Returns all objects of a resource in the given version, in the order of their keys; only those of a namespace if
    /// one is given.
    ///
    /// # Errors
    /// Returns an error if the resource is not served, the store cannot be reached, or a conversion webhook fails.
    pub async fn list(&self, resource: &GroupVersionResource, namespace: Option<&str>) -> Result<Vec<Value>> {
        self.select(resource, namespace).boxed().await
    }

    async fn select(&self, resource: &GroupVersionResource, namespace: Option<&str>) -> Result<Vec<Value>> {
        let endpoint = self.endpoint(resource).await?;
        let prefix = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let snapshot = endpoint.cache.snapshot();
        let found = snapshot.range(&prefix, None).map(|(_, cached)| cached.object.clone()).collect();
        self.values(&endpoint, found).await
    }

    async fn endpoint(&self, resource: &GroupVersionResource) -> Result<Arc<Endpoint>> {
        self.server().storage.fresh().await?;
        let registry = self.server().registry.load_full();
        let endpoint = registry.endpoint(&resource.group, &resource.version, &resource.resource);
        endpoint.cloned().ok_or_else(ApiError::no_such_resource)
    }

    async fn values(&self, endpoint: &Endpoint, objects: Vec<Arc<StoredObject>>) -> Result<Vec<Value>> {
        let objects = convert::to_served_objects(self.server(), endpoint, objects).await?;
        Ok(objects.iter().map(|object| endpoint.to_served_value(object)).collect())
    }
}
