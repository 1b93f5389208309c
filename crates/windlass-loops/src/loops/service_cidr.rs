//! Keeps ServiceCIDRs while cluster IPs are allocated from them, and marks them as ready.

mod prefix;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::networking::v1::{IPAddress, ServiceCIDR},
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::{ResourceExt as _, api::ListParams};
use windlass::{Result, context::Context, controller::Action, operator::Operator};

use self::prefix::{Networks, would_orphan};
use super::{ClusterCertificates, controller};

const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
/// The label of IPAddresses that belong to services.
const OF_SERVICES: &str = "ipaddress.kubernetes.io/managed-by=ipallocator.k8s.io";

/// Time for which a ServiceCIDR stays after its deletion, so that every API server stops allocating from it.
const GRACE: Duration = Duration::from_secs(10);
/// Interval at which a ServiceCIDR that is in use is checked again. Deletions are rare, so the addresses are not watched.
const CHECK_EVERY: Duration = Duration::from_secs(1);

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    operator.controller(controller::<ServiceCIDR>("service-cidr-controller", reconcile))
}

async fn reconcile(cidr: Arc<ServiceCIDR>, ctx: Context) -> Result<Action> {
    let is_protected = cidr.finalizers().iter().any(|have| have == FINALIZER);
    let Some(deleted) = &cidr.metadata.deletion_timestamp else {
        let cidr = match is_protected {
            true => cidr,
            false => {
                let mut protected = ServiceCIDR::clone(&cidr);
                protected.finalizers_mut().push(FINALIZER.to_owned());
                ctx.update(protected).await?
            }
        };
        set_ready(&cidr, "True", "", "Kubernetes Service CIDR is ready", &ctx).await?;
        return Ok(Action::done());
    };
    if !is_protected {
        return Ok(Action::done());
    }
    if is_used(&cidr, &ctx).await? {
        let message = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new \
                       ServiceCIDR";
        set_ready(&cidr, "False", "Terminating", message, &ctx).await?;
        return Ok(Action::requeue_after(CHECK_EVERY));
    }
    match remaining_grace(deleted.0, windlass_clock::now()) {
        Some(remaining) => Ok(Action::requeue_after(remaining)),
        None => {
            let mut released = ServiceCIDR::clone(&cidr);
            released.finalizers_mut().retain(|have| have != FINALIZER);
            match ctx.update(released).await {
                Err(error) if !error.is_not_found() => Err(error.into()),
                _ => Ok(Action::done()),
            }
        }
    }
}

/// Returns whether the address of a service is in no other ServiceCIDR.
async fn is_used(cidr: &ServiceCIDR, ctx: &Context) -> Result<bool> {
    let all: Vec<Networks> = ctx.list::<ServiceCIDR>()?.iter().map(|cidr| Networks::of(cidr)).collect();
    let addresses = ctx.live().list::<IPAddress>(None, &ListParams::default().labels(OF_SERVICES)).await?;
    let addresses = addresses.items.iter().filter_map(|address| address.metadata.name.as_deref()?.parse().ok());
    Ok(would_orphan(&Networks::of(cidr), &all, &addresses.collect::<Vec<_>>()))
}

/// Sets the condition `Ready`, unless it is correct.
async fn set_ready(cidr: &ServiceCIDR, status: &str, reason: &str, message: &str, ctx: &Context) -> Result<()> {
    let mut changed = ServiceCIDR::clone(cidr);
    let conditions = changed.status.get_or_insert_default().conditions.get_or_insert_default();
    let present = conditions.iter().position(|condition| condition.type_ == "Ready");
    let is_same = |have: &Condition| have.status == status && have.reason == reason && have.message == message;
    if present.is_some_and(|index| is_same(&conditions[index])) {
        return Ok(());
    }
    let ready = Condition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Time(windlass_clock::now()),
        observed_generation: None,
    };
    match present {
        Some(index) => conditions[index] = ready,
        None => conditions.push(ready),
    }
    ctx.update_status(changed).await?;
    Ok(())
}

fn remaining_grace(deleted: Timestamp, now: Timestamp) -> Option<Duration> {
    let passed = Duration::try_from(now.duration_since(deleted)).unwrap_or_default();
    GRACE.checked_sub(passed).filter(|remaining| !remaining.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_network_stays_for_its_grace_period() {
        let deleted: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for (now, expected) in [
            ("2025-12-31T23:59:59Z", Some(10)),
            ("2026-01-01T00:00:00Z", Some(10)),
            ("2026-01-01T00:00:09Z", Some(1)),
            ("2026-01-01T00:00:10Z", None),
            ("2026-01-01T00:00:11Z", None),
        ] {
            assert_eq!(remaining_grace(deleted, now.parse().unwrap()), expected.map(Duration::from_secs), "{now}");
        }
    }
}
