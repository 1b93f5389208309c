//! What a controller calls: a function, or a value with a method.

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

/// Makes one object true: looks at what is wanted, at what is there, and closes the gap.
///
/// Most controllers give an `async fn(Arc<K>, Context) -> Result<Action>`, which is one. Implement it for a struct when
/// reconciles share something, as a connection to another system:
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
///         println!("{:?} goes to {}", config.metadata.name, self.target);
///         Ok(Action::done())
///     }
/// }
///
/// let controller = Controller::new("mirror", Mirror { target: "elsewhere".into() });
/// ```
///
/// It is never called twice at a time for the same object, and may be called at any time, for no reason at all: it must
/// look at the state and not count calls. When it is cut short (a timeout, a lost lease, the end of the process), its
/// future is dropped at an `await`, and the object's turn comes again.
pub trait Reconciler<K: Object>: Send + Sync + 'static {
    /// Reconciles an object. It is as new as the cache knows, and never older than this controller's own last write of
    /// it.
    fn reconcile(&self, object: Arc<K>, ctx: Context) -> impl Future<Output = Result<Action>> + Send;
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

/// A reconciler of whichever kind, whose type is forgotten.
pub(crate) trait AnyReconciler: Send + Sync {
    /// The object must be of the reconciler's kind.
    fn reconcile(&self, object: Arc<dyn AnyObject>, ctx: Context) -> BoxFuture<'_, Result<Action>>;
}

/// Forgets the types of a reconciler.
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
}

/// What to do about an object that is gone.
pub(crate) type OnDeleted = Box<dyn Fn(ObjectKey, Context) -> BoxFuture<'static, Result<()>> + Send + Sync>;
