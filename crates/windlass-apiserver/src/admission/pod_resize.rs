//! PodResizeValidator: a pod is resized only to what its node has.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_builtins::kinds::pod::admission;

use super::{Admission, Attributes, Operation};
use crate::{status::Result, storage::ResourceCache};

pub(crate) struct PodResize {
    pub(crate) nodes: Arc<ResourceCache>,
}

#[async_trait]
impl Admission for PodResize {
    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        let is_resized = write.operation == Operation::Update && write.subresource == "resize" && write.is("", "pods");
        let Some(old) = write.old.filter(|_| is_resized) else { return Ok(()) };
        let name = object["spec"]["nodeName"].as_str().unwrap_or_default();
        if name.is_empty() || object["spec"] == old["spec"] {
            return Ok(());
        }
        let Some(node) = self.nodes.get(name) else {
            return Err(write.forbidden(object, &format!("node {name:?} not found")));
        };
        admission::check_resize(object, &node.to_value()).map_err(|rejection| {
            let mut error = write.forbidden(object, &rejection.message);
            if let Some(details) = &mut error.details {
                details["causes"] = json!([{"reason": rejection.reason}]);
            }
            error
        })
    }
}
