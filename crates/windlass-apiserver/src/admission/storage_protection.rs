//! StorageObjectInUseProtection: volumes, claims and volume attributes classes are created with a finalizer, so that
//! none is removed while it is in use.

use async_trait::async_trait;
use serde_json::Value;

use super::{Admission, Attributes, Operation};
use crate::{meta, status::Result};

pub(crate) struct StorageProtection;

#[async_trait]
impl Admission for StorageProtection {
    async fn mutate(&self, write: &Attributes<'_>, object: &mut Value) -> Result<()> {
        if write.operation != Operation::Create || !write.subresource.is_empty() {
            return Ok(());
        }
        let finalizer = match (&*write.resource.group, &*write.resource.plural) {
            ("", "persistentvolumeclaims") => "kubernetes.io/pvc-protection",
            ("", "persistentvolumes") => "kubernetes.io/pv-protection",
            ("storage.k8s.io", "volumeattributesclasses") => "kubernetes.io/vac-protection",
            _ => return Ok(()),
        };
        let mut finalizers = meta::finalizers(object);
        if !finalizers.iter().any(|have| have == finalizer) {
            finalizers.push(finalizer.to_owned());
            meta::set_finalizers(object, finalizers);
        }
        Ok(())
    }
}
