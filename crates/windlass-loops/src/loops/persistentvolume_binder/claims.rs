//! The state of a claim: binding, and waiting for a volume.

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus},
    storage::v1::StorageClass,
};
use kube::ResourceExt as _;
use windlass::{Error, Result, context::Context, key::ObjectKey};

use super::bound_volumes::set_phase;
use crate::{
    pods::is_scheduled,
    volumes::{
        BY_CONTROLLER, COMPLETED, amount, best, candidates, class_of_claim, has_class, is_delayed, is_for, mismatch,
        pods_by_claim, reference,
    },
};

/// Annotation with the node selected for the claim's pod.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
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

/// Handles a claim that has been bound: confirms the binding, or reports a lost volume.
pub(super) async fn keep(claim: Arc<PersistentVolumeClaim>, ctx: &Context) -> Result<()> {
    let Some(name) = volume_name(&claim) else {
        let note = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
        return lose(&claim, "ClaimLost", note, ctx).await;
    };
    let Some(volume) = ctx.get::<PersistentVolume>(&ObjectKey::cluster(name))? else {
        let note = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
        return lose(&claim, "ClaimLost", note, ctx).await;
    };
    let holder = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    match holder {
        Some(holder) if holder.uid != claim.metadata.uid => {
            let note = "Two claims are bound to the same volume, this one is bound incorrectly";
            lose(&claim, "ClaimMisbound", note, ctx).await
        }
        _ => bind(&volume, &claim, ctx).await,
    }
}

async fn lose(claim: &PersistentVolumeClaim, reason: &str, note: &str, ctx: &Context) -> Result<()> {
    if phase(claim) != "Lost" {
        set_status(claim, "Lost", None, ctx).await?;
        ctx.event(claim).warning(reason, note);
    }
    Ok(())
}

/// Handles a claim that names its volume: binds it, or waits until the volume is available.
pub(super) async fn bind_named(claim: &PersistentVolumeClaim, name: &str, ctx: &Context) -> Result<()> {
    let Some(volume) = ctx.get::<PersistentVolume>(&ObjectKey::cluster(name))? else {
        return set_status(claim, "Pending", None, ctx).await;
    };
    let is_free = volume.spec.as_ref().is_none_or(|spec| spec.claim_ref.is_none());
    if is_free {
        if let Some(why) = mismatch(&volume, claim) {
            let note = format!("Cannot bind to requested volume {name:?}: {why}");
            ctx.event(claim).warning("VolumeMismatch", &note);
            return set_status(claim, "Pending", None, ctx).await;
        }
    } else if !is_for(&volume, claim) {
        ctx.event(claim).warning("FailedBinding", &format!("volume {name:?} already bound to a different claim."));
        return set_status(claim, "Pending", None, ctx).await;
    }
    bind(&volume, claim, ctx).await
}

/// Handles a claim that accepts any matching volume.
pub(super) async fn find(claim: Arc<PersistentVolumeClaim>, ctx: &Context) -> Result<()> {
    let class_name = class_of_claim(&claim);
    let class = match class_name {
        "" => None,
        name => ctx.get::<StorageClass>(&ObjectKey::cluster(name))?,
    };
    let delayed = class.as_ref().is_some_and(|class| is_delayed(class));
    if let Some(volume) = best(&claim, &candidates(&claim, ctx)?, delayed) {
        return bind(&volume, &claim, ctx).await;
    }
    if claim.metadata.deletion_timestamp.is_none() && !has_class(&claim) {
        let classes = ctx.list::<StorageClass>()?;
        if let Some(default) = default_class(&classes) {
            let mut classed = PersistentVolumeClaim::clone(&claim);
            classed.spec.get_or_insert_default().storage_class_name = Some(default.name_any());
            ctx.update(classed).await?;
            return Ok(());
        }
    }
    if delayed && !claim.annotations().contains_key(SELECTED_NODE) {
        let (reason, note) = waits_for(&claim, ctx)?;
        ctx.event(&claim).normal(reason, &note);
    } else if !class_name.is_empty() {
        return ask_provisioner(&claim, class.as_deref(), ctx).await;
    } else {
        let note = "no persistent volumes available for this claim and no storage class is set";
        ctx.event(&claim).normal("FailedBinding", note);
    }
    set_status(&claim, "Pending", None, ctx).await
}

/// The newest default class.
fn default_class(classes: &[Arc<StorageClass>]) -> Option<&Arc<StorageClass>> {
    let is_default = |class: &&Arc<StorageClass>| {
        DEFAULT_CLASS.iter().any(|key| class.annotations().get(*key).is_some_and(|value| value == "true"))
    };
    let created = |class: &StorageClass| class.metadata.creation_timestamp.as_ref().map(|time| time.0);
    classes
        .iter()
        .filter(is_default)
        .max_by(|a, b| created(a).cmp(&created(b)).then_with(|| b.name_any().cmp(&a.name_any())))
}

/// Reason and message of the event for a claim that waits for the first consumer.
fn waits_for(claim: &PersistentVolumeClaim, ctx: &Context) -> Result<(&'static str, String)> {
    let place = (claim.namespace().unwrap_or_default(), claim.name_any());
    let pods = pods_by_claim(ctx)?.get(&place);
    let mut names: Vec<String> = pods.iter().filter(|pod| !is_scheduled(pod)).map(|pod| pod.name_any()).collect();
    names.sort_unstable();
    Ok(match names.as_slice() {
        [] => ("WaitForFirstConsumer", "waiting for first consumer to be created before binding".to_owned()),
        [name] => ("WaitForPodScheduled", format!("waiting for pod {name} to be scheduled")),
        names => ("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", names.join(","))),
    })
}

/// Asks the provisioner of the class for a volume.
async fn ask_provisioner(
    claim: &Arc<PersistentVolumeClaim>,
    class: Option<&StorageClass>,
    ctx: &Context,
) -> Result<()> {
    let fail = |note: &str| ctx.event(claim).warning("ProvisioningFailed", note);
    let Some(class) = class else {
        fail(&format!("storageclass.storage.k8s.io {:?} not found", class_of_claim(claim)));
        return Ok(());
    };
    let provisioner = &class.provisioner;
    if provisioner.starts_with("kubernetes.io/") {
        fail(&format!("no volume plugin matched name: {provisioner}"));
        return Ok(());
    }
    let mut asked = PersistentVolumeClaim::clone(claim);
    let annotations = asked.annotations_mut();
    if annotations.get(PROVISIONER[1]) != Some(provisioner) {
        annotations.extend(PROVISIONER.map(|key| (key.to_owned(), provisioner.clone())));
        ctx.update(asked).await?;
    }
    let note = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system \
         administrator. If volume creation is delayed, please verify that the provisioner is running and correctly \
         registered."
    );
    ctx.event(claim).normal("ExternalProvisioning", &note);
    Ok(())
}

/// Binds a claim and a volume, as far as they are not bound yet.
async fn bind(volume: &Arc<PersistentVolume>, claim: &PersistentVolumeClaim, ctx: &Context) -> Result<()> {
    let volume = match bound_volume(volume, claim) {
        Some(bound) => ctx.update(bound).await?,
        None => volume.clone(),
    };
    let volume = set_phase(&volume, "Bound", ctx).await?;
    let claim = match bound_claim(claim, &volume) {
        Some(bound) => ctx.update(bound).await?,
        None => Arc::new(claim.clone()),
    };
    set_status(&claim, "Bound", Some(&volume), ctx).await
}

/// The volume with a reference to the claim. Returns `None` if it already has it.
fn bound_volume(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<PersistentVolume> {
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
fn bound_claim(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<PersistentVolumeClaim> {
    let mut bound = claim.clone();
    if claim.spec.as_ref().and_then(|spec| spec.volume_name.as_ref()) != volume.metadata.name.as_ref() {
        bound.spec.get_or_insert_default().volume_name.clone_from(&volume.metadata.name);
        bound.annotations_mut().entry(BY_CONTROLLER.to_owned()).or_insert_with(|| "yes".to_owned());
    }
    bound.annotations_mut().entry(COMPLETED.to_owned()).or_insert_with(|| "yes".to_owned());
    (bound != *claim).then_some(bound)
}

fn phase(claim: &PersistentVolumeClaim) -> &str {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

async fn set_status(
    claim: &PersistentVolumeClaim,
    phase: &str,
    volume: Option<&PersistentVolume>,
    ctx: &Context,
) -> Result<()> {
    let Some(status) = status(claim, phase, volume)? else { return Ok(()) };
    let mut told = claim.clone();
    told.status = Some(status);
    ctx.update_status(told).await?;
    Ok(())
}

/// Returns the new status of a claim, or `None` if it is unchanged. The capacity is that of the volume at the time of
/// binding, and independent of it afterwards.
fn status(
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
