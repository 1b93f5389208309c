//! Finalizers that keep an object while it is in use.
//!
//! Admission adds the finalizer to new objects; objects that were stored without one get it here.

use std::sync::Arc;

use kube::ResourceExt;
use windlass::{Result, context::Context, controller::Action, object::Object};

/// Step for the finalizer of an object.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    /// Add it.
    Add,
    /// Remove it if the object is not in use.
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

/// Adds or removes the finalizer, by update: the roles of these loops do not permit patches. `is_used` is called only for
/// objects that are being deleted.
pub(crate) async fn protect<K: Object<DynamicType: Default>>(
    object: Arc<K>,
    ctx: &Context,
    finalizer: &str,
    is_used: impl AsyncFnOnce(&K) -> Result<bool>,
) -> Result<Action> {
    match step(object.as_ref(), finalizer) {
        Step::Nothing => {}
        Step::Add => {
            let mut protected = K::clone(&object);
            protected.finalizers_mut().push(finalizer.to_owned());
            ctx.update(protected).await?;
        }
        Step::RemoveIfUnused => {
            if !is_used(&object).await? {
                let mut released = K::clone(&object);
                released.finalizers_mut().retain(|have| have != finalizer);
                match ctx.update(released).await {
                    Err(error) if !error.is_not_found() => return Err(error.into()),
                    _ => {}
                }
            }
        }
    }
    Ok(Action::done())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PersistentVolumeClaim;
    use serde_json::json;

    use super::*;

    const FINALIZER: &str = "kubernetes.io/pvc-protection";

    fn claim(metadata: serde_json::Value) -> PersistentVolumeClaim {
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn a_finalizer_is_added_to_active_objects_and_removed_from_deleted_ones() {
        let deleted = "2026-01-01T00:00:00Z";
        for (metadata, expected) in [
            (json!({"name": "c"}), Step::Add),
            (json!({"name": "c", "finalizers": [FINALIZER]}), Step::Nothing),
            (json!({"name": "c", "finalizers": [FINALIZER], "deletionTimestamp": deleted}), Step::RemoveIfUnused),
            (json!({"name": "c", "finalizers": ["x/y"], "deletionTimestamp": deleted}), Step::Nothing),
        ] {
            assert_eq!(step(&claim(metadata.clone()), FINALIZER), expected, "{metadata}");
        }
    }
}
