//! Deletes certificate signing requests that are no longer useful.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use windlass::{Result, context::Context, controller::Action, operator::Operator};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::{ClusterCertificates, controller};
use crate::certificates::requests::{conditions, is_issued};

/// Time for which requests are kept after a decision, and without one.
const ANSWERED: SignedDuration = SignedDuration::from_hours(1);
const PENDING: SignedDuration = SignedDuration::from_hours(24);

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let name = "certificatesigningrequest-cleaner-controller";
    operator.controller(controller::<CertificateSigningRequest>(name, reconcile))
}

async fn reconcile(request: Arc<CertificateSigningRequest>, ctx: Context) -> Result<Action> {
    let now = windlass_clock::now();
    let Some(end) = expires_at(&request) else { return Ok(Action::done()) };
    if end >= now {
        // One second later, because the time must have passed.
        let wait = Duration::try_from(end.duration_since(now)).unwrap_or_default();
        return Ok(Action::requeue_after(wait + Duration::from_secs(1)));
    }
    match ctx.delete(&request).await {
        Err(error) if !error.is_conflict() => Err(error.into()),
        _ => Ok(Action::done()),
    }
}

/// Returns the time at which a request may be deleted.
fn expires_at(request: &CertificateSigningRequest) -> Option<Timestamp> {
    let issued = is_issued(request);
    let after = |time: Option<Timestamp>, kept| time.and_then(|time| time.checked_add(kept).ok());
    let conditions = conditions(request);
    if conditions.is_empty() {
        return after(request.metadata.creation_timestamp.as_ref().map(|time| time.0), PENDING);
    }
    let ends = conditions.iter().filter_map(|condition| {
        let updated = condition.last_update_time.as_ref().map(|time| time.0);
        match condition.type_.as_str() {
            "Denied" | "Failed" => after(updated, ANSWERED),
            "Approved" if issued => {
                let expiry = expiry(request);
                after(updated, ANSWERED).into_iter().chain(expiry).min()
            }
            "Approved" => after(updated, PENDING),
            _ => None,
        }
    });
    ends.min()
}

/// Returns the time at which the issued certificate expires, if it can be parsed.
fn expiry(request: &CertificateSigningRequest) -> Option<Timestamp> {
    let certificate = request.status.as_ref()?.certificate.as_ref()?;
    let der = CertificateDer::from_pem_slice(&certificate.0).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_kept_for_an_hour_after_their_answer_and_for_a_day_without_one() {
        let at = "2026-01-01T05:00:00Z";
        let condition = |kind: &str| json!([{"type": kind, "status": "True", "lastUpdateTime": at}]);
        for (status, expected) in [
            (json!({}), Some("2026-01-02T00:00:00Z")),
            (json!({"conditions": condition("Denied")}), Some("2026-01-01T06:00:00Z")),
            (json!({"conditions": condition("Failed")}), Some("2026-01-01T06:00:00Z")),
            (json!({"conditions": condition("Approved")}), Some("2026-01-02T05:00:00Z")),
            (json!({"conditions": condition("Approved"), "certificate": "eA=="}), Some("2026-01-01T06:00:00Z")),
            (json!({"conditions": condition("Other")}), None),
        ] {
            let request: CertificateSigningRequest = serde_json::from_value(json!({
                "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"request": "", "signerName": "a/b"},
                "status": status,
            }))
            .unwrap();
            assert_eq!(expires_at(&request), expected.map(|time| time.parse().unwrap()), "{status}");
        }
    }
}
