//! DefaultIngressClass: an Ingress without a class gets the default one.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use windlass_builtins::kinds::{ingress::old_class, ingress_class::is_default_class};

use super::{Admission, Attributes, Operation, newest};
use crate::{
    status::Result,
    storage::{ResourceCache, Storage},
};

pub(crate) struct DefaultIngressClass {
    pub(crate) storage: Arc<Storage>,
    pub(crate) classes: Arc<ResourceCache>,
}

#[async_trait]
impl Admission for DefaultIngressClass {
    async fn mutate(&self, write: &Attributes<'_>, object: &mut Value) -> Result<()> {
        let is_new = write.operation == Operation::Create && write.subresource.is_empty();
        let names_one = !object["spec"]["ingressClassName"].is_null() || old_class(object).is_some();
        if !is_new || !write.is("networking.k8s.io", "ingresses") || names_one {
            return Ok(());
        }
        self.storage.fresh().await?;
        if let Some(class) = newest(&self.classes, is_default_class) {
            object["spec"]["ingressClassName"] = class["metadata"]["name"].clone();
        }
        Ok(())
    }
}
