//! What is done about a key: look it up, keep its finalizer, reconcile.

use std::{sync::Arc, time::Duration};

use crate::{
    Result,
    cache::Informer,
    context::{Context, ContextError},
    controller::{
        Action,
        finalizing::{Finalizer, Step},
        reconciler::{AnyReconciler, OnDeleted},
        worker::Handle,
    },
    key::ObjectKey,
    object::Object,
};

/// How often it is looked at whether an object is gone while its kind is not served: seldom, as there may be many.
const UNKNOWN_POLL: Duration = Duration::from_secs(60);

pub(crate) struct Handler<K: Object> {
    /// One for each scope.
    pub(crate) primary: Vec<Informer<K>>,
    pub(crate) dynamic: K::DynamicType,
    pub(crate) reconciler: Arc<dyn AnyReconciler<K>>,
    pub(crate) finalizer: Option<Finalizer<K>>,
    pub(crate) on_deleted: Option<OnDeleted>,
    pub(crate) context: Context,
}

impl<K: Object> Handle for Handler<K> {
    async fn handle(&self, key: &ObjectKey) -> Result<Action> {
        let context = self.context.for_key(key);
        match (self.get(key), &self.finalizer) {
            (Some(object), Some(finalizer)) => self.keep(finalizer, object, context).await,
            (Some(object), None) => self.reconciler.reconcile_boxed(object, context).await,
            // Nobody knows what is there: objects may be back when the kind is.
            (None, _) if self.on_deleted.is_some() && !self.primary.iter().all(Informer::is_synced) => {
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
}

impl<K: Object> Handler<K> {
    fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.primary.iter().find_map(|informer| informer.get(key))
    }

    /// Reconciles an object that has, or should have, the controller's finalizer.
    async fn keep(&self, finalizer: &Finalizer<K>, object: Arc<K>, context: Context) -> Result<Action> {
        let kind = context.kind_with::<K>(&self.dynamic);
        match Step::of(&*object, &finalizer.name) {
            Step::Leave => Ok(Action::done()),
            Step::Reconcile => self.reconciler.reconcile_boxed(object, context.clone()).await,
            Step::Add => match kind.add_finalizer(&object, &finalizer.name).await {
                Ok(object) => self.reconciler.reconcile_boxed(object, context.clone()).await,
                // It is gone, or about to be: this controller has not begun with it, and need not.
                Err(error) if error.is_not_found() || matches!(error, ContextError::Incomplete { .. }) => {
                    Ok(Action::done())
                }
                Err(error) => Err(error.into()),
            },
            Step::CleanUp => {
                let action = finalizer.cleanup.reconcile_boxed(object.clone(), context.clone()).await?;
                if action.delay().is_some() {
                    return Ok(action);
                }
                // The cleanup may have written the object itself.
                let newest = self.get(&ObjectKey::of(&*object));
                if let Some(newest) = newest.filter(|newest| newest.meta().uid == object.meta().uid) {
                    kind.remove_finalizer(&newest, &finalizer.name).await?;
                }
                Ok(Action::done())
            }
        }
    }
}
