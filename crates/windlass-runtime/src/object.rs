//! What can be watched and kept.

use std::{fmt::Debug, hash::Hash};

use kube::{
    Resource,
    core::{ApiResource, ObjectMeta},
};
use serde::{Serialize, de::DeserializeOwned};

/// An object of the API: one of `k8s-openapi`, one derived with `CustomResource`, kube's `DynamicObject` for kinds
/// known only at run time, or `PartialObjectMeta` for metadata alone.
///
/// Implemented for everything that has these traits.
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

/// Group, version, kind and plural of a type.
pub fn resource_of<K: Object>(dynamic: &K::DynamicType) -> ApiResource {
    ApiResource {
        group: K::group(dynamic).into_owned(),
        version: K::version(dynamic).into_owned(),
        api_version: K::api_version(dynamic).into_owned(),
        kind: K::kind(dynamic).into_owned(),
        plural: K::plural(dynamic).into_owned(),
    }
}

/// The revision of an object as a number, by which two states of one resource can be ordered; 0 if it has none.
///
/// Kubernetes promises this order since 1.35; all servers have had it before.
pub fn revision_of(object: &impl Resource) -> u64 {
    revision(object.meta())
}

/// The same of its metadata.
pub(crate) fn revision(meta: &ObjectMeta) -> u64 {
    revision_in(meta.resource_version.as_deref())
}

/// The same of its `resourceVersion`.
pub(crate) fn revision_in(version: Option<&str>) -> u64 {
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Whether a state that a write was answered with is the last one: nothing holds the object any more, and it is gone.
///
/// A server that removes an object at once says so by a grace period of zero. A namespace is held by `spec.finalizers`,
/// which its metadata does not tell: only its watch says when it is gone.
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
    fn an_object_is_gone_when_nothing_holds_it() {
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
        // Its own finalizers are elsewhere.
        assert!(!is_final("", "Namespace", &last));
        assert!(is_final("example.com", "Namespace", &last));
    }
}
