//! PodTolerationRestriction: default and allowed tolerations of the pods of a namespace, from its annotations or from the
//! configuration.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use windlass_builtins::kinds::pod::admission;
use windlass_schema::json;

use super::{Admission, Attributes, Operation, configuration::Tolerations};
use crate::{
    status::{ApiError, Result},
    storage::{ResourceCache, Storage},
};

const DEFAULTS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
const ALLOWED: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";

pub(crate) struct PodTolerationRestriction {
    pub(crate) storage: Arc<Storage>,
    pub(crate) namespaces: Arc<ResourceCache>,
    /// The tolerations of namespaces without annotations.
    pub(crate) cluster: Tolerations,
}

#[async_trait]
impl Admission for PodTolerationRestriction {
    async fn mutate(&self, write: &Attributes<'_>, object: &mut Value) -> Result<()> {
        if !concerns(write) {
            return Ok(());
        }
        let namespace = self.namespace(write).await?;
        let defaults = match write.operation {
            Operation::Create => annotated(&namespace, DEFAULTS)?.unwrap_or_else(|| self.cluster.default.clone()),
            _ => Vec::new(),
        };
        admission::add_tolerations(object, &defaults);
        self.check(&namespace, object)
    }

    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        if !concerns(write) {
            return Ok(());
        }
        self.check(&self.namespace(write).await?, object)
    }
}

impl PodTolerationRestriction {
    async fn namespace(&self, write: &Attributes<'_>) -> Result<Value> {
        self.storage.fresh().await?;
        match self.namespaces.get(write.namespace) {
            Some(namespace) => Ok(namespace.to_value()),
            None => Err(ApiError::not_found("namespaces", "", write.namespace)),
        }
    }

    fn check(&self, namespace: &Value, pod: &Value) -> Result<()> {
        let own = annotated(namespace, ALLOWED)?;
        let scope = if own.is_some() { "namespace" } else { "cluster" };
        if admission::tolerates_only(pod, own.as_ref().unwrap_or(&self.cluster.allowed)) {
            return Ok(());
        }
        Err(ApiError::unexpected(format!(
            "pod tolerations (possibly merged with namespace default tolerations) conflict with its {scope} whitelist"
        )))
    }
}

fn concerns(write: &Attributes<'_>) -> bool {
    write.is_pod() && matches!(write.operation, Operation::Create | Operation::Update)
}

/// Returns the tolerations in an annotation; `None` without one.
fn annotated(namespace: &Value, annotation: &str) -> Result<Option<Vec<Value>>> {
    match namespace["metadata"]["annotations"][annotation].as_str() {
        None => Ok(None),
        Some("") => Ok(Some(Vec::new())),
        Some(text) => match json::parse(text.as_bytes()) {
            Ok(document) => Ok(Some(document.value.as_array().cloned().unwrap_or_default())),
            Err(error) => Err(ApiError::unexpected(error.to_string())),
        },
    }
}
