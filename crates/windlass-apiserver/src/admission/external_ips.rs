//! DenyServiceExternalIPs: services cannot take addresses that they do not have already.

use async_trait::async_trait;
use serde_json::Value;

use super::{Admission, Attributes, Operation};
use crate::status::Result;

pub(crate) struct ExternalIps;

#[async_trait]
impl Admission for ExternalIps {
    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        let is_service = write.is("", "services") && write.subresource.is_empty();
        if !is_service || !matches!(write.operation, Operation::Create | Operation::Update) {
            return Ok(());
        }
        let addresses = |object: &Value| object["spec"]["externalIPs"].as_array().cloned().unwrap_or_default();
        let old = write.old.map(addresses).unwrap_or_default();
        if addresses(object).iter().all(|address| old.contains(address)) {
            return Ok(());
        }
        Err(write.forbidden(object, "Use of external IPs is denied by admission control"))
    }
}
