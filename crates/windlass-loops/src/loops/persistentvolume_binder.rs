//! Binds claims to volumes.
//!
//! | module | what it is for |
//! |---|---|
//! | `matching` | pure: which volume is for which claim |
//! | `claims` | what becomes of a claim |
//! | `volumes` | what becomes of a volume |
//!
//! Both sides name each other: the volume the claim, by uid, and the claim the volume, by name. The volume is written
//! first, so that no two claims have the same. A claim whose class waits for a pod is left to the scheduler, which tells
//! its choice by naming the claim in the volume.

mod claims;
mod matching;
mod volumes;

/// What whoever makes volumes goes by, too.
pub mod shared {
    use k8s_openapi::api::core::v1::Pod;
    use windlass::key::ObjectKey;

    pub use super::{
        BY_CONTROLLER, PROVISIONED_BY, candidates,
        claims::{is_bound, is_delayed, is_used},
        claims_of_volume,
        matching::{best, reference},
        waiting,
    };

    /// The claims that a pod names.
    pub fn claims_of(pod: &Pod) -> Vec<ObjectKey> {
        super::claims_of_pod(pod)
    }
}

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use kube::ResourceExt as _;
use windlass::{
    Result,
    cache::Index,
    context::Context,
    controller::{Watch, filter::Filter},
    key::ObjectKey,
    operator::Operator,
};

use self::matching::{claim_ref, class_of_claim, class_of_volume, has_class};
use crate::{
    loops::{ClusterCertificates, controller, storage_protection::claims_of},
    pods::is_scheduled,
};

/// What tells of a claim that it has been bound, whatever has become of it.
const COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// What tells that it was this loop that has bound a claim or a volume.
pub const BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// What tells who has made a volume for a claim.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

const NAME: &str = "persistentvolume-binder-controller";
/// Whom events name as their source.
const REPORTER: &str = "persistentvolume-controller";

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    // Only those that are new and have no node may be waited for.
    let consumers = Filter::new(|change: &windlass::controller::filter::Change<'_, Pod>| {
        change.old.is_none() && change.new.is_some_and(|pod| !is_scheduled(pod))
    });
    let claims = controller::<PersistentVolumeClaim>(NAME, claims::reconcile)
        .reporter(REPORTER)
        .watches::<PersistentVolume>(claims_of_volume)
        .watches::<StorageClass>(claims_of_class)
        .source(Watch::<Pod>::new().filter(consumers).map(|pod, _ctx| claims_of_pod(pod)))
        .concurrency(4);
    let volumes = controller::<PersistentVolume>("persistentvolume-binder-controller-volumes", volumes::reconcile)
        .reporter(REPORTER)
        .watches::<PersistentVolumeClaim>(volumes_of_claim)
        .concurrency(4);
    operator.controller(claims).controller(volumes)
}

fn claims_of_pod(pod: &Pod) -> Vec<ObjectKey> {
    let namespace = pod.namespace().unwrap_or_default();
    claims_of(pod).into_iter().map(|claim| ObjectKey::namespaced(&namespace, &claim.name)).collect()
}

/// The volumes that a claim may be bound to, as far as names and classes tell.
pub fn candidates(claim: &PersistentVolumeClaim, ctx: &Context) -> Result<Vec<Arc<PersistentVolume>>> {
    let index = volumes_by_place(ctx)?;
    let mut volumes = index.get(&Place::Claim(ObjectKey::of(claim)));
    volumes.extend(index.get(&Place::Free(class_of_claim(claim).to_owned())));
    Ok(volumes)
}

/// Where a volume is to be found: with the claim that it names, or among those of its class that name none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Place {
    Claim(ObjectKey),
    Free(String),
}

/// Volumes by whom they are for.
fn volumes_by_place(ctx: &Context) -> Result<Index<PersistentVolume, Place>> {
    let places = |volume: &PersistentVolume| match claim_ref(volume) {
        Some(reference) => {
            let namespace = reference.namespace.as_deref().unwrap_or_default();
            vec![Place::Claim(ObjectKey::namespaced(namespace, reference.name.as_deref().unwrap_or_default()))]
        }
        None => vec![Place::Free(class_of_volume(volume).to_owned())],
    };
    Ok(ctx.index("place", places)?)
}

/// Claims that are not bound, by the class that they ask for.
pub fn waiting(ctx: &Context, class: &str) -> Vec<ObjectKey> {
    let classes = |claim: &PersistentVolumeClaim| match claim.annotations().contains_key(COMPLETED) {
        true => Vec::new(),
        false => vec![class_of_claim(claim).to_owned()],
    };
    let Ok(claims) = ctx.informer::<PersistentVolumeClaim>() else { return Vec::new() };
    let waiting = claims.index("waiting", classes).expect("all indexes of this name must have values of this type");
    waiting.get(class).iter().map(|claim| ObjectKey::of(claim.as_ref())).collect()
}

/// The claims that a volume may matter to: the one that it names, those that name it, and those that wait for one.
pub fn claims_of_volume(volume: &PersistentVolume, ctx: &Context) -> Vec<ObjectKey> {
    let mut keys = match claim_ref(volume) {
        Some(reference) => {
            let namespace = reference.namespace.as_deref().unwrap_or_default();
            vec![ObjectKey::namespaced(namespace, reference.name.as_deref().unwrap_or_default())]
        }
        None => waiting(ctx, class_of_volume(volume)),
    };
    if let Ok(index) = claims_by_volume(ctx) {
        keys.extend(index.get(&volume.name_any()).iter().map(|claim| ObjectKey::of(claim.as_ref())));
    }
    keys
}

fn claims_by_volume(ctx: &Context) -> Result<Index<PersistentVolumeClaim, String>> {
    let names = |claim: &PersistentVolumeClaim| claim.spec.iter().filter_map(|spec| spec.volume_name.clone()).collect();
    Ok(ctx.index("volume", names)?)
}

/// The claims that a class may matter to: those that ask for it, and those that ask for none and may get it.
fn claims_of_class(class: &StorageClass, ctx: &Context) -> Vec<ObjectKey> {
    let mut keys = waiting(ctx, &class.name_any());
    keys.extend(
        waiting(ctx, "")
            .into_iter()
            .filter(|key| ctx.get::<PersistentVolumeClaim>(key).ok().flatten().is_some_and(|claim| !has_class(&claim))),
    );
    keys
}

/// The volumes that a claim may matter to: those that name it, and the one that it names.
fn volumes_of_claim(claim: &PersistentVolumeClaim, ctx: &Context) -> Vec<ObjectKey> {
    let named = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_ref()).filter(|name| !name.is_empty());
    let mut keys: Vec<ObjectKey> = named.map(|name| ObjectKey::cluster(name)).into_iter().collect();
    if let Ok(index) = volumes_by_place(ctx) {
        let naming = index.get(&Place::Claim(ObjectKey::of(claim)));
        keys.extend(naming.iter().map(|volume| ObjectKey::of(volume.as_ref())));
    }
    keys
}
