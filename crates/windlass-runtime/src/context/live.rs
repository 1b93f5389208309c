//! Reads from the server.

use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Resource,
    api::{GetParams, ListParams},
    core::{ObjectList, Request},
};

use super::{Context, ContextError, Kind, error::Verb};
use crate::{key::ObjectKey, object::Object};

/// Reads from the server instead of a cache: always current, for any kind, and a request each time.
pub struct Live<'a> {
    context: &'a Context,
}

impl<'a> Live<'a> {
    pub(super) fn new(context: &'a Context) -> Self {
        Self { context }
    }

    /// An object; none if it is not there.
    pub async fn get<K: Object<DynamicType: Default>>(&self, key: &ObjectKey) -> Result<Option<K>, ContextError> {
        self.context.kind::<K>().live_get(key).await
    }

    /// All objects that match, of one namespace or of all.
    pub async fn list<K: Object<DynamicType: Default>>(
        &self,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> Result<ObjectList<K>, ContextError> {
        self.context.kind::<K>().live_list(namespace, params).await
    }
}

impl Context {
    /// kube's own interface to the objects of a namespace. It knows no caches and no leaders.
    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Object + Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
    {
        Api::namespaced(self.client(), namespace)
    }

    /// The same for all namespaces, and for objects of the cluster.
    pub fn api_all<K: Object<DynamicType: Default>>(&self) -> Api<K> {
        Api::all(self.client())
    }
}

impl<K: Object> Kind<'_, K> {
    /// An object, from the server; none if it is not there.
    pub async fn live_get(&self, key: &ObjectKey) -> Result<Option<K>, ContextError> {
        let target = self.target(Verb::Get, key);
        let request = self.request(Verb::Get, key)?.get(key.name(), &GetParams::default());
        let request = request.map_err(|error| target.clone().failed(kube::Error::BuildRequest(error)))?;
        match self.context.parts.client.request_text(request).await {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(|error| target.shape(error)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(target.failed(error)),
        }
    }

    /// All objects that match, from the server, of one namespace or of all.
    pub async fn live_list(&self, namespace: Option<&str>, params: &ListParams) -> Result<ObjectList<K>, ContextError> {
        let key = ObjectKey::namespaced(namespace.unwrap_or_default(), "");
        let target = self.target(Verb::List, &key);
        let request = Request::new(K::url_path(&self.dynamic, namespace)).list(params);
        let request = request.map_err(|error| target.clone().failed(kube::Error::BuildRequest(error)))?;
        let text =
            self.context.parts.client.request_text(request).await.map_err(|error| target.clone().failed(error))?;
        serde_json::from_str(&text).map_err(|error| target.shape(error))
    }
}
