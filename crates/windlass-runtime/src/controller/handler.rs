//! Handling of one key: look up the object, manage its finalizer, reconcile.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use k8s_openapi::api::core::v1::ObjectReference;

use crate::{
    Error, Result,
    access::Origin,
    any_object::AnyObject,
    cache::AnyInformer,
    context::{
        Context, ContextError,
        any_kind::{AnyKind, KindInfo},
    },
    controller::{
        Action, OwnChanges,
        daemon::Daemons,
        error_hook::{self, AnyErrorHook},
        finalizing::{Finalizer, FinalizerStep},
        reconciler::{AnyReconciler, OnDeleted},
        worker::{Attempt, Handle},
    },
    events::EventType,
    key::ObjectKey,
    watch::UnreadableObject,
};

/// Interval at which missing objects are checked while their kind is not served. It is long, as there may be many.
const UNKNOWN_POLL: Duration = Duration::from_secs(60);

/// Time after the grace period of a daemon until its object is looked at again. Its end queues the object earlier.
const AFTER_GRACE: Duration = Duration::from_secs(1);

/// Type-erased: only the reconciler knows the type of its objects.
pub(crate) struct Handler {
    /// One informer per scope.
    pub(crate) primary: Vec<Arc<AnyInformer>>,
    pub(crate) kind_info: Arc<dyn KindInfo>,
    pub(crate) reconciler: Arc<dyn AnyReconciler>,
    pub(crate) finalizer: Option<Finalizer>,
    /// Whether the reconciler is called for objects that are being deleted.
    pub(crate) reconcile_terminating: bool,
    pub(crate) on_deleted: Option<OnDeleted>,
    pub(crate) on_error: Option<Arc<dyn AnyErrorHook>>,
    pub(crate) daemons: Option<Arc<Daemons>>,
    pub(crate) context: Context,
}

impl Handle for Handler {
    async fn handle(&self, key: &ObjectKey, attempt: &Attempt) -> Result<Action> {
        // Writes of an attempt that was dropped or got no response may still be in flight.
        self.context.settle(key).await?;
        let context = self.context.for_attempt(key, attempt);
        let outcome = self.attempt(key, context, attempt).await;
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

    fn minds_errors(&self) -> bool {
        self.on_error.is_some()
    }

    fn own_changes(&self, key: &ObjectKey, attempt: &Attempt) -> Option<OwnChanges> {
        attempt.record.own_changes(&*self.get(key)?)
    }

    async fn failed(&self, key: &ObjectKey, attempt: &Attempt, error: Arc<Error>) {
        let (Some(hook), Some(object)) = (&self.on_error, self.get(key)) else { return };
        let call = AssertUnwindSafe(hook.call(object, error, self.context.for_attempt(key, attempt))).catch_unwind();
        match tokio::time::timeout(error_hook::LIMIT, call).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::error!(%error, "the error hook failed"),
            Ok(Err(panic)) => {
                tracing::error!(panic = crate::panic::message(panic.as_ref()), "the error hook panicked");
            }
            Err(_) => tracing::error!(limit = ?error_hook::LIMIT, "the error hook timed out and was dropped"),
        }
    }
}

impl Handler {
    async fn attempt(&self, key: &ObjectKey, context: Context, attempt: &Attempt) -> Result<Action> {
        if let Some(object) = self.primary.iter().find_map(|informer| informer.unreadable(key)) {
            self.leave_unreadable(object, &context);
            return Ok(Action::done());
        }
        let object = self.get(key);
        if let Some(wait) = self.stop_daemon(key, object.as_deref()) {
            return Ok(wait);
        }
        if let Some(object) = &object {
            attempt.record.saw(object);
        }
        match (object, &self.finalizer) {
            (Some(object), Some(finalizer)) => self.keep(finalizer, object, context).await,
            (Some(object), None) if self.leaves(&*object) => Ok(Action::done()),
            (Some(object), None) => self.reconcile(object, context).await,
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

    /// Requests that the daemon of an object that is being deleted, or was, stops. Returns the action if it has not
    /// stopped yet; when it stops, the key is queued.
    fn stop_daemon(&self, key: &ObjectKey, object: Option<&dyn AnyObject>) -> Option<Action> {
        let daemons = self.daemons.as_ref()?;
        let stays = |object: &&dyn AnyObject| object.metadata().deletion_timestamp.is_none();
        let uid = object.filter(stays).and_then(|object| object.metadata().uid.as_deref());
        if object.is_none() && !self.primary.iter().all(|informer| informer.is_synced()) {
            // It is unknown whether the object exists.
            return None;
        }
        let grace = daemons.stop(key, uid).err()?;
        Some(Action::requeue_after(grace.saturating_add(AFTER_GRACE)))
    }

    /// Reconciles an object, whose daemon runs alongside.
    async fn reconcile(&self, object: Arc<dyn AnyObject>, mut context: Context) -> Result<Action> {
        if let Some(daemons) = &self.daemons
            && object.metadata().deletion_timestamp.is_none()
        {
            let report = daemons.keep(&ObjectKey::of_meta(object.metadata()), &object, &self.context);
            context = context.with_report(report);
        }
        self.reconciler.reconcile(object, context).await
    }

    /// Reports an object that exists but cannot be read. It is neither reconciled in an old state nor cleaned up.
    fn leave_unreadable(&self, object: UnreadableObject, context: &Context) {
        let UnreadableObject { key, uid, revision, problem, .. } = object;
        let resource = self.kind_info.resource();
        let about = ObjectReference {
            api_version: Some(resource.api_version),
            kind: Some(resource.kind),
            namespace: key.namespace().map(str::to_owned),
            name: Some(key.name().to_owned()),
            uid: Some(uid),
            resource_version: Some(revision.to_string()),
            ..ObjectReference::default()
        };
        let note = format!("the object cannot be read, so it is not reconciled: {problem}");
        context.recorder().record(&about, EventType::Warning, "Unreadable", "Reconcile", &note);
        tracing::warn!(%problem, "the object failed to deserialize; not reconciling it");
    }

    /// Returns whether an object is being deleted.
    pub(crate) fn is_terminating(&self, key: &ObjectKey) -> bool {
        self.get(key).is_some_and(|object| object.metadata().deletion_timestamp.is_some())
    }

    fn get(&self, key: &ObjectKey) -> Option<Arc<dyn AnyObject>> {
        self.primary.iter().find_map(|informer| informer.get(key))
    }

    /// Returns whether the object is left to the garbage collector.
    fn leaves(&self, object: &dyn AnyObject) -> bool {
        object.metadata().deletion_timestamp.is_some() && !self.reconcile_terminating
    }

    /// Reconciles an object that has, or should have, the controller's finalizer.
    async fn keep(&self, finalizer: &Finalizer, object: Arc<dyn AnyObject>, context: Context) -> Result<Action> {
        let kind = AnyKind::new(&context, self.kind_info.clone());
        match FinalizerStep::of(object.metadata(), &finalizer.name) {
            FinalizerStep::Leave if self.leaves(&*object) => Ok(Action::done()),
            FinalizerStep::Leave | FinalizerStep::Reconcile => self.reconcile(object, context.clone()).await,
            FinalizerStep::Add => match kind.add_finalizer(object, &finalizer.name).await {
                Ok(object) => self.reconcile(object, context.clone()).await,
                // The object is deleted or about to be. The controller has not started with it, and need not.
                Err(error) if error.is_not_found() || matches!(error, ContextError::Incomplete { .. }) => {
                    Ok(Action::done())
                }
                Err(error) => Err(error.into()),
            },
            FinalizerStep::CleanUp => {
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
