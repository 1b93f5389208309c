//! Reads from the API server.

use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Resource,
    api::{GetParams, ListParams},
    core::{ObjectList, ObjectMeta, PartialObjectMeta, Request},
};

use super::{
    Context, ContextError, Kind,
    any_kind::AnyKind,
    error::{RequestSubject, Verb, is_not_found},
    write::{Built, built},
};
use crate::{any_object::AnyObject, key::ObjectKey, object::Object};

/// Reads from the API server instead of a cache: always current, for any kind, with one request per read.
pub struct LiveReader<'a> {
    context: &'a Context,
}

impl<'a> LiveReader<'a> {
    pub(super) fn new(context: &'a Context) -> Self {
        Self { context }
    }

    /// Returns an object; `None` if it does not exist.
    pub async fn get<K: Object<DynamicType: Default>>(&self, key: &ObjectKey) -> Result<Option<K>, ContextError> {
        self.context.kind::<K>().live_get(key).await
    }

    /// Returns all matching objects of one namespace, or of all.
    pub async fn list<K: Object<DynamicType: Default>>(
        &self,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> Result<ObjectList<K>, ContextError> {
        self.context.kind::<K>().live_list(namespace, params).await
    }
}

impl Context {
    /// Returns kube's API of a namespace. It bypasses the caches and the check of leadership.
    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Object + Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
    {
        Api::namespaced(self.client(), namespace)
    }

    /// Returns kube's API of all namespaces, or of a cluster-scoped kind.
    pub fn api_all<K: Object<DynamicType: Default>>(&self) -> Api<K> {
        Api::all(self.client())
    }
}

impl<K: Object> Kind<'_, K> {
    /// Returns an object from the API server; `None` if it does not exist.
    pub async fn live_get(&self, key: &ObjectKey) -> Result<Option<K>, ContextError> {
        let any = self.any();
        let Some(text) = any.live_text(key).await? else { return Ok(None) };
        serde_json::from_slice(text.as_bytes()).map(Some).map_err(|error| any.target(Verb::Get, key).shape(error))
    }

    /// Returns all matching objects of one namespace, or of all, from the API server.
    pub async fn live_list(&self, namespace: Option<&str>, params: &ListParams) -> Result<ObjectList<K>, ContextError> {
        let (target, text) = self.any().live_list_text(namespace, params).await?;
        serde_json::from_slice(text.as_bytes()).map_err(|error| target.shape(error))
    }
}

impl AnyKind<'_> {
    /// Returns the JSON of an object from the API server; `None` if it does not exist.
    pub(super) async fn live_text(&self, key: &ObjectKey) -> Result<Option<String>, ContextError> {
        let request = self.request(Verb::Get, key)?.get(key.name(), &GetParams::default());
        self.fetch(key, request).await
    }

    /// Returns the JSON of all matching objects, and the subject of the request.
    pub(super) async fn live_list_text(
        &self,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> Result<(RequestSubject, String), ContextError> {
        self.list_text(namespace, Request::new(self.kind_info.url_path(namespace)).list(params)).await
    }

    /// Like `live_list_text`, with only the metadata of the objects.
    pub(super) async fn live_metadata_list_text(
        &self,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> Result<(RequestSubject, String), ContextError> {
        self.list_text(namespace, Request::new(self.kind_info.url_path(namespace)).list_metadata(params)).await
    }

    async fn list_text(
        &self,
        namespace: Option<&str>,
        request: Built,
    ) -> Result<(RequestSubject, String), ContextError> {
        let key = ObjectKey::namespaced(namespace.unwrap_or_default(), "");
        let target = self.target(Verb::List, &key);
        let mut request = built(&target, request)?;
        request.extensions_mut().insert(self.context.origin(&target));
        match self.context.respond(request).await {
            Ok(text) => Ok((target, text)),
            Err(error) => Err(self.context.failed(target, error)),
        }
    }

    /// Returns the API server's state of an object, if it is still the same object.
    pub(super) async fn same(
        &self,
        key: &ObjectKey,
        uid: Option<&str>,
    ) -> Result<Option<Arc<dyn AnyObject>>, ContextError> {
        let Some(text) = self.live_text(key).await? else { return Ok(None) };
        let fresh = self.kind_info.read(text.as_bytes()).map_err(|error| self.target(Verb::Get, key).shape(error))?;
        Ok((fresh.metadata().uid.as_deref() == uid).then_some(fresh))
    }

    /// Returns the metadata of an object from the API server.
    pub(super) async fn live_metadata(&self, key: &ObjectKey) -> Result<Option<ObjectMeta>, ContextError> {
        let request = self.request(Verb::Get, key)?.get_metadata(key.name(), &GetParams::default());
        let Some(text) = self.fetch(key, request).await? else { return Ok(None) };
        let object: PartialObjectMeta =
            serde_json::from_str(&text).map_err(|error| self.target(Verb::Get, key).shape(error))?;
        Ok(Some(object.metadata))
    }

    /// Sends a request for one object; returns `None` if it does not exist.
    pub(super) async fn fetch(&self, key: &ObjectKey, request: Built) -> Result<Option<String>, ContextError> {
        let target = self.target(Verb::Get, key);
        let mut request = built(&target, request)?;
        request.extensions_mut().insert(self.context.origin(&target));
        match self.context.respond(request).await {
            Ok(text) => Ok(Some(text)),
            Err(kube::Error::Api(status)) if is_not_found(&status) => Ok(None),
            Err(error) => Err(self.context.failed(target, error)),
        }
    }
}
