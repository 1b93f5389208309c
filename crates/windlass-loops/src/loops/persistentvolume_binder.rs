//! Binds claims to volumes.
//!
//! | module | what it is for |
//! |---|---|
//! | `claims` | what becomes of a claim |
//! | `volumes` | what becomes of a volume |
//!
//! Both sides name each other: the volume the claim, by uid, and the claim the volume, by name. The volume is written
//! first, so that no two claims have the same. A claim whose class waits for a pod is left to the scheduler, which tells
//! its choice by naming the claim in the volume.

mod bound_volumes;
mod claims;

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
/// Whom events name as their source.
const REPORTER: &str = "persistentvolume-controller";

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    // Only those that are new and have no node may be waited for.
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
        claims::keep(claim, &ctx).await?;
    } else if let Some(name) = claims::volume_name(&claim) {
        claims::bind_named(&claim, name, &ctx).await?;
    } else {
        claims::find(claim, &ctx).await?;
    }
    Ok(Action::done())
}

async fn reconcile_volume(volume: Arc<PersistentVolume>, ctx: Context) -> Result<Action> {
    let Some(uid) = claim_ref(&volume).and_then(|holder| holder.uid.clone()).filter(|uid| !uid.is_empty()) else {
        // Nobody has it; or it is kept for somebody who may not be there yet, and who will take it.
        bound_volumes::set_phase(&volume, "Available", &ctx).await?;
        return Ok(Action::done());
    };
    let Some(claim) = bound_volumes::holder(&volume, &uid, &ctx).await? else {
        bound_volumes::release(volume, &ctx).await?;
        return Ok(Action::done());
    };
    let named = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
    if named.is_empty() {
        // What is between the two is finished from the side of the claim.
        if has_other_mode(&volume, &claim) {
            bound_volumes::tell_of_mode(&volume, &claim, &ctx);
        }
    } else if named == volume.name_any() {
        bound_volumes::set_phase(&volume, "Bound", &ctx).await?;
    } else if bound_volumes::is_made_for_it(&volume) {
        bound_volumes::release(volume, &ctx).await?;
    } else {
        bound_volumes::unbind(&volume, &ctx).await?;
    }
    Ok(Action::done())
}
