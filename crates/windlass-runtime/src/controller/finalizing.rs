//! Finalizers: cleaning up before an object goes.
//!
//! The finalizer is added before the first reconcile, and removed when the cleanup is done: not when it failed, and not
//! when it asked for more time.

use std::sync::Arc;

use kube::core::ObjectMeta;

use crate::{controller::reconciler::AnyReconciler, objects::finalizer};

/// A finalizer and what is done for it.
pub(crate) struct Finalizer {
    pub(crate) name: Arc<str>,
    pub(crate) cleanup: Arc<dyn AnyReconciler>,
}

/// What a finalizer asks for, seeing an object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The finalizer is to be added, then the object reconciled.
    Add,
    /// All is as it should be: reconcile.
    Reconcile,
    /// The object is to go: clean up, then remove the finalizer.
    CleanUp,
    /// The object goes, and this controller has done its part.
    Leave,
}

impl Step {
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
        assert_eq!(Step::of(&object(false, &["other/x"]), "ours/y"), Step::Add);
        assert_eq!(Step::of(&object(false, &["other/x", "ours/y"]), "ours/y"), Step::Reconcile);
        assert_eq!(Step::of(&object(true, &["ours/y"]), "ours/y"), Step::CleanUp);
        assert_eq!(Step::of(&object(true, &["other/x"]), "ours/y"), Step::Leave);
    }
}
