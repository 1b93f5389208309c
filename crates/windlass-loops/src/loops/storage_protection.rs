//! Volumes, claims and classes of volumes stay while they are used: a finalizer of each goes when nobody uses it.
//!
//! Admission gives new objects their finalizer; one that was stored without gets it here.

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::VolumeAttributesClass,
};
use kube::{ResourceExt, api::ListParams};
use windlass::{
    Result, cache::Index, context::Context, controller::Action, key::ObjectKey, object::Object, operator::Operator,
};

use super::{ClusterCertificates, controller};

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";
const CLASS: &str = "kubernetes.io/vac-protection";

/// Claims, which pods use.
pub(super) fn add_claims(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let claims = |pod: &Pod, _: &Context| -> Vec<ObjectKey> {
        let namespace = pod.namespace().unwrap_or_default();
        claims_of(pod).into_iter().map(|claim| ObjectKey::namespaced(&namespace, &claim.name)).collect()
    };
    let name = "persistentvolumeclaim-protection-controller";
    operator.controller(controller::<PersistentVolumeClaim>(name, reconcile_claim).watches::<Pod>(claims))
}

/// Volumes, which claims are bound to.
pub(super) fn add_volumes(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let name = "persistentvolume-protection-controller";
    operator.controller(controller::<PersistentVolume>(name, reconcile_volume))
}

/// Classes of volumes, which claims and volumes name.
pub(super) fn add_classes(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let keys = |names: Vec<String>| names.iter().map(|name| ObjectKey::cluster(name)).collect();
    let name = "volumeattributesclass-protection-controller";
    let classes = controller::<VolumeAttributesClass>(name, reconcile_class)
        .watches::<PersistentVolumeClaim>(move |claim, _| keys(classes_of_claim(claim)))
        .watches::<PersistentVolume>(move |volume, _| keys(classes_of_volume(volume)));
    operator.controller(classes)
}

/// What is to be done about the finalizer of an object.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Nothing.
    Nothing,
    /// It lacks one.
    Add,
    /// It is to go as soon as nobody uses it.
    RemoveIfUnused,
}

fn step(object: &impl ResourceExt, finalizer: &str) -> Step {
    let has_it = object.finalizers().iter().any(|have| have == finalizer);
    match (object.meta().deletion_timestamp.is_some(), has_it) {
        (true, true) => Step::RemoveIfUnused,
        (false, false) => Step::Add,
        _ => Step::Nothing,
    }
}

/// Takes the step; whether the object is used is asked only where that matters.
async fn protect<K: Object<DynamicType: Default>>(
    object: Arc<K>,
    ctx: &Context,
    finalizer: &str,
    is_used: impl AsyncFnOnce(&K) -> Result<bool>,
) -> Result<Action> {
    match step(object.as_ref(), finalizer) {
        Step::Nothing => {}
        Step::Add => {
            ctx.add_finalizer(&object, finalizer).await?;
        }
        Step::RemoveIfUnused => {
            if !is_used(&object).await? {
                ctx.remove_finalizer(&object, finalizer).await?;
            }
        }
    }
    Ok(Action::done())
}

async fn reconcile_claim(claim: Arc<PersistentVolumeClaim>, ctx: Context) -> Result<Action> {
    protect(claim, &ctx, CLAIM, async |claim| {
        let namespace = claim.namespace().unwrap_or_default();
        let place = (namespace.clone(), claim.name_any());
        if pods_by_claim(&ctx)?.get(&place).iter().any(|pod| uses(pod, claim)) {
            return Ok(true);
        }
        // The cache may lag behind; a claim that is gone cannot come back.
        let pods = ctx.live().list::<Pod>(Some(&namespace), &ListParams::default()).await?;
        Ok(pods.items.iter().any(|pod| uses(pod, claim)))
    })
    .await
}

async fn reconcile_volume(volume: Arc<PersistentVolume>, ctx: Context) -> Result<Action> {
    let is_bound = async |volume: &PersistentVolume| {
        Ok(volume.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Bound")))
    };
    protect(volume, &ctx, VOLUME, is_bound).await
}

async fn reconcile_class(class: Arc<VolumeAttributesClass>, ctx: Context) -> Result<Action> {
    protect(class, &ctx, CLASS, async |class| {
        let name = class.name_any();
        let claims = ctx.index("attributes-class", classes_of_claim)?;
        let volumes = ctx.index("attributes-class", classes_of_volume)?;
        Ok(claims.count(&name) + volumes.count(&name) > 0)
    })
    .await
}

/// A claim that a pod names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: String,
    /// It is made for this pod, which may go without it.
    is_own: bool,
}

/// The claims of a pod: those it names, and those that are made for it.
pub(super) fn claims_of(pod: &Pod) -> Vec<Named> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let named = volumes.filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(claim), _) => Some(Named { name: claim.claim_name.clone(), is_own: false }),
        (None, Some(_)) => Some(Named { name: format!("{}-{}", pod.name_any(), volume.name), is_own: true }),
        (None, None) => None,
    });
    named.collect()
}

pub(super) fn pods_by_claim(ctx: &Context) -> Result<Index<Pod, (String, String)>> {
    let places = |pod: &Pod| {
        let namespace = pod.namespace().unwrap_or_default();
        claims_of(pod).into_iter().map(|claim| (namespace.clone(), claim.name)).collect()
    };
    Ok(ctx.index("claim", places)?)
}

/// Whether a pod keeps a claim. A pod without a node does not: it will not start on a claim that is to go.
fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let is_placed = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|node| !node.is_empty());
    let is_shut_down =
        pod.metadata.deletion_timestamp.is_some() && pod.metadata.deletion_grace_period_seconds == Some(0);
    let is_made_for_it = || {
        let owners = claim.metadata.owner_references.iter().flatten();
        owners.into_iter().any(|owner| owner.controller == Some(true) && Some(&owner.uid) == pod.metadata.uid.as_ref())
    };
    let name = claim.name_any();
    is_placed
        && claims_of(pod).iter().any(|named| named.name == name && (!named.is_own || !is_shut_down && is_made_for_it()))
}

fn classes_of_claim(claim: &PersistentVolumeClaim) -> Vec<String> {
    let status = claim.status.as_ref();
    let target =
        status.and_then(|status| status.modify_volume_status.as_ref()?.target_volume_attributes_class_name.clone());
    let current = status.and_then(|status| status.current_volume_attributes_class_name.clone());
    let wanted = claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.clone());
    let mut names: Vec<String> =
        [wanted, current, target].into_iter().flatten().filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn classes_of_volume(volume: &PersistentVolume) -> Vec<String> {
    let name = volume.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.clone());
    name.into_iter().filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claim(metadata: serde_json::Value) -> PersistentVolumeClaim {
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn a_finalizer_is_added_to_the_living_and_removed_from_the_dying() {
        let deleted = "2026-01-01T00:00:00Z";
        for (metadata, expected) in [
            (json!({"name": "c"}), Step::Add),
            (json!({"name": "c", "finalizers": [CLAIM]}), Step::Nothing),
            (json!({"name": "c", "finalizers": [CLAIM], "deletionTimestamp": deleted}), Step::RemoveIfUnused),
            (json!({"name": "c", "finalizers": ["x/y"], "deletionTimestamp": deleted}), Step::Nothing),
        ] {
            assert_eq!(step(&claim(metadata.clone()), CLAIM), expected, "{metadata}");
        }
    }

    #[test]
    fn a_claim_is_used_by_pods_that_have_a_node() {
        let pod = |metadata: serde_json::Value, node: &str, volume: serde_json::Value| -> Pod {
            let spec = json!({"nodeName": node, "containers": [], "volumes": [volume]});
            serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
        };
        let named = || json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}});
        let own = || json!({"name": "v", "ephemeral": {}});
        let plain = claim(json!({"name": "c"}));
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true});
        let made = claim(json!({"name": "p-v", "ownerReferences": [owner]}));
        let unowned = claim(json!({"name": "p-v"}));
        let alive = || json!({"name": "p", "uid": "u"});
        let over = || json!({"name": "p", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0});
        for (pod, claim, expected) in [
            (pod(alive(), "n", named()), &plain, true),
            (pod(over(), "n", named()), &plain, true),
            (pod(alive(), "", named()), &plain, false),
            (pod(alive(), "n", named()), &made, false),
            (pod(alive(), "n", own()), &made, true),
            (pod(over(), "n", own()), &made, false),
            (pod(alive(), "n", own()), &unowned, false),
        ] {
            assert_eq!(uses(&pod, claim), expected, "{:?} {:?}", pod.metadata, claim.metadata.name);
        }
    }

    #[test]
    fn a_claim_names_the_class_it_wants_has_and_gets() {
        let claim: PersistentVolumeClaim = serde_json::from_value(json!({"metadata": {},
            "spec": {"volumeAttributesClassName": "b"},
            "status": {"currentVolumeAttributesClassName": "a",
                "modifyVolumeStatus": {"status": "Pending", "targetVolumeAttributesClassName": "b"}}}))
        .unwrap();
        assert_eq!(classes_of_claim(&claim), ["a", "b"]);
    }
}
