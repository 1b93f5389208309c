//! CertificateApproval, CertificateSigning and ClusterTrustBundleAttest: who may approve and sign requests for
//! certificates of a signer, and who may publish trust bundles.

use async_trait::async_trait;
use serde_json::Value;
use windlass_schema::field::{FieldError, Path};

use super::{Admission, Attributes, Operation};
use crate::{
    authorization::ResourceAction,
    meta,
    status::{ApiError, Result},
};

/// A plugin for each of the three.
pub(crate) enum CertificateAuthority {
    Approval,
    Signing,
    Attest,
}

#[async_trait]
impl Admission for CertificateAuthority {
    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        if write.is("certificates.k8s.io", "clustertrustbundles") {
            return self.validate_bundle(write, object).await;
        }
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
        // The signer of the stored request, which this one must not change.
        let signer = old["spec"]["signerName"].as_str().unwrap_or_default();
        if may_act(write, verb, signer).await {
            return Ok(());
        }
        Err(write.forbidden(object, &format!("user not permitted to {verb} requests with signerName {signer:?}")))
    }
}

impl CertificateAuthority {
    /// Requires that the user may attest for the signer of a bundle.
    async fn validate_bundle(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        let signer = object["spec"]["signerName"].as_str().unwrap_or_default();
        let is_written = matches!(write.operation, Operation::Create | Operation::Update);
        let is_collected = write.old.is_some_and(|old| without_references(old) == without_references(object));
        if !matches!(self, Self::Attest) || !is_written || signer.is_empty() || is_collected {
            return Ok(());
        }
        if may_act(write, "attest", signer).await {
            return Ok(());
        }
        Err(write.forbidden(object, &format!("user not permitted to attest for signerName {signer:?}")))
    }
}

/// Returns an object without the fields that the garbage collector and storage migrations change.
fn without_references(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["ownerReferences", "finalizers", "managedFields"] {
            metadata.remove(field);
        }
    }
    object
}

/// Requires that a user who changes the status of a PodCertificateRequest may sign for its signer. kube-apiserver
/// validates this rather than admits it, so no flag disables it.
pub(crate) struct PodCertificateSigning;

#[async_trait]
impl Admission for PodCertificateSigning {
    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        let concerned = write.subresource == "status" && write.is("certificates.k8s.io", "podcertificaterequests");
        let Some(old) = write.old.filter(|old| concerned && old["status"] != object["status"]) else { return Ok(()) };
        let signer = old["spec"]["signerName"].as_str().unwrap_or_default();
        if may_act(write, "sign", signer).await {
            return Ok(());
        }
        let detail = format!("User {:?} is not permitted to \"sign\" for signer {signer:?}", write.user.name);
        let errors = vec![FieldError::forbidden(&Path::new("spec").child("signerName"), detail)];
        let resource = write.resource;
        Err(ApiError::invalid(&resource.kind, &resource.group, meta::text(object, "name"), &errors))
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
