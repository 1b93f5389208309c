//! DefaultStorageClass: a PersistentVolumeClaim without a class gets the default one.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use windlass_builtins::kinds::{persistent_volume_claim::asks_for_class, storage_class::is_default_class};

use super::{Admission, Attributes, Operation, newest};
use crate::{
    status::Result,
    storage::{ResourceCache, Storage},
};

pub(crate) struct DefaultStorageClass {
    pub(crate) storage: Arc<Storage>,
    pub(crate) classes: Arc<ResourceCache>,
}

#[async_trait]
impl Admission for DefaultStorageClass {
    async fn mutate(&self, write: &Attributes<'_>, object: &mut Value) -> Result<()> {
        let is_new = write.operation == Operation::Create && write.subresource.is_empty();
        if !is_new || !write.is("", "persistentvolumeclaims") || asks_for_class(object) {
            return Ok(());
        }
        self.storage.fresh().await?;
        if let Some(class) = newest(&self.classes, is_default_class) {
            object["spec"]["storageClassName"] = class["metadata"]["name"].clone();
        }
        Ok(())
    }
}
