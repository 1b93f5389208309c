//! Deletes the leases of stopped API servers.
//!
//! Every API server has a lease in `kube-system` while it runs. A lease that has expired is deleted at the next check,
//! which happens hourly.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, Preconditions};
use windlass::{
    Result,
    context::Context,
    controller::{Action, Controller, Watch},
    key::ObjectKey,
    operator::Operator,
    scope::Scope,
};

use super::{ClusterCertificates, FIELD_MANAGER};

/// Interval at which leases are checked.
const PERIOD: Duration = Duration::from_secs(3600);

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let identities = Scope::namespace("kube-system").labels("apiserver.kubernetes.io/identity=kube-apiserver");
    let watch = Watch::<Lease>::new().scope(identities);
    operator
        .controller(Controller::of("apiserver-lease-expiry-controller", watch, reconcile).field_manager(FIELD_MANAGER))
}

async fn reconcile(lease: Arc<Lease>, ctx: Context) -> Result<Action> {
    let now = windlass_clock::now();
    if !is_expired(&lease, now) {
        return Ok(Action::requeue_after(PERIOD));
    }
    // The cache may lag behind, and a running server must not lose its lease.
    let fresh = ctx.live().get::<Lease>(&ObjectKey::of(lease.as_ref())).await?;
    let Some(fresh) = fresh.filter(|fresh| is_expired(fresh, now)) else {
        return Ok(Action::requeue_after(PERIOD));
    };
    let preconditions =
        Preconditions { uid: fresh.metadata.uid.clone(), resource_version: fresh.metadata.resource_version.clone() };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match ctx.delete_with(&fresh, &params).await {
        Err(error) if !error.is_conflict() => Err(error.into()),
        _ => Ok(Action::done()),
    }
}

/// Returns whether a lease has expired. A lease without a duration has.
fn is_expired(lease: &Lease, now: Timestamp) -> bool {
    let spec = lease.spec.as_ref();
    let renewed = spec.and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0);
    let holds = spec.and_then(|spec| spec.lease_duration_seconds);
    let end = renewed
        .zip(holds)
        .and_then(|(renewed, seconds)| renewed.checked_add(SignedDuration::from_secs(seconds.into())).ok());
    end.is_none_or(|end| end < now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_expires_after_its_duration_since_the_last_renewal() {
        let renewed = "2026-01-01T00:00:00.000000Z";
        for (spec, expected) in [
            (json!({"renewTime": renewed, "leaseDurationSeconds": 60}), false),
            (json!({"renewTime": renewed, "leaseDurationSeconds": 59}), true),
            (json!({"renewTime": renewed}), true),
            (json!({"leaseDurationSeconds": 60}), true),
            (json!({}), true),
        ] {
            let lease: Lease = serde_json::from_value(json!({"spec": spec})).unwrap();
            assert_eq!(is_expired(&lease, "2026-01-01T00:01:00Z".parse().unwrap()), expected, "{spec}");
        }
    }
}
