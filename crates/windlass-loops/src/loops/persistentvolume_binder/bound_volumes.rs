//! The state of a volume: binding, release and reclaim.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::ResourceExt as _;
use windlass::{Result, context::Context, key::ObjectKey};

use crate::volumes::{BY_CONTROLLER, PROVISIONED_BY, claim_ref, phase};

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

pub(super) fn is_made_for_it(volume: &PersistentVolume) -> bool {
    volume.annotations().contains_key(PROVISIONED_BY) && policy(volume) == "Delete"
}

fn policy(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref()).unwrap_or("Retain")
}

/// Releases a volume, and applies its reclaim policy.
pub(super) async fn release(volume: Arc<PersistentVolume>, ctx: &Context) -> Result<()> {
    let volume = match phase(&volume) {
        "Released" | "Failed" => volume,
        _ => set_phase(&volume, "Released", ctx).await?,
    };
    match reclaim(&volume) {
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

/// How a released volume is reclaimed.
#[derive(Debug, PartialEq, Eq)]
enum Reclaim {
    Leave,
    Delete,
    Fail { reason: &'static str, message: String },
}

fn reclaim(volume: &PersistentVolume) -> Reclaim {
    let spec = volume.spec.clone().unwrap_or_default();
    match policy(volume) {
        "Retain" => Reclaim::Leave,
        // Scrubbing is done by pods whose images are not available here.
        "Recycle" if spec.host_path.is_some() || spec.nfs.is_some() => Reclaim::Leave,
        "Recycle" => Reclaim::Fail {
            reason: "VolumeFailedRecycle",
            message: "No recycler plugin found for the volume!".to_owned(),
        },
        "Delete" => match volume.annotations().get(PROVISIONED_BY).map(String::as_str) {
            // Its provisioner deletes it.
            Some(provisioner) if !provisioner.is_empty() && !provisioner.starts_with("kubernetes.io/") => {
                Reclaim::Leave
            }
            _ => match &spec.host_path {
                Some(host) if host.path.strip_prefix("/tmp/").is_some_and(|rest| !rest.is_empty()) => Reclaim::Delete,
                Some(host) => fail_to_delete(format!(
                    "host_path deleter only supports /tmp/.+ but received provided {}",
                    host.path
                )),
                None => fail_to_delete(format!(
                    "error getting deleter volume plugin for volume {:?}: no deletable volume plugin matched",
                    volume.name_any()
                )),
            },
        },
        _ => Reclaim::Fail {
            reason: "VolumeUnknownReclaimPolicy",
            message: "Volume has unrecognized PersistentVolumeReclaimPolicy".to_owned(),
        },
    }
}

fn fail_to_delete(message: String) -> Reclaim {
    Reclaim::Fail { reason: "VolumeFailedDelete", message }
}

/// Removes the binding of a volume to a claim that is bound to another one. A reference written by a user stays as a
/// reservation.
pub(super) async fn unbind(volume: &PersistentVolume, ctx: &Context) -> Result<()> {
    let mut unbound = volume.clone();
    if let Some(spec) = &mut unbound.spec {
        match volume.annotations().contains_key(BY_CONTROLLER) {
            true => spec.claim_ref = None,
            false => spec.claim_ref.iter_mut().for_each(|holder| holder.uid = None),
        }
    }
    unbound.metadata.annotations.iter_mut().for_each(|annotations| drop(annotations.remove(BY_CONTROLLER)));
    let unbound = ctx.update(unbound).await?;
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_released_volume_follows_its_reclaim_policy() {
        let volume = |annotations: Value, spec: Value| -> PersistentVolume {
            serde_json::from_value(json!({"metadata": {"name": "v", "annotations": annotations}, "spec": spec}))
                .unwrap()
        };
        let failed = |reason, message: &str| Reclaim::Fail { reason, message: message.to_owned() };
        let by = |provisioner: &str| json!({PROVISIONED_BY: provisioner});
        let csi = json!({"driver": "d", "volumeHandle": "h"});
        for (annotations, spec, expected) in [
            (json!({}), json!({"persistentVolumeReclaimPolicy": "Retain"}), Reclaim::Leave),
            (by("example.com/p"), json!({"persistentVolumeReclaimPolicy": "Delete", "csi": csi}), Reclaim::Leave),
            (
                json!({}),
                json!({"persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": "/tmp/data"}}),
                Reclaim::Delete,
            ),
            (
                json!({}),
                json!({"persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": "/data"}}),
                failed("VolumeFailedDelete", "host_path deleter only supports /tmp/.+ but received provided /data"),
            ),
            (
                json!({}),
                json!({"persistentVolumeReclaimPolicy": "Delete", "csi": csi}),
                failed(
                    "VolumeFailedDelete",
                    "error getting deleter volume plugin for volume \"v\": no deletable volume plugin matched",
                ),
            ),
            (
                json!({}),
                json!({"persistentVolumeReclaimPolicy": "Recycle", "csi": csi}),
                failed("VolumeFailedRecycle", "No recycler plugin found for the volume!"),
            ),
        ] {
            assert_eq!(reclaim(&volume(annotations, spec.clone())), expected, "{spec}");
        }
    }
}
