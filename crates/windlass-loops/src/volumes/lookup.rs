//! Relations between pods, claims, volumes and classes.

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use kube::ResourceExt as _;
use windlass::{Result, cache::Index, context::Context, key::ObjectKey};

use super::{
    COMPLETED,
    matching::{claim_ref, class_of_claim, class_of_volume, has_class},
};

/// A claim that a pod uses.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamedClaim {
    pub(crate) name: String,
    /// Whether it is created for this pod, as a generic ephemeral volume.
    pub(crate) is_own: bool,
}

/// The claims of a pod: referenced ones and those of generic ephemeral volumes.
pub(crate) fn named_claims(pod: &Pod) -> Vec<NamedClaim> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let named = volumes.filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(claim), _) => Some(NamedClaim { name: claim.claim_name.clone(), is_own: false }),
        (None, Some(_)) => Some(NamedClaim { name: format!("{}-{}", pod.name_any(), volume.name), is_own: true }),
        (None, None) => None,
    });
    named.collect()
}

/// The keys of the claims of a pod.
pub fn claims_of_pod(pod: &Pod) -> Vec<ObjectKey> {
    let namespace = pod.namespace().unwrap_or_default();
    named_claims(pod).into_iter().map(|claim| ObjectKey::namespaced(&namespace, &claim.name)).collect()
}

pub(crate) fn pods_by_claim(ctx: &Context) -> Result<Index<Pod, (String, String)>> {
    let places = |pod: &Pod| {
        let namespace = pod.namespace().unwrap_or_default();
        named_claims(pod).into_iter().map(|claim| (namespace.clone(), claim.name)).collect()
    };
    Ok(ctx.index("claim", places)?)
}

/// Returns whether any pod uses a claim.
pub fn is_used(claim: &PersistentVolumeClaim, ctx: &Context) -> Result<bool> {
    let place = (claim.namespace().unwrap_or_default(), claim.name_any());
    Ok(pods_by_claim(ctx)?.count(&place) > 0)
}

/// The volumes that a claim may be bound to, by name and class.
pub fn candidates(claim: &PersistentVolumeClaim, ctx: &Context) -> Result<Vec<Arc<PersistentVolume>>> {
    let index = volumes_by_place(ctx)?;
    let mut volumes = index.get(&Place::Claim(ObjectKey::of(claim)));
    volumes.extend(index.get(&Place::Free(class_of_claim(claim).to_owned())));
    Ok(volumes)
}

/// The index key of a volume: the claim that it is bound to or, without one, its class.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Place {
    Claim(ObjectKey),
    Free(String),
}

/// Index of volumes.
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

/// Unbound claims of a class.
pub fn waiting(ctx: &Context, class: &str) -> Vec<ObjectKey> {
    let classes = |claim: &PersistentVolumeClaim| match claim.annotations().contains_key(COMPLETED) {
        true => Vec::new(),
        false => vec![class_of_claim(claim).to_owned()],
    };
    let Ok(claims) = ctx.informer::<PersistentVolumeClaim>() else { return Vec::new() };
    let waiting = claims.index("waiting", classes).expect("an index name must always have the same value type");
    waiting.get(class).iter().map(|claim| ObjectKey::of(claim.as_ref())).collect()
}

/// The claims to reconcile when a volume changes: the one it refers to, claims that refer to it, and unbound ones.
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

/// The claims to reconcile when a class changes: those with the class, and those without one if it may be the default.
pub(crate) fn claims_of_class(class: &StorageClass, ctx: &Context) -> Vec<ObjectKey> {
    let mut keys = waiting(ctx, &class.name_any());
    keys.extend(
        waiting(ctx, "")
            .into_iter()
            .filter(|key| ctx.get::<PersistentVolumeClaim>(key).ok().flatten().is_some_and(|claim| !has_class(&claim))),
    );
    keys
}

/// The volumes to reconcile when a claim changes: volumes that refer to it, and the one it refers to.
pub(crate) fn volumes_of_claim(claim: &PersistentVolumeClaim, ctx: &Context) -> Vec<ObjectKey> {
    let named = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_ref()).filter(|name| !name.is_empty());
    let mut keys: Vec<ObjectKey> = named.map(|name| ObjectKey::cluster(name)).into_iter().collect();
    if let Ok(index) = volumes_by_place(ctx) {
        let naming = index.get(&Place::Claim(ObjectKey::of(claim)));
        keys.extend(naming.iter().map(|volume| ObjectKey::of(volume.as_ref())));
    }
    keys
}
