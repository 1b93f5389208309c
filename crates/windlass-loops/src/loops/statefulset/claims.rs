//! The claims of a stateful set's pods, and their owners.
//!
//! The owner references of a claim determine whether it is deleted when its pod is scaled down or the set is deleted:
//! the garbage collector does the rest. Claims whose owners were set by others are left alone.

use k8s_openapi::{
    api::{
        apps::v1::StatefulSet,
        core::v1::{PersistentVolumeClaim, Pod},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};

use super::identity::{claim_name, claim_templates, ordinal, ordinals};

/// The retention policy for claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Retention {
    deletes_when_deleted: bool,
    deletes_when_scaled: bool,
}

impl Retention {
    fn of(set: &StatefulSet) -> Self {
        let policy = set.spec.as_ref().and_then(|spec| spec.persistent_volume_claim_retention_policy.as_ref());
        let deletes = |policy: Option<&String>| policy.is_some_and(|policy| policy == "Delete");
        Self {
            deletes_when_deleted: deletes(policy.and_then(|policy| policy.when_deleted.as_ref())),
            deletes_when_scaled: deletes(policy.and_then(|policy| policy.when_scaled.as_ref())),
        }
    }
}

/// The object that an owner reference of a claim refers to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Referent {
    Set,
    Pod,
    /// A deleted set or pod with the same name.
    Former,
    Other,
}

/// The claims that a pod needs.
pub(super) fn of_pod(set: &StatefulSet, ordinal: i64) -> Vec<PersistentVolumeClaim> {
    let selector = set.spec.as_ref().and_then(|spec| spec.selector.match_labels.as_ref());
    let claim = |template: &PersistentVolumeClaim| {
        let mut claim = template.clone();
        claim.metadata.name = Some(claim_name(set, template, ordinal));
        claim.metadata.namespace = set.metadata.namespace.clone();
        if let Some(selector) = selector {
            claim.metadata.labels.get_or_insert_default().extend(selector.clone());
        }
        claim.status = None;
        claim
    };
    claim_templates(set).iter().map(claim).collect()
}

/// Returns whether a claim still refers to a deleted pod, and the new one does not exist yet.
pub(super) fn is_stale(set: &StatefulSet, pod_name: &str, claim: &PersistentVolumeClaim) -> bool {
    let of_pod = |owner: &OwnerReference| is_to(owner, "v1", "Pod", Some(pod_name));
    Retention::of(set).deletes_when_scaled && owners(claim).iter().any(of_pod)
}

/// The owner references that a claim should have, if they differ.
pub(super) fn owners_to_set(
    set: &StatefulSet,
    pod: &Pod,
    claim: &PersistentVolumeClaim,
) -> Option<Vec<OwnerReference>> {
    let referents: Vec<Referent> = owners(claim).iter().map(|owner| referent(owner, set, pod)).collect();
    if referents.contains(&Referent::Former) {
        return None;
    }
    let others: Vec<OwnerReference> = others(claim, &referents).cloned().collect();
    let retention = Retention::of(set);
    let retains = !retention.deletes_when_deleted && !retention.deletes_when_scaled;
    let foreign = !retains && others.iter().any(|owner| owner.controller == Some(true));
    let is_scaled_down = !ordinal(pod).is_some_and(|ordinal| ordinals(set).contains(&ordinal));
    let by_pod = !foreign && retention.deletes_when_scaled && is_scaled_down;
    let by_set = !foreign && retention.deletes_when_deleted && !(retention.deletes_when_scaled && is_scaled_down);
    let has = |who| referents.contains(&who);
    let half_owned = owners(claim)
        .iter()
        .zip(&referents)
        .any(|(owner, who)| matches!(who, Referent::Set | Referent::Pod) && owner.controller != Some(true));
    if has(Referent::Set) == by_set && has(Referent::Pod) == by_pod && !half_owned {
        return None;
    }
    let mut owners = others;
    if by_set {
        owners.push(reference("apps/v1", "StatefulSet", &set.metadata));
    }
    if by_pod {
        owners.push(reference("v1", "Pod", &pod.metadata));
    }
    Some(owners)
}

fn owners(claim: &PersistentVolumeClaim) -> &[OwnerReference] {
    claim.metadata.owner_references.as_deref().unwrap_or_default()
}

/// References to neither the set nor the pod.
fn others<'a>(claim: &'a PersistentVolumeClaim, referents: &'a [Referent]) -> impl Iterator<Item = &'a OwnerReference> {
    let all = owners(claim).iter().zip(referents);
    all.filter(|(_, who)| **who == Referent::Other).map(|(owner, _)| owner)
}

fn referent(owner: &OwnerReference, set: &StatefulSet, pod: &Pod) -> Referent {
    let is_same = |meta: &ObjectMeta| meta.uid.as_ref() == Some(&owner.uid);
    if is_to(owner, "apps/v1", "StatefulSet", set.metadata.name.as_deref()) {
        if is_same(&set.metadata) { Referent::Set } else { Referent::Former }
    } else if is_to(owner, "v1", "Pod", pod.metadata.name.as_deref()) {
        if is_same(&pod.metadata) { Referent::Pod } else { Referent::Former }
    } else {
        Referent::Other
    }
}

fn is_to(owner: &OwnerReference, api_version: &str, kind: &str, name: Option<&str>) -> bool {
    owner.api_version == api_version && owner.kind == kind && Some(owner.name.as_str()) == name
}

fn reference(api_version: &str, kind: &str, meta: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(when_deleted: &str, when_scaled: &str) -> StatefulSet {
        let set = json!({
            "metadata": { "name": "db", "namespace": "ns", "uid": "set" },
            "spec": { "selector": { "matchLabels": { "app": "db" } }, "template": {}, "replicas": 1,
                "persistentVolumeClaimRetentionPolicy": { "whenDeleted": when_deleted, "whenScaled": when_scaled },
                "volumeClaimTemplates": [{ "metadata": { "name": "data", "labels": { "a": "b" } } }] },
        });
        serde_json::from_value(set).unwrap()
    }

    fn claim(owners: &[Value]) -> PersistentVolumeClaim {
        serde_json::from_value(json!({ "metadata": { "ownerReferences": owners } })).unwrap()
    }

    fn owner(api_version: &str, kind: &str, name: &str, uid: &str, controller: bool) -> Value {
        json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": controller,
            "blockOwnerDeletion": true })
    }

    #[test]
    fn owners_follow_the_retention_policy() {
        let by_set = owner("apps/v1", "StatefulSet", "db", "set", true);
        let by_pod = |name| owner("v1", "Pod", name, "pod", true);
        let by_former = owner("v1", "Pod", "db-0", "gone", true);
        let by_other = owner("v1", "ConfigMap", "x", "other", true);
        let half = owner("apps/v1", "StatefulSet", "db", "set", false);
        let table = [
            ("Retain", "Retain", "db-0", vec![], None),
            ("Retain", "Retain", "db-0", vec![by_set.clone()], Some(vec![])),
            ("Retain", "Retain", "db-0", vec![by_other.clone()], None),
            ("Delete", "Retain", "db-0", vec![], Some(vec![by_set.clone()])),
            ("Delete", "Retain", "db-5", vec![], Some(vec![by_set.clone()])),
            ("Delete", "Retain", "db-0", vec![by_set.clone()], None),
            ("Delete", "Retain", "db-0", vec![half], Some(vec![by_set.clone()])),
            ("Delete", "Retain", "db-0", vec![by_other.clone()], None),
            ("Delete", "Retain", "db-0", vec![by_other.clone(), by_set.clone()], Some(vec![by_other])),
            ("Retain", "Delete", "db-0", vec![], None),
            ("Retain", "Delete", "db-0", vec![by_pod("db-0")], Some(vec![])),
            ("Retain", "Delete", "db-5", vec![], Some(vec![by_pod("db-5")])),
            ("Delete", "Delete", "db-0", vec![], Some(vec![by_set.clone()])),
            ("Delete", "Delete", "db-5", vec![by_set], Some(vec![by_pod("db-5")])),
            ("Delete", "Delete", "db-0", vec![by_former], None),
        ];
        for (when_deleted, when_scaled, name, before, after) in table {
            let pod = serde_json::from_value(json!({ "metadata": { "name": name, "uid": "pod" } })).unwrap();
            let found = owners_to_set(&set(when_deleted, when_scaled), &pod, &claim(&before));
            let found = found.map(|owners| serde_json::to_value(owners).unwrap());
            assert_eq!(found, after.map(Value::from), "{when_deleted} {when_scaled} {name} {before:?}");
        }
    }

    #[test]
    fn a_claim_of_a_deleted_pod_is_waited_for_if_it_will_be_deleted() {
        let former = claim(&[owner("v1", "Pod", "db-0", "gone", true)]);
        assert!(is_stale(&set("Retain", "Delete"), "db-0", &former));
        assert!(!is_stale(&set("Retain", "Retain"), "db-0", &former));
        assert!(!is_stale(&set("Retain", "Delete"), "db-0", &claim(&[])));
    }

    #[test]
    fn a_claim_has_the_labels_of_template_and_selector() {
        let claims = of_pod(&set("Retain", "Retain"), 7);
        assert_eq!(claims.len(), 1);
        assert_eq!(claims[0].metadata.name.as_deref(), Some("data-db-7"));
        assert_eq!(serde_json::to_value(&claims[0].metadata.labels).unwrap(), json!({ "a": "b", "app": "db" }));
    }
}
