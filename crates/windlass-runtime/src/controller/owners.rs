//! Mapping from an owned object to the keys of its owners.

use std::sync::atomic::{AtomicU8, Ordering};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::{
    context::any_kind::{KindInfo, ResourceScope},
    key::ObjectKey,
};

const UNKNOWN: u8 = 0;
const NAMESPACED: u8 = 1;
const CLUSTER: u8 = 2;

/// Selection of the owners to map to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OwnerSelection {
    /// The controlling owner.
    #[default]
    Controller,
    /// All owners.
    All,
}

/// The kind of the owners. The version in an owner reference is ignored: an object keeps its owner when the owner's
/// kind moves to another version.
#[derive(Debug)]
pub(crate) struct OwnerKind {
    group: String,
    kind: String,
    /// Whether owners have a namespace. For kinds known at run time, their first object decides.
    resource_scope: AtomicU8,
}

impl OwnerKind {
    pub(crate) fn of(kind_info: &dyn KindInfo) -> Self {
        let resource_scope = match kind_info.resource_scope() {
            ResourceScope::Namespaced => NAMESPACED,
            ResourceScope::Cluster => CLUSTER,
            ResourceScope::Unknown => UNKNOWN,
        };
        let resource = kind_info.resource();
        Self { group: resource.group, kind: resource.kind, resource_scope: AtomicU8::new(resource_scope) }
    }

    /// Records that an owner was seen.
    pub(crate) fn saw(&self, owner: &ObjectMeta) {
        if self.resource_scope.load(Ordering::Relaxed) == UNKNOWN {
            let resource_scope = if owner.namespace.is_some() { NAMESPACED } else { CLUSTER };
            self.resource_scope.store(resource_scope, Ordering::Relaxed);
        }
    }

    /// Calls `each` with the keys of an object's owners. Does nothing while it is unknown whether owners have a
    /// namespace: none of them has been seen then, and each will be queued when it is.
    pub(crate) fn keys(&self, owned: &ObjectMeta, which: OwnerSelection, mut each: impl FnMut(ObjectKey)) {
        let namespace = match self.resource_scope.load(Ordering::Relaxed) {
            NAMESPACED => owned.namespace.as_deref(),
            CLUSTER => None,
            _ => return,
        };
        for owner in owned.owner_references.iter().flatten().filter(|owner| self.is_meant(owner, which)) {
            each(match namespace {
                Some(namespace) => ObjectKey::namespaced(namespace, &owner.name),
                None => ObjectKey::cluster(&owner.name),
            });
        }
    }

    fn is_meant(&self, owner: &OwnerReference, which: OwnerSelection) -> bool {
        let group = owner.api_version.split_once('/').map_or("", |(group, _version)| group);
        (which == OwnerSelection::All || owner.controller == Some(true))
            && owner.kind == self.kind
            && group == self.group
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{
        apps::v1::Deployment,
        core::v1::{Node, Pod},
    };
    use kube::core::{ApiResource, DynamicObject, GroupVersionKind};

    use super::*;
    use crate::context::any_kind::kind_info;

    fn owner(api_version: &str, kind: &str, name: &str, controller: bool) -> OwnerReference {
        OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            name: name.into(),
            controller: Some(controller),
            ..OwnerReference::default()
        }
    }

    fn owned_by(owners: Vec<OwnerReference>) -> ObjectMeta {
        ObjectMeta { namespace: Some("default".into()), owner_references: Some(owners), ..ObjectMeta::default() }
    }

    fn keys(kind: &OwnerKind, owned: &ObjectMeta, which: OwnerSelection) -> Vec<String> {
        let mut found = Vec::new();
        kind.keys(owned, which, |key| found.push(key.to_string()));
        found
    }

    #[test]
    fn owners_are_matched_by_group_and_kind_regardless_of_version() {
        let kind = OwnerKind::of(&*kind_info::<Deployment>(&()));
        let owned = owned_by(vec![
            owner("apps/v1beta2", "Deployment", "old", true),
            owner("extensions/v1", "Deployment", "foreign", true),
            owner("v1", "Deployment", "core", true),
            owner("apps/v1", "ReplicaSet", "sibling", true),
        ]);
        assert_eq!(keys(&kind, &owned, OwnerSelection::Controller), ["default/old"]);
    }

    #[test]
    fn only_the_controller_counts_unless_every_owner_is_asked_for() {
        let kind = OwnerKind::of(&*kind_info::<Pod>(&()));
        let owned = owned_by(vec![owner("v1", "Pod", "other", false), owner("v1", "Pod", "main", true)]);
        assert_eq!(keys(&kind, &owned, OwnerSelection::Controller), ["default/main"]);
        assert_eq!(keys(&kind, &owned, OwnerSelection::All), ["default/other", "default/main"]);
    }

    #[test]
    fn an_owner_of_the_cluster_has_no_namespace() {
        let kind = OwnerKind::of(&*kind_info::<Node>(&()));
        assert_eq!(keys(&kind, &owned_by(vec![owner("v1", "Node", "n1", true)]), OwnerSelection::Controller), ["n1"]);
    }

    #[test]
    fn a_kind_known_at_run_time_learns_its_scope_from_its_objects() {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Rack"));
        let kind = OwnerKind::of(&*kind_info::<DynamicObject>(&resource));
        let owned = owned_by(vec![owner("example.com/v1", "Rack", "r1", true)]);
        assert!(keys(&kind, &owned, OwnerSelection::Controller).is_empty());
        kind.saw(&ObjectMeta { name: Some("r9".into()), ..ObjectMeta::default() });
        assert_eq!(keys(&kind, &owned, OwnerSelection::Controller), ["r1"]);
    }
}
