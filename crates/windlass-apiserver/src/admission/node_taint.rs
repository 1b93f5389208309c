//! TaintNodesByCondition: a new node is tainted until it is ready.

use async_trait::async_trait;
use serde_json::Value;
use windlass_builtins::kinds::node::add_not_ready_taint;

use super::{Admission, Attributes, Operation};
use crate::status::Result;

pub(crate) struct NodeTaint;

#[async_trait]
impl Admission for NodeTaint {
    async fn mutate(&self, write: &Attributes<'_>, object: &mut Value) -> Result<()> {
        if write.operation == Operation::Create && write.subresource.is_empty() && write.is("", "nodes") {
            add_not_ready_taint(object);
        }
        Ok(())
    }
}
