//! The bound for types that can be watched and cached.

use std::{fmt::Debug, hash::Hash};

use kube::{
    Resource,
    core::{ApiResource, ObjectMeta},
};
use serde::{Serialize, de::DeserializeOwned};

/// An API object: a type of `k8s-openapi`, a type derived with `CustomResource`, kube's `DynamicObject` for kinds known
/// only at run time, or `PartialObjectMeta` for metadata.
///
/// Implemented for all types with these traits.
pub trait Object:
    Resource<DynamicType: Clone + Debug + Eq + Hash + Send + Sync>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: Resource<DynamicType: Clone + Debug + Eq + Hash + Send + Sync>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
        + Send
        + Sync
        + 'static
{
}

/// Returns group, version, kind and plural name of a type.
pub fn resource_of<K: Object>(dynamic: &K::DynamicType) -> ApiResource {
    ApiResource {
        group: K::group(dynamic).into_owned(),
        version: K::version(dynamic).into_owned(),
        api_version: K::api_version(dynamic).into_owned(),
        kind: K::kind(dynamic).into_owned(),
        plural: K::plural(dynamic).into_owned(),
    }
}

/// Returns the resource version of an object as a number, by which two states of one resource can be ordered; 0 if it
/// has none.
///
/// Kubernetes guarantees this order since 1.35; all servers had it before.
pub fn revision_of(object: &impl Resource) -> u64 {
    revision(object.meta())
}

/// Returns the resource version of metadata as a number.
pub(crate) fn revision(meta: &ObjectMeta) -> u64 {
    revision_in(meta.resource_version.as_deref())
}

/// Parses a `resourceVersion`.
pub(crate) fn revision_in(version: Option<&str>) -> u64 {
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Returns whether the state in the response to a write is the last one: the object has no finalizers left, and is
/// deleted.
///
/// A server that removes an object at once sets a grace period of zero. A namespace also has `spec.finalizers`, which
/// are not in its metadata: only its watch reports when it is deleted.
pub(crate) fn is_final(group: &str, kind: &str, meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
        && meta.deletion_grace_period_seconds == Some(0)
        && meta.finalizers.as_ref().is_none_or(Vec::is_empty)
        && !(group.is_empty() && kind == "Namespace")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

    use super::*;

    #[test]
    fn an_object_without_finalizers_is_final() {
        let last = ObjectMeta {
            deletion_timestamp: Some(Time(Timestamp::UNIX_EPOCH)),
            deletion_grace_period_seconds: Some(0),
            finalizers: Some(Vec::new()),
            ..ObjectMeta::default()
        };
        let of = |metadata: ObjectMeta| is_final("", "ConfigMap", &metadata);
        assert!(of(last.clone()));
        assert!(!of(ObjectMeta { deletion_timestamp: None, ..last.clone() }));
        assert!(!of(ObjectMeta { deletion_grace_period_seconds: Some(30), ..last.clone() }));
        assert!(!of(ObjectMeta { deletion_grace_period_seconds: None, ..last.clone() }));
        assert!(!of(ObjectMeta { finalizers: Some(vec!["example.com/held".into()]), ..last.clone() }));
        // Its finalizers are in the spec.
        assert!(!is_final("", "Namespace", &last));
        assert!(is_final("example.com", "Namespace", &last));
    }
}
