//! NamespaceLifecycle: objects are created only in namespaces that exist and are not being deleted, and changed only in
//! namespaces that exist; some namespaces cannot be deleted.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Admission, Attributes, Operation};
use crate::{
    meta,
    status::{ApiError, Result},
    storage::{ResourceCache, Storage},
};

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(crate) struct NamespaceLifecycle {
    pub(crate) storage: Arc<Storage>,
    pub(crate) namespaces: Arc<ResourceCache>,
}

#[async_trait]
impl Admission for NamespaceLifecycle {
    async fn mutate(&self, write: &Attributes<'_>, object: &mut Value) -> Result<()> {
        // An access review would reveal which namespaces exist.
        let is_review = write.is("authorization.k8s.io", "localsubjectaccessreviews");
        if !write.resource.namespaced || is_review {
            return Ok(());
        }
        match write.operation {
            Operation::Create => {}
            // The namespace of an object that is left over must exist, too.
            Operation::Update if self.namespaces.get(write.namespace).is_none() => {}
            _ => return Ok(()),
        }
        self.storage.fresh().await?;
        let Some(namespace) = self.namespaces.get(write.namespace) else {
            return Err(ApiError::not_found("namespaces", "", write.namespace));
        };
        let namespace = namespace.to_value();
        let is_new = write.operation == Operation::Create;
        if !is_new || !meta::is_terminating(&namespace) && namespace["status"]["phase"] != "Terminating" {
            return Ok(());
        }
        let why =
            format!("unable to create new content in namespace {} because it is being terminated", write.namespace);
        let mut error = write.forbidden(object, &why);
        let cause = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {} is being terminated", write.namespace),
            "field": "metadata.namespace",
        }]);
        if let Some(details) = &mut error.details {
            details["causes"] = cause;
        }
        Err(error)
    }

    async fn validate(&self, write: &Attributes<'_>, _object: &Value) -> Result<()> {
        let is_namespace = write.resource.group.is_empty() && &*write.resource.plural == "namespaces";
        if write.operation == Operation::Delete && is_namespace && IMMORTAL.contains(&write.name) {
            return Err(ApiError::forbidden("namespaces", "", write.name, "this namespace may not be deleted"));
        }
        Ok(())
    }
}
