//! Volumes for claims: simulated nodes have a provisioner that makes a volume of nothing for every claim.
//!
//! A claim is bound to the volume that it names, else to one that is there and fits, else to a new one; one that asks
//! for no class (`storageClassName: ""`) waits for a volume that somebody makes.

use std::sync::Arc;

use k8s_openapi::{
    api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{ResourceExt as _, api::Patch};
use serde_json::json;
use windlass::{
    Result,
    context::Context,
    controller::{Action, Controller},
    key::ObjectKey,
    operator::Operator,
};
use windlass_schema::quantity;

/// What volumes say who has made them.
const PROVISIONER: &str = "windlass.dev/simulated";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// Adds the binder of claims.
pub(super) fn add(operator: Operator) -> Operator {
    let controller = Controller::new("persistentvolume-binder", bind)
        .field_manager("kube-controller-manager")
        .watches::<PersistentVolume>(|_, ctx| {
            // A new volume may be for anybody who waits.
            let claims = ctx.list::<PersistentVolumeClaim>().unwrap_or_default();
            claims.iter().filter(|claim| !is_bound(claim)).map(|claim| ObjectKey::of(claim.as_ref())).collect()
        })
        .on_deleted(release);
    operator.controller(controller)
}

async fn bind(claim: Arc<PersistentVolumeClaim>, ctx: Context) -> Result<Action> {
    if is_bound(&claim) || claim.metadata.deletion_timestamp.is_some() {
        return Ok(Action::done());
    }
    let spec = claim.spec.clone().unwrap_or_default();
    let named = spec.volume_name.as_deref().filter(|name| !name.is_empty());
    let volume = match named {
        Some(name) => match ctx.get::<PersistentVolume>(&ObjectKey::cluster(name))? {
            Some(volume) => volume,
            None => return Ok(Action::done()),
        },
        None => {
            let volumes = ctx.list::<PersistentVolume>()?;
            let fitting = volumes.iter().filter(|volume| fits(volume, &claim, &spec));
            match fitting.min_by_key(|volume| (size(volume), volume.name_any())) {
                Some(volume) => volume.clone(),
                None if spec.storage_class_name.as_deref() == Some("") => return Ok(Action::done()),
                None => provision(&claim, &spec, &ctx).await?,
            }
        }
    };
    let reference = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": claim.metadata.name,
        "namespace": claim.metadata.namespace, "uid": claim.metadata.uid,
    });
    let volume_spec = volume.spec.clone().unwrap_or_default();
    if volume_spec.claim_ref.as_ref().and_then(|reference| reference.uid.as_ref()) != claim.metadata.uid.as_ref() {
        ctx.patch(&volume, &Patch::Merge(json!({"spec": {"claimRef": reference}}))).await?;
    }
    let volumes = ctx.kind::<PersistentVolume>();
    let bound = json!({"status": {"phase": "Bound"}});
    volumes.patch_status(&ObjectKey::of(volume.as_ref()), &Patch::Merge(bound)).await?;
    let annotations = json!({
        "pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
        "volume.kubernetes.io/storage-provisioner": PROVISIONER,
    });
    let patch = json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": volume.name_any()}});
    ctx.patch(&claim, &Patch::Merge(patch)).await?;
    let status = json!({
        "phase": "Bound", "accessModes": volume_spec.access_modes, "capacity": volume_spec.capacity,
    });
    let claims = ctx.kind::<PersistentVolumeClaim>();
    claims.patch_status(&ObjectKey::of(claim.as_ref()), &Patch::Merge(json!({"status": status}))).await?;
    Ok(Action::done())
}

/// Makes a volume for a claim.
async fn provision(
    claim: &PersistentVolumeClaim,
    spec: &PersistentVolumeClaimSpec,
    ctx: &Context,
) -> Result<Arc<PersistentVolume>> {
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    let name = format!("pvc-{uid}");
    if let Some(volume) = ctx.get::<PersistentVolume>(&ObjectKey::cluster(&name))? {
        return Ok(volume);
    }
    let volume = json!({
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": requested(spec)},
            "accessModes": spec.access_modes,
            "volumeMode": spec.volume_mode,
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec.storage_class_name,
            "hostPath": {"path": format!("/var/lib/windlass/{name}"), "type": ""},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": claim.metadata.name,
                "namespace": claim.metadata.namespace, "uid": uid,
            },
        },
    });
    let created = ctx.create::<PersistentVolume>(serde_json::from_value(volume)?).await?;
    let note = format!("Successfully provisioned volume {name}");
    ctx.event(claim).normal("ProvisioningSucceeded", &note);
    Ok(created)
}

/// A claim is gone: its volume goes or is released, as it says.
async fn release(key: ObjectKey, ctx: Context) -> Result<()> {
    let of_claim = |reference: &ObjectReference| {
        reference.namespace.as_deref() == key.namespace() && reference.name.as_deref() == Some(key.name())
    };
    for volume in ctx.list::<PersistentVolume>()? {
        let Some(spec) = volume.spec.as_ref().filter(|spec| spec.claim_ref.as_ref().is_some_and(of_claim)) else {
            continue;
        };
        let ours = volume.annotations().get(PROVISIONED_BY).is_some_and(|by| by == PROVISIONER);
        if ours && spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete") {
            ctx.delete(&volume).await?;
        } else if volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound") {
            let released = json!({"status": {"phase": "Released"}});
            let key = ObjectKey::of(volume.as_ref());
            ctx.kind::<PersistentVolume>().patch_status(&key, &Patch::Merge(released)).await?;
        }
    }
    Ok(())
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

/// Whether a volume that is there will do for a claim.
fn fits(volume: &PersistentVolume, claim: &PersistentVolumeClaim, spec: &PersistentVolumeClaimSpec) -> bool {
    let Some(has) = &volume.spec else { return false };
    let free = has.claim_ref.as_ref().is_none_or(|reference| {
        let same = reference.uid.is_none() || reference.uid == claim.metadata.uid;
        same && reference.namespace == claim.metadata.namespace && reference.name == claim.metadata.name
    });
    let class = |class: &Option<String>| class.clone().unwrap_or_default();
    let modes = has.access_modes.as_deref().unwrap_or_default();
    free && volume.metadata.deletion_timestamp.is_none()
        && class(&has.storage_class_name) == class(&spec.storage_class_name)
        && has.volume_mode == spec.volume_mode
        && spec.access_modes.iter().flatten().all(|mode| modes.contains(mode))
        && size(volume) >= amount(&requested(spec))
}

fn requested(spec: &PersistentVolumeClaimSpec) -> Quantity {
    let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    requests.and_then(|requests| requests.get("storage").cloned()).unwrap_or_else(|| Quantity("1Gi".to_owned()))
}

fn size(volume: &PersistentVolume) -> i64 {
    let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref());
    capacity.and_then(|capacity| capacity.get("storage")).map_or(0, amount)
}

fn amount(quantity: &Quantity) -> i64 {
    quantity::Quantity::parse(&quantity.0).map_or(0, |quantity| quantity.value())
}
