//! Priority: pods get the priority of their class, and there is one default class.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use windlass_builtins::kinds::pod::admission;

use super::{Admission, Attributes, Operation};
use crate::{
    meta,
    status::Result,
    storage::{ResourceCache, Storage},
};

pub(crate) struct Priority {
    pub(crate) storage: Arc<Storage>,
    pub(crate) classes: Arc<ResourceCache>,
}

#[async_trait]
impl Admission for Priority {
    async fn mutate(&self, write: &Attributes<'_>, object: &mut Value) -> Result<()> {
        if !write.is_pod() {
            return Ok(());
        }
        match (write.operation, write.old) {
            (Operation::Create, _) => {
                let class = self.class(write, object).await?;
                admission::set_priority(object, class.as_ref()).map_err(|why| write.forbidden(object, &why))?;
            }
            (Operation::Update, Some(old)) => admission::keep_priority(object, old),
            _ => {}
        }
        Ok(())
    }

    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        let is_written = matches!(write.operation, Operation::Create | Operation::Update);
        let is_class = write.subresource.is_empty() && write.is("scheduling.k8s.io", "priorityclasses");
        if !is_written || !is_class || object["globalDefault"] != true {
            return Ok(());
        }
        self.storage.fresh().await?;
        let Some(class) = self.default_class() else { return Ok(()) };
        let name = meta::text(&class, "name");
        if write.operation == Operation::Update && name == write.name {
            return Ok(());
        }
        let why = format!("PriorityClass {name} is already marked as default. Only one default can exist");
        Err(write.forbidden(object, &why))
    }
}

impl Priority {
    /// Returns the PriorityClass that a pod names, or the default one.
    async fn class(&self, write: &Attributes<'_>, pod: &Value) -> Result<Option<Value>> {
        self.storage.fresh().await?;
        let name = pod["spec"]["priorityClassName"].as_str().unwrap_or_default();
        if name.is_empty() {
            return Ok(self.default_class());
        }
        match self.classes.get(name) {
            Some(class) => Ok(Some(class.to_value())),
            None => Err(write.forbidden(pod, &format!("no PriorityClass with name {name} was found"))),
        }
    }

    /// Returns the default class. Concurrent writes can create several; then the lowest applies.
    fn default_class(&self) -> Option<Value> {
        let classes = self.classes.snapshot();
        let values = classes.objects().map(|class| class.to_value());
        values.filter(|class| class["globalDefault"] == true).min_by_key(|class| class["value"].as_i64())
    }
}
