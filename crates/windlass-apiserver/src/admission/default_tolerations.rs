//! DefaultTolerationSeconds: pods tolerate failing nodes for a while.

use async_trait::async_trait;
use serde_json::Value;
use windlass_builtins::kinds::pod::admission::{self, TolerationSeconds};

use super::{Admission, Attributes, Operation};
use crate::status::Result;

pub(crate) struct DefaultTolerations(pub(crate) TolerationSeconds);

#[async_trait]
impl Admission for DefaultTolerations {
    async fn mutate(&self, write: &Attributes<'_>, object: &mut Value) -> Result<()> {
        if write.is_pod() && matches!(write.operation, Operation::Create | Operation::Update) {
            admission::default_tolerations(object, self.0);
        }
        Ok(())
    }
}
