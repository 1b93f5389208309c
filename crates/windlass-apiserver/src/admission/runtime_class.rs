//! RuntimeClass: a pod has the overhead of its runtime, and runs on nodes with the runtime.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use windlass_builtins::kinds::pod::admission;

use super::{Admission, Attributes, Operation};
use crate::{
    status::Result,
    storage::{ResourceCache, Storage},
};

pub(crate) struct RuntimeClass {
    pub(crate) storage: Arc<Storage>,
    pub(crate) classes: Arc<ResourceCache>,
}

#[async_trait]
impl Admission for RuntimeClass {
    async fn mutate(&self, write: &Attributes<'_>, object: &mut Value) -> Result<()> {
        if write.operation != Operation::Create || !write.is_pod() {
            return Ok(());
        }
        let Some(class) = self.class(write, object).await? else { return Ok(()) };
        admission::use_runtime_class(object, &class).map_err(|why| write.forbidden(object, &why))
    }

    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        if write.operation != Operation::Create || !write.is_pod() {
            return Ok(());
        }
        let class = self.class(write, object).await?;
        admission::check_overhead(object, class.as_ref()).map_err(|why| write.forbidden(object, why))
    }
}

impl RuntimeClass {
    /// Returns the RuntimeClass of a pod, if it names one.
    async fn class(&self, write: &Attributes<'_>, pod: &Value) -> Result<Option<Value>> {
        let Some(name) = admission::runtime_class_name(pod) else { return Ok(None) };
        self.storage.fresh().await?;
        match self.classes.get(name) {
            Some(class) => Ok(Some(class.to_value())),
            None => Err(write.forbidden(pod, &format!("pod rejected: RuntimeClass {name:?} not found"))),
        }
    }
}
