//! Reconcilers: functions, or values with a method.

use std::{future::Future, marker::PhantomData, sync::Arc};

use futures_util::future::BoxFuture;

use crate::{
    Result,
    any_object::{AnyObject, typed},
    context::Context,
    controller::Action,
    key::ObjectKey,
    object::Object,
};

/// Reconciles one object: compares its desired state with the observed state, and closes the gap.
///
/// Every `async fn(Arc<K>, Context) -> Result<Action>` is a reconciler. Implement the trait for a struct if reconciles
/// share something, such as a connection to another system:
///
/// ```
/// use std::sync::Arc;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_runtime::{Result, context::Context, controller::{Action, Controller, Reconciler}};
///
/// struct Mirror {
///     target: String,
/// }
///
/// impl Reconciler<ConfigMap> for Mirror {
///     async fn reconcile(&self, config: Arc<ConfigMap>, _ctx: Context) -> Result<Action> {
///         println!("mirroring {:?} to {}", config.metadata.name, self.target);
///         Ok(Action::done())
///     }
/// }
///
/// let controller = Controller::new("mirror", Mirror { target: "elsewhere".into() });
/// ```
///
/// Reconciles of the same object never run concurrently. A reconcile can run at any time, even if nothing has changed:
/// it must look at the state and not count calls. When it is cut short (by a timeout, a lost lease, or the end of the
/// process), its future is dropped at an `await`, and the object is reconciled again.
pub trait Reconciler<K: Object>: Send + Sync + 'static {
    /// Reconciles an object. Its state is as new as the cache, and never older than this controller's own last write to
    /// it.
    fn reconcile(&self, object: Arc<K>, ctx: Context) -> impl Future<Output = Result<Action>> + Send;

    /// Cleans up after an object that is being deleted, for controllers with
    /// [`cleans_up`](super::Controller::cleans_up). The object exists until this returns [`Action::done`], which is what
    /// it does by default.
    fn cleanup(&self, object: Arc<K>, ctx: Context) -> impl Future<Output = Result<Action>> + Send {
        let _ = (object, ctx);
        std::future::ready(Ok(Action::done()))
    }
}

impl<K, F, Answer> Reconciler<K> for F
where
    K: Object,
    F: Fn(Arc<K>, Context) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<Action>> + Send,
{
    fn reconcile(&self, object: Arc<K>, ctx: Context) -> impl Future<Output = Result<Action>> + Send {
        self(object, ctx)
    }
}

/// A type-erased [`Reconciler`].
pub(crate) trait AnyReconciler: Send + Sync {
    /// The object must be of the reconciler's kind.
    fn reconcile(&self, object: Arc<dyn AnyObject>, ctx: Context) -> BoxFuture<'_, Result<Action>>;

    /// See [`Reconciler::cleanup`].
    fn cleanup(&self, object: Arc<dyn AnyObject>, ctx: Context) -> BoxFuture<'_, Result<Action>>;
}

/// A reconciler whose method is the cleanup of another.
pub(crate) struct CleanupOf(pub(crate) Arc<dyn AnyReconciler>);

impl AnyReconciler for CleanupOf {
    fn reconcile(&self, object: Arc<dyn AnyObject>, ctx: Context) -> BoxFuture<'_, Result<Action>> {
        self.0.cleanup(object, ctx)
    }

    fn cleanup(&self, object: Arc<dyn AnyObject>, ctx: Context) -> BoxFuture<'_, Result<Action>> {
        self.0.cleanup(object, ctx)
    }
}

/// Erases the type of a reconciler.
pub(crate) fn any_reconciler<K: Object>(reconciler: impl Reconciler<K>) -> Arc<dyn AnyReconciler> {
    Arc::new(TypedReconciler { reconciler, kind: PhantomData })
}

struct TypedReconciler<K, R> {
    reconciler: R,
    kind: PhantomData<fn(K)>,
}

impl<K: Object, R: Reconciler<K>> AnyReconciler for TypedReconciler<K, R> {
    fn reconcile(&self, object: Arc<dyn AnyObject>, ctx: Context) -> BoxFuture<'_, Result<Action>> {
        Box::pin(self.reconciler.reconcile(typed(object), ctx))
    }

    fn cleanup(&self, object: Arc<dyn AnyObject>, ctx: Context) -> BoxFuture<'_, Result<Action>> {
        Box::pin(self.reconciler.cleanup(typed(object), ctx))
    }
}

/// A handler for deleted objects.
pub(crate) type OnDeleted = Box<dyn Fn(ObjectKey, Context) -> BoxFuture<'static, Result<()>> + Send + Sync>;
