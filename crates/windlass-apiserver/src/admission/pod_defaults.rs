//! DefaultTolerationSeconds and Priority: pods get tolerations for failing nodes, and a priority; at most one PriorityClass
//! is the global default.

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

    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        let concerned = write.is("scheduling.k8s.io", "priorityclasses") && write.subresource.is_empty();
        let is_written = matches!(write.operation, Operation::Create | Operation::Update);
        if !concerned || !is_written || object["globalDefault"] != true {
            return Ok(());
        }
        self.storage.fresh().await?;
        let Some(default) = self.global_default() else { return Ok(()) };
        let name = meta::text(&default, "name");
        if write.operation == Operation::Update && name == meta::text(object, "name") {
            return Ok(());
        }
        let why = format!("PriorityClass {name} is already marked as default. Only one default can exist");
        Err(write.forbidden(object, &why))
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
        Ok(self.global_default())
    }

    /// Returns the global default. Of several ones, which concurrent writes can create, the lowest applies.
    fn global_default(&self) -> Option<Value> {
        let classes = self.priority_classes.snapshot();
        let values = classes.objects().map(|class| class.to_value());
        values.filter(|class| class["globalDefault"] == true).min_by_key(|class| class["value"].as_i64())
    }
}
