//! Binds claims to volumes.
//!
//! | module | contents |
//! |---|---|
//! | `claims` | the state of a claim |
//! | `bound_volumes` | the state of a volume |
//! | `cluster` | reads and writes of both |
//!
//! A volume and its claim refer to each other: the volume to the claim by UID, and the claim to the volume by name. The
//! volume is written first, so that no two claims are bound to the same one. A claim whose class waits for the first
//! consumer is left to the scheduler, which reserves a volume by referring to the claim in it.

mod bound_volumes;
mod claims;
mod cluster;

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use kube::ResourceExt as _;
use windlass::{
    Result,
    context::Context,
    controller::{
        Action, Watch,
        filter::{Change, Filter},
    },
    operator::Operator,
};

use super::{ClusterCertificates, controller};
use crate::{
    pods::is_scheduled,
    volumes::{self, claim_ref, claims_of_class, claims_of_pod, claims_of_volume, has_other_mode, is_bound},
};

const NAME: &str = "persistentvolume-binder-controller";
/// The reporter of events.
const REPORTER: &str = "persistentvolume-controller";

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    // Only new pods without a node can be waited for.
    let consumers = Filter::new(|change: &Change<'_, Pod>| {
        change.old.is_none() && change.new.is_some_and(|pod| !is_scheduled(pod))
    });
    let claims = controller::<PersistentVolumeClaim>(NAME, reconcile_claim)
        .reporter(REPORTER)
        .watches::<PersistentVolume>(claims_of_volume)
        .watches::<StorageClass>(claims_of_class)
        .source(Watch::<Pod>::new().filter(consumers).map(|pod, _ctx| claims_of_pod(pod)))
        .concurrency(4);
    let volumes = controller::<PersistentVolume>("persistentvolume-binder-controller-volumes", reconcile_volume)
        .reporter(REPORTER)
        .watches::<PersistentVolumeClaim>(volumes::volumes_of_claim)
        .concurrency(4);
    operator.controller(claims).controller(volumes)
}

async fn reconcile_claim(claim: Arc<PersistentVolumeClaim>, ctx: Context) -> Result<Action> {
    if is_bound(&claim) {
        cluster::keep(claim, &ctx).await?;
    } else if let Some(name) = claims::volume_name(&claim) {
        cluster::bind_named(&claim, name, &ctx).await?;
    } else {
        cluster::find(claim, &ctx).await?;
    }
    Ok(Action::done())
}

async fn reconcile_volume(volume: Arc<PersistentVolume>, ctx: Context) -> Result<Action> {
    let Some(uid) = claim_ref(&volume).and_then(|holder| holder.uid.clone()).filter(|uid| !uid.is_empty()) else {
        // It is free, or reserved for a claim that may not exist yet.
        cluster::set_phase(&volume, "Available", &ctx).await?;
        return Ok(Action::done());
    };
    let Some(claim) = cluster::holder(&volume, &uid, &ctx).await? else {
        cluster::release(volume, &ctx).await?;
        return Ok(Action::done());
    };
    let named = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
    if named.is_empty() {
        // The claim's reconciliation completes the binding.
        if has_other_mode(&volume, &claim) {
            cluster::report_mode_mismatch(&volume, &claim, &ctx);
        }
    } else if named == volume.name_any() {
        cluster::set_phase(&volume, "Bound", &ctx).await?;
    } else if bound_volumes::is_made_for_it(&volume) {
        cluster::release(volume, &ctx).await?;
    } else {
        cluster::unbind(&volume, &ctx).await?;
    }
    Ok(Action::done())
}
