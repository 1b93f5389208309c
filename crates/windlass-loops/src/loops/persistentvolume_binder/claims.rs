//! The state of a claim: binding, and waiting for a volume. Pure.

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus, Pod},
    storage::v1::StorageClass,
};
use kube::ResourceExt as _;
use windlass::{Error, Result};

use crate::{
    pods::is_scheduled,
    volumes::{BY_CONTROLLER, COMPLETED, amount, is_for, reference},
};

/// Annotation with the node selected for the claim's pod.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotations with the provisioner of a claim.
const PROVISIONER: [&str; 2] =
    ["volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner"];
/// Annotation with the file system size of a volume that has not been expanded yet.
const PRE_RESIZE: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";
/// Annotations of the default storage class.
const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

pub(super) fn volume_name(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.volume_name.as_deref().filter(|name| !name.is_empty())
}

/// The newest default class.
pub(super) fn default_class(classes: &[Arc<StorageClass>]) -> Option<&Arc<StorageClass>> {
    let is_default = |class: &&Arc<StorageClass>| {
        DEFAULT_CLASS.iter().any(|key| class.annotations().get(*key).is_some_and(|value| value == "true"))
    };
    let created = |class: &StorageClass| class.metadata.creation_timestamp.as_ref().map(|time| time.0);
    classes
        .iter()
        .filter(is_default)
        .max_by(|a, b| created(a).cmp(&created(b)).then_with(|| b.name_any().cmp(&a.name_any())))
}

/// Reason and message of the event for a claim that waits for its first consumer; `pods` have the claim.
pub(super) fn waits_for(pods: &[Arc<Pod>]) -> (&'static str, String) {
    let mut names: Vec<String> = pods.iter().filter(|pod| !is_scheduled(pod)).map(|pod| pod.name_any()).collect();
    names.sort_unstable();
    match names.as_slice() {
        [] => ("WaitForFirstConsumer", "waiting for first consumer to be created before binding".to_owned()),
        [name] => ("WaitForPodScheduled", format!("waiting for pod {name} to be scheduled")),
        names => ("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", names.join(","))),
    }
}

/// The claim with an annotation that asks a provisioner for a volume. Returns `None` if it already has it.
pub(super) fn asking(claim: &PersistentVolumeClaim, provisioner: &str) -> Option<PersistentVolumeClaim> {
    let mut asking = claim.clone();
    let annotations = asking.annotations_mut();
    if annotations.get(PROVISIONER[1]).is_some_and(|asked| asked == provisioner) {
        return None;
    }
    annotations.extend(PROVISIONER.map(|key| (key.to_owned(), provisioner.to_owned())));
    Some(asking)
}

/// The volume with a reference to the claim. Returns `None` if it already has it.
pub(super) fn bound_volume(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<PersistentVolume> {
    let mut bound = volume.clone();
    let chosen = !is_for(volume, claim);
    if chosen {
        bound.annotations_mut().entry(BY_CONTROLLER.to_owned()).or_insert_with(|| "yes".to_owned());
    }
    let holder = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    if chosen || holder.and_then(|holder| holder.uid.as_ref()) != claim.metadata.uid.as_ref() {
        bound.spec.get_or_insert_default().claim_ref = Some(reference(claim));
    }
    (bound != *volume).then_some(bound)
}

/// The claim with a reference to the volume. Returns `None` if it already has it.
pub(super) fn bound_claim(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<PersistentVolumeClaim> {
    let mut bound = claim.clone();
    if claim.spec.as_ref().and_then(|spec| spec.volume_name.as_ref()) != volume.metadata.name.as_ref() {
        bound.spec.get_or_insert_default().volume_name.clone_from(&volume.metadata.name);
        bound.annotations_mut().entry(BY_CONTROLLER.to_owned()).or_insert_with(|| "yes".to_owned());
    }
    bound.annotations_mut().entry(COMPLETED.to_owned()).or_insert_with(|| "yes".to_owned());
    (bound != *claim).then_some(bound)
}

pub(super) fn phase(claim: &PersistentVolumeClaim) -> &str {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Returns the new status of a claim, or `None` if it is unchanged. The capacity is that of the volume at the time of
/// binding, and independent of it afterwards.
pub(super) fn status(
    claim: &PersistentVolumeClaim,
    phase: &str,
    volume: Option<&PersistentVolume>,
) -> Result<Option<PersistentVolumeClaimStatus>> {
    let before = claim.status.clone().unwrap_or_default();
    let mut after = PersistentVolumeClaimStatus { phase: Some(phase.to_owned()), ..before.clone() };
    let Some(volume) = volume else {
        after.access_modes = None;
        after.capacity = None;
        after.current_volume_attributes_class_name = None;
        return Ok((after != before).then_some(after));
    };
    let spec = volume.spec.as_ref();
    after.access_modes = spec.and_then(|spec| spec.access_modes.clone());
    let was = before.phase.as_deref().unwrap_or_default();
    if was != phase {
        let capacity = spec.and_then(|spec| spec.capacity.as_ref());
        let Some(size) = capacity.and_then(|capacity| capacity.get("storage")) else {
            return Err(Error::terminal(format!(
                "PersistentVolume {:?} is without a storage capacity",
                volume.name_any()
            )));
        };
        let known = before.capacity.as_ref().and_then(|capacity| capacity.get("storage"));
        if let Some(smaller) = volume.annotations().get(PRE_RESIZE) {
            let smaller = k8s_openapi::apimachinery::pkg::api::resource::Quantity(smaller.clone());
            after.capacity.get_or_insert_default().insert("storage".to_owned(), smaller);
        } else if known.is_none_or(|known| amount(known) != amount(size)) {
            after.capacity = capacity.cloned();
        }
        if was == "Pending" && phase == "Bound" {
            after.current_volume_attributes_class_name =
                spec.and_then(|spec| spec.volume_attributes_class_name.clone());
        }
    }
    Ok((after != before).then_some(after))
}
