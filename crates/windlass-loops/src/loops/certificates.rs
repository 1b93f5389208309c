//! Requests for certificates: those of kubelets are approved, those that are approved are signed, and all go after a
//! while.
//!
//! | module | what it is for |
//! |---|---|
//! | `rules` | pure: what each signer signs, and for how long |
//! | `cleaner` | when requests go |

mod cleaner;
mod rules;

use std::sync::Arc;

use k8s_openapi::{
    ByteString,
    api::{
        authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
        certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{ResourceExt as _, api::PostParams};
use windlass::{Error, Result, context::Context, controller::Action, operator::Operator};

pub(super) use self::cleaner::add as add_cleaner;
use self::rules::{Verdict, is_kubelet_client, lifetime, verdict};
use super::{ClusterCertificates, FIELD_MANAGER, controller};
use crate::certificates::{Request, SignError, Signer};

/// How long to wait for somebody to be allowed what a request of theirs needs.
const UNTIL_ALLOWED: std::time::Duration = std::time::Duration::from_secs(60);

/// Approves requests of kubelets for certificates of their own.
pub(super) fn add_approving(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let name = "certificatesigningrequest-approving-controller";
    operator.controller(controller::<CertificateSigningRequest>(name, approve))
}

/// Signs requests that are approved, if there is an authority to sign with.
pub(super) fn add_signing(operator: Operator, certificates: &ClusterCertificates) -> Operator {
    let Some(authority) = &certificates.authority else { return operator };
    let signer = match Signer::new(authority) {
        Ok(signer) => Arc::new(signer),
        Err(error) => {
            tracing::warn!(%error, "certificates that are asked for are not signed");
            return operator;
        }
    };
    let name = "certificatesigningrequest-signing-controller";
    let reconcile = move |request, ctx| sign(Arc::clone(&signer), request, ctx);
    operator.controller(controller::<CertificateSigningRequest>(name, reconcile))
}

async fn approve(request: Arc<CertificateSigningRequest>, ctx: Context) -> Result<Action> {
    if is_issued(&request) || has(&request, "Approved") || has(&request, "Denied") {
        return Ok(Action::done());
    }
    if request.spec.signer_name != rules::KUBELET_CLIENT {
        return Ok(Action::done());
    }
    let parsed = Request::parse(&request.spec.request.0).map_err(Error::terminal)?;
    if !is_kubelet_client(&parsed, request.spec.usages.as_deref().unwrap_or_default()) {
        return Ok(Action::done());
    }
    // A node may ask for its own, and whoever is allowed for those of others.
    let own = request.spec.username.as_deref() == Some(parsed.common_name.as_str());
    let ways = [
        (own, "selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."),
        (true, "nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."),
    ];
    for (_, subresource, message) in ways.into_iter().filter(|way| way.0) {
        if may(&request, subresource, &ctx).await? {
            return add_approval(&request, message, &ctx).await;
        }
    }
    Ok(Action::requeue_after(UNTIL_ALLOWED))
}

/// Whether who has asked may create requests of a sort.
async fn may(request: &CertificateSigningRequest, subresource: &str, ctx: &Context) -> Result<bool> {
    let text = |text: &str| Some(text.to_owned());
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: request.spec.username.clone(),
            uid: request.spec.uid.clone(),
            groups: request.spec.groups.clone(),
            extra: request.spec.extra.clone(),
            resource_attributes: Some(ResourceAttributes {
                group: text("certificates.k8s.io"),
                version: text("*"),
                resource: text("certificatesigningrequests"),
                subresource: text(subresource),
                verb: text("create"),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    match ctx.api_all::<SubjectAccessReview>().create(&PostParams::default(), &review).await {
        Ok(review) => Ok(review.status.is_some_and(|status| status.allowed)),
        // A server that has no roles has no reviews either: there administrators may do everything.
        Err(kube::Error::Api(status)) if status.code == 405 => {
            Ok(request.spec.groups.iter().flatten().any(|group| group == "system:masters"))
        }
        Err(error) => Err(error.into()),
    }
}

async fn add_approval(request: &CertificateSigningRequest, message: &str, ctx: &Context) -> Result<Action> {
    let mut approved = request.clone();
    approved.status.get_or_insert_default().conditions.get_or_insert_default().push(
        CertificateSigningRequestCondition {
            type_: "Approved".to_owned(),
            status: "True".to_owned(),
            reason: Some("AutoApproved".to_owned()),
            message: Some(message.to_owned()),
            ..CertificateSigningRequestCondition::default()
        },
    );
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let requests = ctx.api_all::<CertificateSigningRequest>();
    requests.replace_subresource("approval", &request.name_any(), &params, &approved).await?;
    Ok(Action::done())
}

async fn sign(signer: Arc<Signer>, request: Arc<CertificateSigningRequest>, ctx: Context) -> Result<Action> {
    let approved = has(&request, "Approved") && !has(&request, "Denied");
    if is_issued(&request) || !approved || holds(&request, "Failed") {
        return Ok(Action::done());
    }
    if !rules::SIGNERS.contains(&request.spec.signer_name.as_str()) {
        return Ok(Action::done());
    }
    let parsed = Request::parse(&request.spec.request.0).map_err(Error::terminal)?;
    let usages = request.spec.usages.as_deref().unwrap_or_default();
    let mut answered = CertificateSigningRequest::clone(&request);
    let status = answered.status.get_or_insert_default();
    match verdict(&request.spec.signer_name, &parsed, usages) {
        Verdict::Refuse(message) => status.conditions.get_or_insert_default().push(refusal(message)),
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

fn refusal(message: String) -> CertificateSigningRequestCondition {
    CertificateSigningRequestCondition {
        type_: "Failed".to_owned(),
        status: "True".to_owned(),
        reason: Some("SignerValidationFailure".to_owned()),
        message: Some(message),
        last_update_time: Some(Time(windlass_clock::now_in_seconds())),
        ..CertificateSigningRequestCondition::default()
    }
}

/// The conditions of a request.
fn conditions(request: &CertificateSigningRequest) -> &[CertificateSigningRequestCondition] {
    request.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

/// Whether a request has a condition, whatever its status.
fn has(request: &CertificateSigningRequest, kind: &str) -> bool {
    conditions(request).iter().any(|condition| condition.type_ == kind)
}

/// Whether a request has a condition that holds.
fn holds(request: &CertificateSigningRequest, kind: &str) -> bool {
    let holds = |status: &str| status.is_empty() || status == "True";
    conditions(request).iter().any(|condition| condition.type_ == kind && holds(&condition.status))
}

fn is_issued(request: &CertificateSigningRequest) -> bool {
    let certificate = request.status.as_ref().and_then(|status| status.certificate.as_ref());
    certificate.is_some_and(|certificate| !certificate.0.is_empty())
}
