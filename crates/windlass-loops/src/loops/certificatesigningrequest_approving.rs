//! Approves certificate signing requests of kubelets for their own client certificates.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
};
use kube::{ResourceExt as _, api::PostParams};
use windlass::{Error, Result, context::Context, controller::Action, operator::Operator};

use super::{ClusterCertificates, FIELD_MANAGER, controller};
use crate::certificates::{
    Request,
    requests::{has, is_issued},
    rules::{KUBELET_CLIENT, is_kubelet_client},
};

/// Time to wait before checking again whether the requester is allowed to.
const UNTIL_ALLOWED: Duration = Duration::from_secs(60);

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let name = "certificatesigningrequest-approving-controller";
    operator.controller(controller::<CertificateSigningRequest>(name, reconcile))
}

async fn reconcile(request: Arc<CertificateSigningRequest>, ctx: Context) -> Result<Action> {
    if is_issued(&request) || has(&request, "Approved") || has(&request, "Denied") {
        return Ok(Action::done());
    }
    if request.spec.signer_name != KUBELET_CLIENT {
        return Ok(Action::done());
    }
    let parsed = Request::parse(&request.spec.request.0).map_err(Error::terminal)?;
    if !is_kubelet_client(&parsed, request.spec.usages.as_deref().unwrap_or_default()) {
        return Ok(Action::done());
    }
    // A node may request its own certificate; others need permission.
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

/// Returns whether the requester may create requests of this kind.
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
        // A server without RBAC has no access reviews: there, administrators may do everything.
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
