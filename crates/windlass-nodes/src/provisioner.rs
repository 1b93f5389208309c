//! Provisioner of persistent volumes for simulated nodes: creates a volume without any storage for every claim that has
//! no matching one.
//!
//! A claim without a storage class, because it has chosen none (`storageClassName: ""`) or there is no default, or with a
//! class that does not exist or has no provisioner,
//! waits for a volume created by a user; a claim whose class waits for the first consumer waits for a pod. The loop
//! `persistentvolume-binder-controller` binds claims and volumes; this module does the work of kube-controller-manager's
//! host path provisioner, as the service account `persistent-volume-binder`, and, for classes that wait for the first
//! consumer, of the scheduler.

use std::sync::Arc;

use k8s_openapi::{
    api::{
        core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
        storage::v1::StorageClass,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{ResourceExt as _, api::Patch};
use serde_json::json;
use windlass::{
    Result,
    context::Context,
    controller::{Action, Controller, Reconciler, Watch, filter::Filter},
    key::ObjectKey,
    operator::Operator,
};

use windlass_loops::{
    json_text,
    volumes::{
        BY_CONTROLLER, PROVISIONED_BY, best, candidates, claims_of_pod, claims_of_volume, is_bound, is_delayed,
        is_used, reference,
    },
};

use crate::clients::NodeClients;

/// The provisioner named by volumes.
pub(super) const PROVISIONER: &str = "windlass.dev/simulated";
/// The provisioner of classes without dynamic provisioning.
const NOBODY: &str = "kubernetes.io/no-provisioner";

/// Adds the provisioner.
pub(super) fn add(operator: Operator, clients: &NodeClients) -> Operator {
    let volumes = Controller::new("deleter", reclaim).field_manager(PROVISIONER);
    operator.controller(claims("volume-binding", reserve)).with_client(clients.volume_binder(), |operator| {
        operator.controller(claims("provisioner", provide)).controller(volumes)
    })
}

/// A controller of claims that have no volume yet.
fn claims(name: &str, reconciler: impl Reconciler<PersistentVolumeClaim>) -> Controller<PersistentVolumeClaim> {
    let consumers = Filter::new(|change: &windlass::controller::filter::Change<'_, Pod>| change.old.is_none());
    Controller::new(name, reconciler)
        .field_manager(PROVISIONER)
        .watches::<PersistentVolume>(claims_of_volume)
        .watches::<StorageClass>(|class, ctx| windlass_loops::volumes::waiting(ctx, &class.name_any()))
        .source(Watch::<Pod>::new().filter(consumers).map(|pod, _ctx| claims_of_pod(pod)))
        .concurrency(8)
}

/// A claim that needs a volume now.
struct Waiting {
    class: Arc<StorageClass>,
    /// Whether the claim waited for its first consumer.
    delayed: bool,
    /// The best existing volume.
    volume: Option<Arc<PersistentVolume>>,
}

fn waiting(claim: &PersistentVolumeClaim, ctx: &Context) -> Result<Option<Waiting>> {
    let spec = claim.spec.clone().unwrap_or_default();
    let names_one = spec.volume_name.as_deref().is_some_and(|name| !name.is_empty());
    if is_bound(claim) || claim.metadata.deletion_timestamp.is_some() || names_one {
        return Ok(None);
    }
    // Without a class, and with one that does not exist, only volumes of users fit. Either may get a class later.
    let name = spec.storage_class_name.as_deref().filter(|name| !name.is_empty());
    let Some(class) = name.map(|name| ctx.get::<StorageClass>(&ObjectKey::cluster(name))).transpose()?.flatten() else {
        return Ok(None);
    };
    let delayed = is_delayed(&class);
    if delayed && !is_used(claim, ctx)? {
        return Ok(None);
    }
    let volume = best(claim, &candidates(claim, ctx)?, false);
    Ok(Some(Waiting { class, delayed, volume }))
}

/// Ensures that there is a volume for a claim.
async fn provide(claim: Arc<PersistentVolumeClaim>, ctx: Context) -> Result<Action> {
    if let Some(Waiting { class, volume: None, .. }) = waiting(&claim, &ctx)?
        && class.provisioner != NOBODY
    {
        provision(&claim, &class, &ctx).await?;
    }
    Ok(Action::done())
}

/// Reserves an existing volume for a claim that waited for its first consumer, as the scheduler does.
async fn reserve(claim: Arc<PersistentVolumeClaim>, ctx: Context) -> Result<Action> {
    let Some(Waiting { delayed: true, volume: Some(volume), .. }) = waiting(&claim, &ctx)? else {
        return Ok(Action::done());
    };
    if volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_some()) {
        return Ok(Action::done());
    }
    let patch = json!({
        "metadata": {"resourceVersion": volume.metadata.resource_version, "annotations": {BY_CONTROLLER: "yes"}},
        "spec": {"claimRef": reference(&claim)},
    });
    ctx.patch(&volume, &Patch::Merge(patch)).await?;
    Ok(Action::done())
}

/// Creates a volume for a claim.
async fn provision(claim: &PersistentVolumeClaim, class: &StorageClass, ctx: &Context) -> Result<()> {
    let name = format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default());
    if ctx.get::<PersistentVolume>(&ObjectKey::cluster(&name))?.is_some() {
        return Ok(());
    }
    let spec = claim.spec.clone().unwrap_or_default();
    let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let size = requests.and_then(|requests| requests.get("storage").cloned());
    let policy = class.reclaim_policy.as_deref().unwrap_or("Delete");
    let volume = json!({
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": size.unwrap_or_else(|| Quantity("1Gi".to_owned()))},
            "accessModes": spec.access_modes,
            "volumeMode": spec.volume_mode,
            "volumeAttributesClassName": spec.volume_attributes_class_name,
            "persistentVolumeReclaimPolicy": policy,
            "storageClassName": spec.storage_class_name,
            "mountOptions": class.mount_options,
            "hostPath": {"path": format!("/var/lib/windlass/{name}"), "type": ""},
            "claimRef": reference(claim),
        },
    });
    ctx.create::<PersistentVolume>(json_text::from_value(&volume)?).await?;
    ctx.event(claim).normal("ProvisioningSucceeded", &format!("Successfully provisioned volume {name}"));
    Ok(())
}

/// Deletes a provisioned volume whose claim has been deleted.
async fn reclaim(volume: Arc<PersistentVolume>, ctx: Context) -> Result<Action> {
    let ours = volume.annotations().get(PROVISIONED_BY).is_some_and(|by| by == PROVISIONER);
    let goes = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref()) == Some("Delete");
    let released = volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Released");
    if ours && goes && released && volume.metadata.deletion_timestamp.is_none() {
        ctx.delete(&volume).await?;
    }
    Ok(Action::done())
}
