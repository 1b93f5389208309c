//! PodNodeSelector: the pods of a namespace run only on nodes with the labels that an annotation of the namespace, or the
//! configuration, names.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use serde_json::Value;
use windlass_builtins::kinds::pod::admission::{self, NodeSelector};

use super::{Admission, Attributes, Operation};
use crate::{
    status::{ApiError, Result},
    storage::{ResourceCache, Storage},
};

const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";
/// The name of the selector for namespaces without an annotation, in place of a namespace.
const DEFAULT: &str = "clusterDefaultNodeSelector";

pub(crate) struct PodNodeSelector {
    pub(crate) storage: Arc<Storage>,
    pub(crate) namespaces: Arc<ResourceCache>,
    /// Allowed node selectors of pods by namespace, and the default selector.
    pub(crate) selectors: BTreeMap<String, String>,
}

#[async_trait]
impl Admission for PodNodeSelector {
    async fn mutate(&self, write: &Attributes<'_>, object: &mut Value) -> Result<()> {
        if write.operation != Operation::Create || !write.is_pod() {
            return Ok(());
        }
        let selector = self.selector(write).await?;
        if !admission::merge_node_selector(object, &selector) {
            return Err(conflict(write, object));
        }
        self.check_allowed(write, object)
    }

    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        if write.operation != Operation::Create || !write.is_pod() {
            return Ok(());
        }
        let selector = self.selector(write).await?;
        if !admission::merge_node_selector(&mut object.clone(), &selector) {
            return Err(conflict(write, object));
        }
        self.check_allowed(write, object)
    }
}

impl PodNodeSelector {
    /// Returns the selector of the namespace of a pod.
    async fn selector(&self, write: &Attributes<'_>) -> Result<NodeSelector> {
        self.storage.fresh().await?;
        let Some(namespace) = self.namespaces.get(write.namespace) else {
            return Err(ApiError::not_found("namespaces", "", write.namespace));
        };
        let namespace = namespace.to_value();
        let annotated = namespace["metadata"]["annotations"][ANNOTATION].as_str();
        parse(annotated.or(self.selectors.get(DEFAULT).map(String::as_str)).unwrap_or_default())
    }

    fn check_allowed(&self, write: &Attributes<'_>, pod: &Value) -> Result<()> {
        let allowed = parse(self.selectors.get(write.namespace).map_or("", String::as_str))?;
        if admission::selects_only(pod, &allowed) {
            return Ok(());
        }
        Err(write.forbidden(pod, "pod node label selector labels conflict with its namespace whitelist"))
    }
}

fn parse(selector: &str) -> Result<NodeSelector> {
    admission::parse_node_selector(selector).map_err(ApiError::unexpected)
}

fn conflict(write: &Attributes<'_>, pod: &Value) -> ApiError {
    write.forbidden(pod, "pod node label selector conflicts with its namespace node label selector")
}
