//! DefaultTolerationSeconds and Priority: pods get tolerations for failing nodes, and a priority.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use windlass_builtins::kinds::pod::admission;

use super::{Admission, Attributes, Operation};
use crate::{
    status::Result,
    storage::{ResourceCache, Storage},
};

pub(crate) struct PodDefaults {
    pub(crate) storage: Arc<Storage>,
    pub(crate) priority_classes: Arc<ResourceCache>,
}

#[async_trait]
impl Admission for PodDefaults {
    async fn mutate(&self, write: &Attributes<'_>, object: &mut Value) -> Result<()> {
        let is_pod = write.resource.group.is_empty() && &*write.resource.plural == "pods";
        if !is_pod || !write.subresource.is_empty() {
            return Ok(());
        }
        match (write.operation, write.old) {
            (Operation::Create, _) => {
                let class = self.class(write, object).await?;
                admission::set_priority(object, class.as_ref()).map_err(|why| write.forbidden(object, &why))?;
                admission::default_tolerations(object);
            }
            (Operation::Update, Some(old)) => {
                admission::keep_priority(object, old);
                admission::default_tolerations(object);
            }
            _ => {}
        }
        Ok(())
    }
}

impl PodDefaults {
    /// Returns the PriorityClass that a pod names, or the global default.
    async fn class(&self, write: &Attributes<'_>, pod: &Value) -> Result<Option<Value>> {
        self.storage.fresh().await?;
        let name = pod["spec"]["priorityClassName"].as_str().unwrap_or_default();
        if !name.is_empty() {
            return match self.priority_classes.get(name) {
                Some(class) => Ok(Some(class.to_value())),
                None => Err(write.forbidden(pod, &format!("no PriorityClass with name {name} was found"))),
            };
        }
        let classes = self.priority_classes.snapshot();
        let values = classes.objects().map(|class| class.to_value());
        let defaults = values.filter(|class| class["globalDefault"] == true);
        // Of several global defaults the lowest applies.
        Ok(defaults.min_by_key(|class| class["value"].as_i64()))
    }
}
