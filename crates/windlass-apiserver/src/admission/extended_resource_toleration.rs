//! ExtendedResourceToleration: pods tolerate the taints of nodes with the extended resources that they request.

use async_trait::async_trait;
use serde_json::Value;
use windlass_builtins::kinds::pod::admission;

use super::{Admission, Attributes, Operation};
use crate::status::Result;

pub(crate) struct ExtendedResourceToleration;

#[async_trait]
impl Admission for ExtendedResourceToleration {
    async fn mutate(&self, write: &Attributes<'_>, object: &mut Value) -> Result<()> {
        if write.is_pod() && matches!(write.operation, Operation::Create | Operation::Update) {
            admission::tolerate_extended_resources(object);
        }
        Ok(())
    }
}
