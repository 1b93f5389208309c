//! Facts about certificate signing requests.

use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};

/// The conditions of a request.
pub(crate) fn conditions(request: &CertificateSigningRequest) -> &[CertificateSigningRequestCondition] {
    request.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

/// Returns whether a request has a condition, regardless of its status.
pub(crate) fn has(request: &CertificateSigningRequest, kind: &str) -> bool {
    conditions(request).iter().any(|condition| condition.type_ == kind)
}

/// Returns whether a request has a condition that is true.
pub(crate) fn holds(request: &CertificateSigningRequest, kind: &str) -> bool {
    let holds = |status: &str| status.is_empty() || status == "True";
    conditions(request).iter().any(|condition| condition.type_ == kind && holds(&condition.status))
}

pub(crate) fn is_issued(request: &CertificateSigningRequest) -> bool {
    let certificate = request.status.as_ref().and_then(|status| status.certificate.as_ref());
    certificate.is_some_and(|certificate| !certificate.0.is_empty())
}
