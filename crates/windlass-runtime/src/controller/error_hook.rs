//! The hook for failed reconciles.

use std::{future::Future, marker::PhantomData, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;

use crate::{
    Error, Result,
    any_object::{AnyObject, typed},
    context::Context,
    controller::Controller,
    object::Object,
};

/// Time that a hook gets.
pub(super) const LIMIT: Duration = Duration::from_secs(30);

/// A type-erased hook.
pub(crate) trait AnyErrorHook: Send + Sync {
    /// The object must be of the controller's kind.
    fn call(&self, object: Arc<dyn AnyObject>, error: Arc<Error>, ctx: Context) -> BoxFuture<'_, Result<()>>;
}

struct TypedHook<K, F> {
    call: F,
    kind: PhantomData<fn(K)>,
}

impl<K, F, Answer> AnyErrorHook for TypedHook<K, F>
where
    K: Object,
    F: Fn(Arc<K>, Arc<Error>, Context) -> Answer + Send + Sync,
    Answer: Future<Output = Result<()>> + Send + 'static,
{
    fn call(&self, object: Arc<dyn AnyObject>, error: Arc<Error>, ctx: Context) -> BoxFuture<'_, Result<()>> {
        Box::pin((self.call)(typed(object), error, ctx))
    }
}

impl<K: Object> Controller<K> {
    /// Sets a function that is called when a reconcile or a cleanup has failed, panicked or timed out, for example to
    /// set a condition. It gets the object as it is now, the error, and the context of the failed attempt, whose
    /// [`attempts`](Context::attempts) are the failures before this one.
    ///
    /// It is not called for conflicts, which are no failures, nor for objects that do not exist any more. It has 30
    /// seconds; its own failure is logged. A status that it sets, or that the failed reconcile has set, does not shorten the
    /// backoff.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use k8s_openapi::api::core::v1::Node;
    /// use windlass_runtime::{Error, context::Context, controller::{Action, Controller}};
    ///
    /// let controller = Controller::<Node>::new("nodes", async |_node, _ctx| Ok(Action::done()))
    ///     .on_error(async |node: Arc<Node>, error: Arc<Error>, ctx: Context| {
    ///         if ctx.attempts() >= 3 {
    ///             ctx.event(&node).warning("Failing", &error.to_string());
    ///         }
    ///         Ok(())
    ///     });
    /// ```
    #[must_use]
    pub fn on_error<Answer>(
        mut self,
        call: impl Fn(Arc<K>, Arc<Error>, Context) -> Answer + Send + Sync + 'static,
    ) -> Self
    where
        Answer: Future<Output = Result<()>> + Send + 'static,
    {
        self.any.on_error = Some(Arc::new(TypedHook { call, kind: PhantomData }));
        self
    }
}
