//! The requests of the binder: claims are bound or reported, and volumes are released.

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim},
    storage::v1::StorageClass,
};
use kube::ResourceExt as _;
use windlass::{Result, context::Context, key::ObjectKey};

use super::{
    bound_volumes::{self, Reclaim},
    claims,
};
use crate::volumes::{
    best, candidates, claim_ref, class_of_claim, has_class, is_delayed, is_for, mismatch, phase, pods_by_claim,
};

/// Handles a claim that has been bound: confirms the binding, or reports a lost volume.
pub(super) async fn keep(claim: Arc<PersistentVolumeClaim>, ctx: &Context) -> Result<()> {
    let Some(name) = claims::volume_name(&claim) else {
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
    if claims::phase(claim) != "Lost" {
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
        if let Some(default) = claims::default_class(&classes) {
            let mut classed = PersistentVolumeClaim::clone(&claim);
            classed.spec.get_or_insert_default().storage_class_name = Some(default.name_any());
            ctx.update(classed).await?;
            return Ok(());
        }
    }
    if delayed && !claim.annotations().contains_key(claims::SELECTED_NODE) {
        let place = (claim.namespace().unwrap_or_default(), claim.name_any());
        let (reason, note) = claims::waits_for(&pods_by_claim(ctx)?.get(&place));
        ctx.event(&claim).normal(reason, &note);
    } else if !class_name.is_empty() {
        return ask_provisioner(&claim, class.as_deref(), ctx).await;
    } else {
        let note = "no persistent volumes available for this claim and no storage class is set";
        ctx.event(&claim).normal("FailedBinding", note);
    }
    set_status(&claim, "Pending", None, ctx).await
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
    if let Some(asking) = claims::asking(claim, provisioner) {
        ctx.update(asking).await?;
    }
    let note = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system \
         administrator. If volume creation is delayed, please verify that the provisioner is running and correctly \
         registered."
    );
    ctx.event(claim).normal("ExternalProvisioning", &note);
    Ok(())
}

/// Completes the binding of a claim and a volume.
async fn bind(volume: &Arc<PersistentVolume>, claim: &PersistentVolumeClaim, ctx: &Context) -> Result<()> {
    let volume = match claims::bound_volume(volume, claim) {
        Some(bound) => ctx.update(bound).await?,
        None => volume.clone(),
    };
    let volume = set_phase(&volume, "Bound", ctx).await?;
    let claim = match claims::bound_claim(claim, &volume) {
        Some(bound) => ctx.update(bound).await?,
        None => Arc::new(claim.clone()),
    };
    set_status(&claim, "Bound", Some(&volume), ctx).await
}

async fn set_status(
    claim: &PersistentVolumeClaim,
    phase: &str,
    volume: Option<&PersistentVolume>,
    ctx: &Context,
) -> Result<()> {
    let Some(status) = claims::status(claim, phase, volume)? else { return Ok(()) };
    let mut told = claim.clone();
    told.status = Some(status);
    ctx.update_status(told).await?;
    Ok(())
}

/// Returns the claim that a volume is bound to, if it exists. The server is queried before the volume is released.
pub(super) async fn holder(
    volume: &PersistentVolume,
    uid: &str,
    ctx: &Context,
) -> Result<Option<Arc<PersistentVolumeClaim>>> {
    let Some(reference) = claim_ref(volume) else { return Ok(None) };
    let namespace = reference.namespace.as_deref().unwrap_or_default();
    let key = ObjectKey::namespaced(namespace, reference.name.as_deref().unwrap_or_default());
    let is_it = |claim: &PersistentVolumeClaim| claim.metadata.uid.as_deref() == Some(uid);
    if let Some(claim) = ctx.get::<PersistentVolumeClaim>(&key)?.filter(|claim| is_it(claim)) {
        return Ok(Some(claim));
    }
    if matches!(phase(volume), "Released" | "Failed") {
        return Ok(None);
    }
    Ok(ctx.live().get::<PersistentVolumeClaim>(&key).await?.filter(is_it).map(Arc::new))
}

/// Releases a volume, and applies its reclaim policy.
pub(super) async fn release(volume: Arc<PersistentVolume>, ctx: &Context) -> Result<()> {
    let volume = match phase(&volume) {
        "Released" | "Failed" => volume,
        _ => set_phase(&volume, "Released", ctx).await?,
    };
    match bound_volumes::reclaim(&volume) {
        Reclaim::Leave => {}
        Reclaim::Delete => {
            if volume.metadata.deletion_timestamp.is_none() {
                ctx.delete(&volume).await?;
            }
        }
        Reclaim::Fail { reason, message } => {
            if phase(&volume) != "Failed" {
                set_phase_with(&volume, "Failed", Some(&message), ctx).await?;
                ctx.event(&volume).warning(reason, &message);
            }
        }
    }
    Ok(())
}

/// Removes the binding of a volume to a claim that is bound to another one.
pub(super) async fn unbind(volume: &PersistentVolume, ctx: &Context) -> Result<()> {
    let unbound = ctx.update(bound_volumes::unbound(volume)).await?;
    set_phase(&unbound, "Available", ctx).await?;
    Ok(())
}

pub(super) fn report_mode_mismatch(volume: &Arc<PersistentVolume>, claim: &Arc<PersistentVolumeClaim>, ctx: &Context) {
    let note = format!(
        "Cannot bind PersistentVolume to requested PersistentVolumeClaim {:?} due to incompatible volumeMode.",
        claim.name_any()
    );
    ctx.event(volume).warning("VolumeMismatch", &note);
    let note = format!(
        "Cannot bind PersistentVolume {:?} to requested PersistentVolumeClaim due to incompatible volumeMode.",
        volume.name_any()
    );
    ctx.event(claim).warning("VolumeMismatch", &note);
}

/// Writes a volume's phase, if it changes.
pub(super) async fn set_phase(
    volume: &Arc<PersistentVolume>,
    to: &str,
    ctx: &Context,
) -> Result<Arc<PersistentVolume>> {
    set_phase_with(volume, to, None, ctx).await
}

async fn set_phase_with(
    volume: &Arc<PersistentVolume>,
    to: &str,
    message: Option<&str>,
    ctx: &Context,
) -> Result<Arc<PersistentVolume>> {
    if phase(volume) == to {
        return Ok(volume.clone());
    }
    let mut told = PersistentVolume::clone(volume);
    let status = told.status.get_or_insert_default();
    status.phase = Some(to.to_owned());
    status.message = message.map(str::to_owned);
    Ok(ctx.update_status(told).await?)
}
