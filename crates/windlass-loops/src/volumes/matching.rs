//! Matching volumes and claims. Pure.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{Resource as _, ResourceExt as _};
use windlass_schema::quantity;

use crate::pods::{compiled, selects};

/// Annotation for the class, from before there was a field.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The class of a claim; empty for none.
pub(crate) fn class_of_claim(claim: &PersistentVolumeClaim) -> &str {
    let asked = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_ref());
    claim.annotations().get(CLASS).or(asked).map_or("", String::as_str)
}

/// Returns whether a claim specifies a class, even an empty one.
pub(crate) fn has_class(claim: &PersistentVolumeClaim) -> bool {
    claim.annotations().contains_key(CLASS) || claim.spec.as_ref().is_some_and(|spec| spec.storage_class_name.is_some())
}

/// The class of a volume.
pub(crate) fn class_of_volume(volume: &PersistentVolume) -> &str {
    let class = volume.spec.as_ref().and_then(|spec| spec.storage_class_name.as_ref());
    volume.annotations().get(CLASS).or(class).map_or("", String::as_str)
}

/// The claim that a volume is bound to or reserved for.
pub(crate) fn claim_ref(volume: &PersistentVolume) -> Option<&ObjectReference> {
    volume.spec.as_ref()?.claim_ref.as_ref()
}

/// Returns whether a volume refers to a claim: by name, and by UID if present.
pub(crate) fn is_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    claim_ref(volume).is_some_and(|reference| {
        let uid = reference.uid.as_ref().filter(|uid| !uid.is_empty());
        reference.name == claim.metadata.name
            && reference.namespace == claim.metadata.namespace
            && uid.is_none_or(|uid| Some(uid) == claim.metadata.uid.as_ref())
    })
}

/// Selects the best volume for a claim: one that refers to it, otherwise the smallest free one that matches. Volumes
/// with the fewest access modes come first.
///
/// While binding waits for the first consumer (`delayed`), only a volume that refers to the claim is returned.
pub fn best(
    claim: &PersistentVolumeClaim,
    volumes: &[Arc<PersistentVolume>],
    delayed: bool,
) -> Option<Arc<PersistentVolume>> {
    let spec = claim.spec.as_ref()?;
    let selector = match &spec.selector {
        Some(selector) => Some(compiled(selector)?),
        None => None,
    };
    let mut by_modes: BTreeMap<(usize, Vec<&String>), Vec<&Arc<PersistentVolume>>> = BTreeMap::new();
    for volume in volumes.iter().filter(|volume| lacks_mode(volume, claim).is_none()) {
        let mut modes: Vec<&String> = volume.spec.iter().flat_map(|spec| spec.access_modes.iter().flatten()).collect();
        modes.sort_unstable();
        modes.dedup();
        by_modes.entry((modes.len(), modes)).or_default().push(volume);
    }
    by_modes.values().find_map(|volumes| {
        let usable = || {
            volumes.iter().filter(|volume| {
                size(volume) >= requested(claim)
                    && mode_of_volume(volume) == mode_of_claim(claim)
                    && attributes_of_volume(volume) == attributes_of_claim(claim)
                    && volume.metadata.deletion_timestamp.is_none()
            })
        };
        let own = usable().filter(|volume| is_for(volume, claim)).min_by_key(|volume| volume.name_any());
        let free = usable().filter(|volume| {
            claim_ref(volume).is_none()
                && phase(volume) == "Available"
                && class_of_volume(volume) == class_of_claim(claim)
                && selector.as_ref().is_none_or(|selector| selects(selector, volume.as_ref()))
        });
        let smallest = || free.min_by_key(|volume| (size(volume), volume.name_any()));
        own.or_else(|| if delayed { None } else { smallest() }).map(|volume| Arc::clone(volume))
    })
}

/// Returns why a volume does not satisfy a claim that names it, if it does not.
pub(crate) fn mismatch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<String> {
    if volume.metadata.deletion_timestamp.is_some() {
        return Some(format!("the volume is marked for deletion {:?}", volume.name_any()));
    }
    let why = if size(volume) < requested(claim) {
        "requested PV is too small"
    } else if class_of_volume(volume) != class_of_claim(claim) {
        "storageClassName does not match"
    } else if attributes_of_volume(volume) != attributes_of_claim(claim) {
        "volumeAttributesClassName does not match"
    } else if mode_of_volume(volume) != mode_of_claim(claim) {
        "incompatible volumeMode"
    } else {
        lacks_mode(volume, claim)?
    };
    Some(why.to_owned())
}

/// Returns whether the volume modes differ: one is a file system, the other a block device.
pub(crate) fn has_other_mode(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    mode_of_volume(volume) != mode_of_claim(claim)
}

fn lacks_mode(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<&'static str> {
    let has = volume.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
    let asked = claim.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
    asked.iter().any(|mode| !has.contains(mode)).then_some("incompatible accessMode")
}

fn mode_of_volume(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref()).unwrap_or("Filesystem")
}

fn mode_of_claim(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref()).unwrap_or("Filesystem")
}

fn attributes_of_volume(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref()).unwrap_or_default()
}

fn attributes_of_claim(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref()).unwrap_or_default()
}

/// The phase of a volume.
pub(crate) fn phase(volume: &PersistentVolume) -> &str {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn requested(claim: &PersistentVolumeClaim) -> i64 {
    let requests = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
    requests.and_then(|requests| requests.get("storage")).map_or(0, amount)
}

fn size(volume: &PersistentVolume) -> i64 {
    let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref());
    capacity.and_then(|capacity| capacity.get("storage")).map_or(0, amount)
}

pub(crate) fn amount(quantity: &Quantity) -> i64 {
    quantity::Quantity::parse(&quantity.0).map_or(0, |quantity| quantity.value())
}

/// The reference to a claim in a volume.
pub fn reference(claim: &PersistentVolumeClaim) -> ObjectReference {
    ObjectReference { resource_version: claim.metadata.resource_version.clone(), ..claim.object_ref(&()) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(spec: Value) -> PersistentVolumeClaim {
        let mut whole = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}},
            "storageClassName": "fast"});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let metadata = json!({"name": "c", "namespace": "n", "uid": "u"});
        serde_json::from_value(json!({"metadata": metadata, "spec": whole})).unwrap()
    }

    fn volume(name: &str, change: Value) -> Arc<PersistentVolume> {
        let mut volume = json!({
            "metadata": {"name": name, "labels": {"disk": name}},
            "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "5Gi"}, "storageClassName": "fast"},
            "status": {"phase": "Available"},
        });
        for part in ["metadata", "spec", "status"] {
            if let Some(fields) = change[part].as_object() {
                volume[part].as_object_mut().unwrap().extend(fields.clone());
            }
        }
        Arc::new(serde_json::from_value(volume).unwrap())
    }

    fn check(claim: &PersistentVolumeClaim, volumes: &[Arc<PersistentVolume>], expected: Option<&str>) {
        let found = best(claim, volumes, false).map(|volume| volume.name_any());
        assert_eq!(found.as_deref(), expected, "{claim:?}");
    }

    #[test]
    fn the_smallest_matching_volume_is_selected() {
        let size = |storage: &str| json!({"spec": {"capacity": {"storage": storage}}});
        let volumes = [volume("large", size("50Gi")), volume("small", size("1Gi")), volume("right", size("6Gi"))];
        check(&claim(json!({})), &volumes, Some("right"));
        check(&claim(json!({"resources": {"requests": {"storage": "51Gi"}}})), &volumes, None);
        assert!(best(&claim(json!({})), &volumes, true).is_none(), "a pod has to come first");
    }

    #[test]
    fn a_volume_that_does_not_match_is_not_selected() {
        for change in [
            json!({"spec": {"storageClassName": "slow"}}),
            json!({"spec": {"accessModes": ["ReadOnlyMany"]}}),
            json!({"spec": {"volumeMode": "Block"}}),
            json!({"spec": {"volumeAttributesClassName": "gold"}}),
            json!({"status": {"phase": "Released"}}),
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            json!({"spec": {"claimRef": {"namespace": "n", "name": "other"}}}),
            json!({"spec": {"claimRef": {"namespace": "n", "name": "c", "uid": "another"}}}),
        ] {
            check(&claim(json!({})), &[volume("v", change)], None);
        }
        check(&claim(json!({"selector": {"matchLabels": {"disk": "v"}}})), &[volume("v", json!({}))], Some("v"));
        check(&claim(json!({"selector": {"matchLabels": {"disk": "w"}}})), &[volume("v", json!({}))], None);
    }

    #[test]
    fn a_volume_reserved_for_the_claim_comes_first_regardless_of_its_class() {
        let own = json!({"spec": {"claimRef": {"namespace": "n", "name": "c"}, "storageClassName": "slow",
            "capacity": {"storage": "50Gi"}}});
        let volumes = [volume("free", json!({})), volume("own", own)];
        check(&claim(json!({})), &volumes, Some("own"));
        assert_eq!(best(&claim(json!({})), &volumes, true).unwrap().name_any(), "own");
    }

    #[test]
    fn volumes_with_the_fewest_access_modes_come_first() {
        let more = json!({"spec": {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}});
        let large = json!({"spec": {"capacity": {"storage": "50Gi"}}});
        check(&claim(json!({})), &[volume("more", more), volume("large", large)], Some("large"));
    }

    #[test]
    fn a_mismatch_with_the_named_volume_is_explained() {
        for (change, expected) in [
            (json!({}), None),
            (json!({"spec": {"capacity": {"storage": "1Gi"}}}), Some("requested PV is too small")),
            (json!({"spec": {"storageClassName": "slow"}}), Some("storageClassName does not match")),
            (json!({"spec": {"volumeMode": "Block"}}), Some("incompatible volumeMode")),
            (json!({"spec": {"accessModes": ["ReadOnlyMany"]}}), Some("incompatible accessMode")),
            (
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
                Some("the volume is marked for deletion \"v\""),
            ),
        ] {
            assert_eq!(mismatch(&volume("v", change), &claim(json!({}))).as_deref(), expected);
        }
    }
}
