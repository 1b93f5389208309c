//! NodeDeclaredFeatureValidator: a bound pod is changed only in ways that its node supports.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use windlass_builtins::kinds::pod::admission;

use super::{Admission, Attributes, Operation};
use crate::{status::Result, storage::ResourceCache};

pub(crate) struct NodeFeatures {
    pub(crate) nodes: Arc<ResourceCache>,
}

#[async_trait]
impl Admission for NodeFeatures {
    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        let is_changed = matches!((write.operation, write.subresource), (Operation::Update, "" | "resize"));
        let Some(old) = write.old.filter(|_| is_changed && write.is("", "pods")) else { return Ok(()) };
        let name = object["spec"]["nodeName"].as_str().unwrap_or_default();
        if name.is_empty() || admission::needed_features(object, old).is_empty() {
            return Ok(());
        }
        let Some(node) = self.nodes.get(name) else {
            return Err(write.forbidden(object, &format!("node {name:?} not found")));
        };
        let missing = admission::missing_features(object, old, &node.to_value());
        if missing.is_empty() {
            return Ok(());
        }
        let missing = missing.join(", ");
        let why = format!("pod update requires features {missing} which are not available on node {name:?}");
        Err(write.forbidden(object, &why))
    }
}
