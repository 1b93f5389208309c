//! LimitRanger: pods and claims are defaulted and limited by the LimitRanges of their namespace.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use windlass_builtins::kinds::limit_range::admission;

use super::{Admission, Attributes, Operation};
use crate::{meta, status::Result, storage::ResourceCache};

pub(crate) struct LimitRanger {
    pub(crate) ranges: Arc<ResourceCache>,
}

#[async_trait]
impl Admission for LimitRanger {
    async fn mutate(&self, write: &Attributes<'_>, object: &mut Value) -> Result<()> {
        if !is_limited_pod(write) {
            return Ok(());
        }
        for range in self.of(write) {
            admission::default_resources(&range, object);
        }
        Ok(())
    }

    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        let check = match write.operation {
            _ if is_limited_pod(write) => admission::check_pod,
            Operation::Create | Operation::Update
                if write.subresource.is_empty() && write.is("", "persistentvolumeclaims") =>
            {
                admission::check_claim
            }
            _ => return Ok(()),
        };
        for range in self.of(write) {
            check(&range, object).map_err(|why| write.forbidden(object, &why))?;
        }
        Ok(())
    }
}

impl LimitRanger {
    /// Returns the LimitRanges that apply to a write.
    fn of(&self, write: &Attributes<'_>) -> Vec<Value> {
        // An object that is being deleted may be out of range.
        if write.old.is_some_and(meta::is_terminating) {
            return Vec::new();
        }
        let ranges = self.ranges.snapshot();
        let prefix = format!("{}/", write.namespace);
        ranges.range(&prefix, None).map(|(_, cached)| cached.object.to_value()).collect()
    }
}

/// Pods are limited when they are created and when they are resized.
fn is_limited_pod(write: &Attributes<'_>) -> bool {
    write.is("", "pods")
        && matches!((write.operation, write.subresource), (Operation::Create, "") | (Operation::Update, "resize"))
}
