//! Persistent volumes and claims, as the loops that bind and protect them and provisioners see them.
//!
//! A volume and its claim refer to each other: the volume to the claim by UID, and the claim to the volume by name.

mod lookup;
mod matching;
mod protection;

use k8s_openapi::api::{core::v1::PersistentVolumeClaim, storage::v1::StorageClass};
use kube::ResourceExt as _;

pub use self::{
    lookup::{candidates, claims_of_pod, claims_of_volume, is_used, waiting},
    matching::{best, reference},
};
pub(crate) use self::{
    lookup::{claims_of_class, named_claims, pods_by_claim, volumes_of_claim},
    matching::{amount, claim_ref, class_of_claim, has_class, has_other_mode, is_for, mismatch, phase},
    protection::protect,
};

/// Annotation of claims that have been bound, even if the binding was lost.
pub const COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Annotation of claims and volumes that this loop has bound.
pub const BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Annotation with the provisioner of a volume.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// Returns whether a claim has been bound, even if the binding was lost.
pub fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.annotations().contains_key(COMPLETED)
}

/// Returns whether claims of a class wait for the first consumer.
pub fn is_delayed(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}
