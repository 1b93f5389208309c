//! PersistentVolumeClaimResize: a claim grows only if it is bound and its storage class allows expansion.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use windlass_builtins::kinds::persistent_volume_claim;

use super::{Admission, Attributes, Operation};
use crate::{
    status::Result,
    storage::{ResourceCache, Storage},
};

pub(crate) struct ClaimResize {
    pub(crate) storage: Arc<Storage>,
    pub(crate) classes: Arc<ResourceCache>,
}

#[async_trait]
impl Admission for ClaimResize {
    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        let is_claim = write.subresource.is_empty() && write.is("", "persistentvolumeclaims");
        let (Operation::Update, Some(old), true) = (write.operation, write.old, is_claim) else { return Ok(()) };
        if !persistent_volume_claim::grows(object, old) {
            return Ok(());
        }
        let reject = |why| Err(write.forbidden(object, why));
        if old["status"]["phase"] != "Bound" {
            return reject("Only bound persistent volume claims can be expanded");
        }
        self.storage.fresh().await?;
        let (class, had) = (persistent_volume_claim::class_name(object), persistent_volume_claim::class_name(old));
        let class = if class == had && !class.is_empty() { self.classes.get(class) } else { None };
        if class.is_none_or(|class| class.to_value()["allowVolumeExpansion"] != true) {
            return reject(
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                 support resize",
            );
        }
        Ok(())
    }
}
