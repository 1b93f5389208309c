//! Signs approved certificate signing requests, if the plane has a certificate authority.

use std::sync::Arc;

use k8s_openapi::{
    ByteString,
    api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
    apimachinery::pkg::apis::meta::v1::Time,
};
use windlass::{Error, Result, context::Context, controller::Action, operator::Operator};

use super::{ClusterCertificates, controller};
use crate::certificates::{
    Request, SignError, Signer,
    requests::{has, holds, is_issued},
    rules::{SIGNERS, Verdict, lifetime, verdict},
};

pub(super) fn add(operator: Operator, certificates: &ClusterCertificates) -> Operator {
    let Some(authority) = &certificates.authority else { return operator };
    let signer = match Signer::new(authority) {
        Ok(signer) => Arc::new(signer),
        Err(error) => {
            tracing::warn!(%error, "certificate signing requests will not be signed");
            return operator;
        }
    };
    let name = "certificatesigningrequest-signing-controller";
    let reconciler = move |request, ctx| reconcile(Arc::clone(&signer), request, ctx);
    operator.controller(controller::<CertificateSigningRequest>(name, reconciler))
}

async fn reconcile(signer: Arc<Signer>, request: Arc<CertificateSigningRequest>, ctx: Context) -> Result<Action> {
    let approved = has(&request, "Approved") && !has(&request, "Denied");
    if is_issued(&request) || !approved || holds(&request, "Failed") {
        return Ok(Action::done());
    }
    if !SIGNERS.contains(&request.spec.signer_name.as_str()) {
        return Ok(Action::done());
    }
    let parsed = Request::parse(&request.spec.request.0).map_err(Error::terminal)?;
    let usages = request.spec.usages.as_deref().unwrap_or_default();
    let mut answered = CertificateSigningRequest::clone(&request);
    let status = answered.status.get_or_insert_default();
    match verdict(&request.spec.signer_name, &parsed, usages) {
        Verdict::Reject(message) => status.conditions.get_or_insert_default().push(rejection(message)),
        Verdict::Sign => {
            let lifetime = lifetime(request.spec.expiration_seconds);
            let signed = signer.sign(&parsed, usages, lifetime, windlass_clock::now_in_seconds());
            let certificate = signed.map_err(|error| match error {
                SignError::Expired | SignError::Usages(_) => Error::terminal(error),
                error => Error::new(error),
            })?;
            status.certificate = Some(ByteString(certificate.into_bytes()));
        }
    }
    ctx.update_status(answered).await?;
    Ok(Action::done())
}

fn rejection(message: String) -> CertificateSigningRequestCondition {
    CertificateSigningRequestCondition {
        type_: "Failed".to_owned(),
        status: "True".to_owned(),
        reason: Some("SignerValidationFailure".to_owned()),
        message: Some(message),
        last_update_time: Some(Time(windlass_clock::now_in_seconds())),
        ..CertificateSigningRequestCondition::default()
    }
}
