//! The state of a volume: binding, release and reclaim. Pure.

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::ResourceExt as _;

use crate::volumes::{BY_CONTROLLER, PROVISIONED_BY};

pub(super) fn is_made_for_it(volume: &PersistentVolume) -> bool {
    volume.annotations().contains_key(PROVISIONED_BY) && policy(volume) == "Delete"
}

fn policy(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref()).unwrap_or("Retain")
}

/// Reclaim policy of a released volume.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reclaim {
    Leave,
    Delete,
    Fail { reason: &'static str, message: String },
}

pub(super) fn reclaim(volume: &PersistentVolume) -> Reclaim {
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

/// The volume without its binding to a claim that is bound to another one. A reference written by a user stays as a
/// reservation.
pub(super) fn unbound(volume: &PersistentVolume) -> PersistentVolume {
    let mut unbound = volume.clone();
    if let Some(spec) = &mut unbound.spec {
        match volume.annotations().contains_key(BY_CONTROLLER) {
            true => spec.claim_ref = None,
            false => spec.claim_ref.iter_mut().for_each(|holder| holder.uid = None),
        }
    }
    unbound.metadata.annotations.iter_mut().for_each(|annotations| drop(annotations.remove(BY_CONTROLLER)));
    unbound
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
