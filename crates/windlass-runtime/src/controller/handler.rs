//! Handling of one key: look up the object, manage its finalizer, reconcile.

use std::{sync::Arc, time::Duration};

use crate::{
    Result,
    access::Origin,
    any_object::AnyObject,
    cache::AnyInformer,
    context::{
        Context, ContextError,
        any_kind::{AnyKind, KindInfo},
    },
    controller::{
        Action,
        finalizing::{Finalizer, Step},
        reconciler::{AnyReconciler, OnDeleted},
        worker::Handle,
    },
    key::ObjectKey,
};

/// Interval at which missing objects are checked while their kind is not served. It is long, as there may be many.
const UNKNOWN_POLL: Duration = Duration::from_secs(60);

/// Type-erased: only the reconciler knows the type of its objects.
pub(crate) struct Handler {
    /// One informer per scope.
    pub(crate) primary: Vec<Arc<AnyInformer>>,
    pub(crate) kind_info: Arc<dyn KindInfo>,
    pub(crate) reconciler: Arc<dyn AnyReconciler>,
    pub(crate) finalizer: Option<Finalizer>,
    pub(crate) on_deleted: Option<OnDeleted>,
    pub(crate) context: Context,
}

impl Handle for Handler {
    async fn handle(&self, key: &ObjectKey) -> Result<Action> {
        // Writes of an attempt that was dropped or got no response may still be in flight.
        self.context.writes().settled(key).await;
        let context = self.context.for_key(key);
        let outcome = self.attempt(key, context).await;
        // Other denials have been reported by the context.
        if let Err(error) = &outcome
            && let Some(kube::Error::Api(status)) = error.downcast_ref()
        {
            let handles = self.context.handles();
            let origin = || Origin { controller: handles.controller.clone(), ..Origin::default() };
            handles.denials.report(status, origin);
        }
        outcome
    }
}

impl Handler {
    async fn attempt(&self, key: &ObjectKey, context: Context) -> Result<Action> {
        match (self.get(key), &self.finalizer) {
            (Some(object), Some(finalizer)) => self.keep(finalizer, object, context).await,
            (Some(object), None) => self.reconciler.reconcile(object, context).await,
            // It is unknown whether the object exists: it may return when the kind is served again.
            (None, _) if self.on_deleted.is_some() && !self.primary.iter().all(|informer| informer.is_synced()) => {
                Ok(Action::requeue_after(UNKNOWN_POLL))
            }
            (None, _) => {
                if let Some(on_deleted) = &self.on_deleted {
                    on_deleted(key.clone(), context).await?;
                }
                Ok(Action::done())
            }
        }
    }

    fn get(&self, key: &ObjectKey) -> Option<Arc<dyn AnyObject>> {
        self.primary.iter().find_map(|informer| informer.get(key))
    }

    /// Reconciles an object that has, or should have, the controller's finalizer.
    async fn keep(&self, finalizer: &Finalizer, object: Arc<dyn AnyObject>, context: Context) -> Result<Action> {
        let kind = AnyKind::new(&context, self.kind_info.clone());
        match Step::of(object.metadata(), &finalizer.name) {
            Step::Leave => Ok(Action::done()),
            Step::Reconcile => self.reconciler.reconcile(object, context.clone()).await,
            Step::Add => match kind.add_finalizer(object, &finalizer.name).await {
                Ok(object) => self.reconciler.reconcile(object, context.clone()).await,
                // The object is deleted or about to be. The controller has not started with it, and need not.
                Err(error) if error.is_not_found() || matches!(error, ContextError::Incomplete { .. }) => {
                    Ok(Action::done())
                }
                Err(error) => Err(error.into()),
            },
            Step::CleanUp => {
                let action = finalizer.cleanup.reconcile(object.clone(), context.clone()).await?;
                if action.delay().is_some() {
                    return Ok(action);
                }
                // The cleanup may have written the object itself, or moved it out of the controller's scope.
                let newest = self.get(&ObjectKey::of_meta(object.metadata())).unwrap_or_else(|| object.clone());
                if newest.metadata().uid == object.metadata().uid {
                    kind.remove_finalizer(newest, &finalizer.name).await?;
                }
                Ok(Action::done())
            }
        }
    }
}
