//! NamespaceExists: nothing is written in a namespace that does not exist. NamespaceAutoProvision: creates it instead.

use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;
use serde_json::{Value, json};

use super::{Admission, Attributes, Operation};
use crate::{
    call::Call,
    options::WriteOptions,
    request_info::ResourceRequest,
    status::{ApiError, Result},
    storage::{ResourceCache, Storage},
    user::User,
    write::{MANAGER, ManagedFieldsMode, create_object},
};

pub(crate) struct NamespaceExists {
    pub(crate) storage: Arc<Storage>,
    pub(crate) namespaces: Arc<ResourceCache>,
}

#[async_trait]
impl Admission for NamespaceExists {
    async fn validate(&self, write: &Attributes<'_>, _object: &Value) -> Result<()> {
        let concerned = write.operation != Operation::Connect && is_in_namespace(write);
        if concerned && !exists(&self.storage, &self.namespaces, write.namespace).await? {
            return Err(ApiError::not_found("namespaces", "", write.namespace));
        }
        Ok(())
    }
}

pub(crate) struct NamespaceAutoProvision {
    pub(crate) storage: Arc<Storage>,
    pub(crate) namespaces: Arc<ResourceCache>,
}

#[async_trait]
impl Admission for NamespaceAutoProvision {
    async fn mutate(&self, write: &Attributes<'_>, object: &mut Value) -> Result<()> {
        let concerned = write.operation == Operation::Create && !write.dry_run && is_in_namespace(write);
        if !concerned || exists(&self.storage, &self.namespaces, write.namespace).await? {
            return Ok(());
        }
        match create_namespace(write).await {
            Err(error) if error.reason != "AlreadyExists" => Err(write.forbidden(object, &error.message)),
            _ => Ok(()),
        }
    }
}

fn is_in_namespace(write: &Attributes<'_>) -> bool {
    !write.namespace.is_empty() && !write.is("", "namespaces")
}

async fn exists(storage: &Storage, namespaces: &ResourceCache, name: &str) -> Result<bool> {
    storage.fresh().await?;
    Ok(namespaces.get(name).is_some())
}

async fn create_namespace(write: &Attributes<'_>) -> Result<()> {
    let server = write.objects.server();
    let registry = server.registry.load_full();
    let endpoint = registry.endpoint("", "v1", "namespaces").ok_or_else(ApiError::no_such_resource)?;
    let target = ResourceRequest { version: "v1", resource: "namespaces", ..ResourceRequest::default() };
    let (user, headers) = (User::apiserver(), HeaderMap::new());
    let call = Call::internal(server, endpoint, target, &user, &headers);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": write.namespace}});
    let mut namespace = endpoint.normalize(namespace);
    endpoint.strategy.default(&mut namespace);
    let options = WriteOptions { field_manager: MANAGER.to_owned(), ..WriteOptions::internal() };
    let create = create_object(&call, namespace, &options, ManagedFieldsMode::Track);
    // The write of a namespace runs the plugins again.
    let create: futures_util::future::BoxFuture<'_, _> = Box::pin(create);
    create.await.map(drop)
}
