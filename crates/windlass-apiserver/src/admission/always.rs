//! AlwaysDeny: every write is rejected.

use async_trait::async_trait;
use serde_json::Value;

use super::{Admission, Attributes, Operation};
use crate::status::Result;

pub(crate) struct AlwaysDeny;

#[async_trait]
impl Admission for AlwaysDeny {
    async fn mutate(&self, write: &Attributes<'_>, object: &mut Value) -> Result<()> {
        self.validate(write, object).await
    }

    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        if write.operation == Operation::Connect {
            return Ok(());
        }
        Err(write.forbidden(object, "admission control is denying all modifications"))
    }
}
