//! CertificateApproval and CertificateSigning: who may approve and sign requests for certificates of a signer.

use async_trait::async_trait;
use serde_json::Value;

use super::{Admission, Attributes, Operation};
use crate::{authorization::ResourceAction, status::Result};

/// A plugin for each of the two.
pub(crate) enum CertificateAuthority {
    Approval,
    Signing,
}

#[async_trait]
impl Admission for CertificateAuthority {
    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        let concerned =
            write.operation == Operation::Update && write.is("certificates.k8s.io", "certificatesigningrequests");
        let Some(old) = write.old.filter(|_| concerned) else { return Ok(()) };
        let changes = |field: &str| {
            let stated = |value: &Value| match value {
                Value::Array(list) if list.is_empty() => Value::Null,
                value => value.clone(),
            };
            stated(&old["status"][field]) != stated(&object["status"][field])
        };
        let verb = match (self, write.subresource) {
            (Self::Approval, "approval") => "approve",
            (Self::Signing, "status") if changes("certificate") || changes("conditions") => "sign",
            _ => return Ok(()),
        };
        // That of the stored request, which this one must not change.
        let signer = old["spec"]["signerName"].as_str().unwrap_or_default();
        if may_act(write, verb, signer).await {
            return Ok(());
        }
        Err(write.forbidden(object, &format!("user not permitted to {verb} requests with signerName {signer:?}")))
    }
}

/// Returns whether the user may act for a signer, or for all signers of its domain.
async fn may_act(write: &Attributes<'_>, verb: &str, signer: &str) -> bool {
    let domain = format!("{}/*", signer.split('/').next().unwrap_or_default());
    for name in [signer, &domain] {
        let action = ResourceAction {
            verb,
            group: "certificates.k8s.io",
            version: "*",
            resource: "signers",
            name,
            ..ResourceAction::default()
        };
        if write.authorize(action).await.is_allowed() {
            return true;
        }
    }
    false
}
