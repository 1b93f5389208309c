//! Finalizers, which keep a deleted object until they are removed.
//!
//! The patches carry the object's UID and resource version: the API server rejects them with a conflict if the object
//! has changed, so that they never undo what another controller does to its finalizers.

use kube::{Resource, core::ObjectMeta};
use serde_json::{Value, json};

/// The object is being deleted: finalizers can be removed, but not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the object is being deleted")]
pub struct BeingDeleted;

/// Returns whether an object has a finalizer.
pub fn has(object: &impl Resource, name: &str) -> bool {
    is_in(object.meta(), name)
}

/// Returns whether metadata has a finalizer.
pub(crate) fn is_in(meta: &ObjectMeta, name: &str) -> bool {
    meta.finalizers.iter().flatten().any(|finalizer| finalizer == name)
}

/// Returns the merge patch that adds a finalizer; `None` if the object has it.
pub fn adding(object: &impl Resource, name: &str) -> Result<Option<Value>, BeingDeleted> {
    adding_to(object.meta(), name)
}

/// Returns the merge patch that adds a finalizer to metadata.
pub(crate) fn adding_to(meta: &ObjectMeta, name: &str) -> Result<Option<Value>, BeingDeleted> {
    if is_in(meta, name) {
        return Ok(None);
    }
    if meta.deletion_timestamp.is_some() {
        return Err(BeingDeleted);
    }
    let mut finalizers = meta.finalizers.clone().unwrap_or_default();
    finalizers.push(name.to_owned());
    Ok(Some(patch(meta, finalizers)))
}

/// Returns the merge patch that removes a finalizer; `None` if the object does not have it.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_runtime::objects::finalizer;
///
/// let mut object = ConfigMap::default();
/// object.metadata.finalizers = Some(vec!["example.com/volume".into(), "other.io/guard".into()]);
/// let patch = finalizer::removing(&object, "example.com/volume").unwrap();
/// assert_eq!(patch["metadata"]["finalizers"], serde_json::json!(["other.io/guard"]));
/// ```
pub fn removing(object: &impl Resource, name: &str) -> Option<Value> {
    removing_from(object.meta(), name)
}

/// Returns the merge patch that removes a finalizer from metadata.
pub(crate) fn removing_from(meta: &ObjectMeta, name: &str) -> Option<Value> {
    if !is_in(meta, name) {
        return None;
    }
    let mut finalizers = meta.finalizers.clone().unwrap_or_default();
    finalizers.retain(|finalizer| finalizer != name);
    Some(patch(meta, finalizers))
}

fn patch(meta: &ObjectMeta, finalizers: Vec<String>) -> Value {
    let mut metadata = json!({ "finalizers": finalizers });
    if let Some(uid) = &meta.uid {
        metadata["uid"] = uid.as_str().into();
    }
    if let Some(version) = &meta.resource_version {
        metadata["resourceVersion"] = version.as_str().into();
    }
    json!({ "metadata": metadata })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::Time};

    use super::*;

    fn object(finalizers: &[&str]) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.uid = Some("u".into());
        object.metadata.resource_version = Some("7".into());
        object.metadata.finalizers = Some(finalizers.iter().map(|&name| name.into()).collect());
        object
    }

    #[test]
    fn a_patch_names_the_state_it_was_made_from() {
        let expected =
            |finalizers: Value| json!({"metadata": {"finalizers": finalizers, "uid": "u", "resourceVersion": "7"}});
        assert_eq!(adding(&object(&["a"]), "b"), Ok(Some(expected(json!(["a", "b"])))));
        assert_eq!(removing(&object(&["a", "b"]), "b"), Some(expected(json!(["a"]))));
        assert_eq!(removing(&object(&["b"]), "b"), Some(expected(json!([]))));
    }

    #[test]
    fn nothing_is_written_when_nothing_changes() {
        assert_eq!(adding(&object(&["a"]), "a"), Ok(None));
        assert_eq!(removing(&object(&["a"]), "b"), None);
    }

    #[test]
    fn an_object_that_is_being_deleted_gets_no_finalizer() {
        let mut object = object(&["a"]);
        object.metadata.deletion_timestamp = Some(Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(adding(&object, "b"), Err(BeingDeleted));
        assert_eq!(adding(&object, "a"), Ok(None));
        assert!(removing(&object, "a").is_some());
    }
}
