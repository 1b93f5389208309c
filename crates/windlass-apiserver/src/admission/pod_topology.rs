//! PodTopologyLabels: a pod has the zone and the region of its node as labels.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use windlass_builtins::kinds::pod::admission;

use super::{Admission, Attributes, Operation};
use crate::{status::Result, storage::ResourceCache};

pub(crate) struct PodTopology {
    pub(crate) nodes: Arc<ResourceCache>,
}

#[async_trait]
impl Admission for PodTopology {
    async fn mutate(&self, write: &Attributes<'_>, object: &mut Value) -> Result<()> {
        if write.operation != Operation::Create || !write.is("", "pods") {
            return Ok(());
        }
        let name = match write.subresource {
            "" => &object["spec"]["nodeName"],
            "binding" if object["target"]["kind"] == "Node" => &object["target"]["name"],
            _ => return Ok(()),
        };
        // A pod may be bound to a node that does not exist.
        if let Some(node) = name.as_str().filter(|name| !name.is_empty()).and_then(|name| self.nodes.get(name)) {
            admission::copy_topology_labels(object, &node.to_value());
        }
        Ok(())
    }
}
