//! Finalizers of controllers.
//!
//! The finalizer is added before the first reconcile, and removed when the cleanup is done: not when it failed or
//! requested a requeue.

use std::sync::Arc;

use kube::core::ObjectMeta;

use crate::{controller::reconciler::AnyReconciler, objects::finalizer};

/// A finalizer and its cleanup.
pub(crate) struct Finalizer {
    pub(crate) name: Arc<str>,
    pub(crate) cleanup: Arc<dyn AnyReconciler>,
}

/// Next step for an object with respect to the finalizer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FinalizerStep {
    /// Add the finalizer, then reconcile.
    Add,
    /// Reconcile.
    Reconcile,
    /// The object is being deleted: clean up, then remove the finalizer.
    CleanUp,
    /// The object is being deleted, and this controller has done its part.
    Leave,
}

impl FinalizerStep {
    pub(crate) fn of(object: &ObjectMeta, finalizer: &str) -> Self {
        match (object.deletion_timestamp.is_some(), finalizer::is_in(object, finalizer)) {
            (false, false) => Self::Add,
            (false, true) => Self::Reconcile,
            (true, true) => Self::CleanUp,
            (true, false) => Self::Leave,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_depends_on_deletion_and_on_the_finalizer() {
        let object = |deleting: bool, finalizers: &[&str]| {
            let finalizers = finalizers.iter().map(|name| (*name).to_owned()).collect();
            let mut object = ObjectMeta { finalizers: Some(finalizers), ..ObjectMeta::default() };
            if deleting {
                object.deletion_timestamp = serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap();
            }
            object
        };
        assert_eq!(FinalizerStep::of(&object(false, &["other/x"]), "ours/y"), FinalizerStep::Add);
        assert_eq!(FinalizerStep::of(&object(false, &["other/x", "ours/y"]), "ours/y"), FinalizerStep::Reconcile);
        assert_eq!(FinalizerStep::of(&object(true, &["ours/y"]), "ours/y"), FinalizerStep::CleanUp);
        assert_eq!(FinalizerStep::of(&object(true, &["other/x"]), "ours/y"), FinalizerStep::Leave);
    }
}
