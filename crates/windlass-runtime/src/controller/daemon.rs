//! Daemons: a task per object, for as long as the object exists.

use std::{any::Any, fmt, future::Future, marker::PhantomData, ops::Deref, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    Result,
    any_object::{AnyObject, typed},
    context::Context,
    controller::Causes,
    key::ObjectKey,
    object::Object,
    queue::{Priority, Queue},
};

mod metrics;
mod running;

pub(crate) use running::{DaemonCounts, Daemons};

/// Time that a daemon gets to end, by default.
const GRACE: Duration = Duration::from_secs(30);
/// Backoff after the first failure.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// Longest backoff.
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);

/// A task per object of a controller's kind: it starts with the object's first reconcile, runs alongside the
/// reconciles, and ends with the object. For work that no event announces, such as following a connection to another
/// system.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_runtime::{Result, context::Context, controller::{Action, Controller, Daemon, DaemonContext}};
///
/// /// The number of polls, as the daemon has counted them.
/// struct Polls(u64);
///
/// async fn poll(config: Arc<ConfigMap>, daemon: DaemonContext<ConfigMap>) -> Result<()> {
///     for polls in 1.. {
///         daemon.report(Polls(polls));
///         tokio::select! {
///             () = tokio::time::sleep(Duration::from_secs(60)) => {}
///             () = daemon.stopping() => break,
///         }
///     }
///     Ok(())
/// }
///
/// async fn reconcile(_config: Arc<ConfigMap>, ctx: Context) -> Result<Action> {
///     if let Some(polls) = ctx.reported::<Polls>() {
///         println!("polled {} times", polls.0);
///     }
///     Ok(Action::done())
/// }
///
/// let controller = Controller::<ConfigMap>::new("poll", reconcile).daemon(Daemon::new(poll)).cleans_up("example.com/poll");
/// ```
///
/// # Guarantees
///
/// - **At most one per object** at any time, within a process by the controller, between processes by leases. An object
///   that is deleted and created again gets a new daemon when the old one has ended.
/// - **Failures are restarted**: an error or a panic starts the daemon again after a backoff of 1 s to 5 min, or the
///   [delay](crate::Error::retry_after) of the error. A daemon that returns `Ok` is done, as is one with a
///   [terminal](crate::Error::terminal) error: it starts again only with the process.
/// - **It ends before its object does**: when the object is being deleted, the daemon is asked to
///   [stop](DaemonContext::stopping) and gets a [grace period](Self::grace); then it is dropped. The cleanup of the
///   controller's [finalizer](super::Controller::finalizer) is called after that. Without a finalizer, the object may
///   be gone before its daemon has ended.
/// - **It ends with the process**: it is asked to stop when the process is, and dropped when the lease is lost or the
///   object belongs to another replica.
/// - **Uncertainty does not stop it**: a daemon keeps running while its object cannot be read, or its kind is not
///   served.
pub struct Daemon<K: Object> {
    any: AnyDaemon,
    kind: PhantomData<fn(K)>,
}

/// A type-erased [`Daemon`].
pub(crate) struct AnyDaemon {
    pub(crate) run: Run,
    pub(crate) grace: Duration,
    pub(crate) backoff: (Duration, Duration),
}

pub(crate) type Run = Box<dyn Fn(Life) -> BoxFuture<'static, Result<()>> + Send + Sync>;

impl<K: Object> Daemon<K> {
    /// Creates a daemon from a function, which is called with the object as it is then.
    pub fn new<F, R>(run: F) -> Self
    where
        F: Fn(Arc<K>, DaemonContext<K>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        let run = move |life: Life| -> BoxFuture<'static, _> {
            let mut seen = life.object.clone();
            // Another run may have seen earlier states.
            let object = typed(seen.borrow_and_update().clone());
            let context = DaemonContext { life, seen: Mutex::new(seen), kind: PhantomData };
            Box::pin(run(object, context))
        };
        let any = AnyDaemon { run: Box::new(run), grace: GRACE, backoff: (FIRST_BACKOFF, LONGEST_BACKOFF) };
        Self { any, kind: PhantomData }
    }

    /// Sets the time that a daemon gets to end once it is asked to stop; 30 seconds by default. When the process ends,
    /// its own grace period applies too.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.any.grace = grace;
        self
    }

    /// Sets the backoff after the first failure, which doubles with each failure up to `longest`. A daemon that has run
    /// for twice the longest backoff starts again at `first`.
    #[must_use]
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.any.backoff = (first, longest.max(first));
        self
    }

    pub(crate) fn into_any(self) -> AnyDaemon {
        self.any
    }
}

impl<K: Object> fmt::Debug for Daemon<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Daemon").field("grace", &self.any.grace).finish_non_exhaustive()
    }
}

/// The object of a daemon, its end, and, by dereference, a [`Context`] for reads and writes.
pub struct DaemonContext<K: Object> {
    life: Life,
    /// The state that `changed` has returned last.
    seen: Mutex<watch::Receiver<Arc<dyn AnyObject>>>,
    kind: PhantomData<fn(K)>,
}

/// State shared between a daemon and the code that runs it.
#[derive(Clone)]
pub(crate) struct Life {
    pub(crate) key: ObjectKey,
    pub(crate) context: Context,
    pub(crate) queue: Queue<ObjectKey>,
    pub(crate) object: watch::Receiver<Arc<dyn AnyObject>>,
    pub(crate) stop: CancellationToken,
    pub(crate) report: Arc<Mutex<Option<Report>>>,
    /// Consecutive failures before this run.
    pub(crate) failures: u32,
}

/// State that a daemon reports to reconciles.
pub(crate) type Report = Arc<dyn Any + Send + Sync>;

impl<K: Object> DaemonContext<K> {
    /// Returns the object as of its last reconcile.
    pub fn object(&self) -> Arc<K> {
        typed(self.life.object.borrow().clone())
    }

    /// Resolves with the object when it was reconciled in another state than the last one that this method has returned, or
    /// in which the daemon has started. Cancel safe.
    pub async fn changed(&self) -> Arc<K> {
        let mut receiver = self.seen.lock().clone();
        if receiver.changed().await.is_err() {
            // It is being stopped.
            std::future::pending::<()>().await;
        }
        let object = receiver.borrow_and_update().clone();
        *self.seen.lock() = receiver;
        typed(object)
    }

    /// Resolves when the daemon must end, within its grace period.
    pub async fn stopping(&self) {
        self.life.stop.cancelled().await;
    }

    /// Returns whether the daemon must end.
    pub fn is_stopping(&self) -> bool {
        self.life.stop.is_cancelled()
    }

    /// Stores the state of the daemon, and requests a reconcile, which reads it with
    /// [`Context::reported`]. The status of the object is best written there: failed reconciles are retried, and no two
    /// write at the same time.
    pub fn report<T: Send + Sync + 'static>(&self, state: T) {
        *self.life.report.lock() = Some(Arc::new(state));
        self.reconcile();
    }

    /// Requests a reconcile of the object.
    pub fn reconcile(&self) {
        self.life.queue.add_caused(self.life.key.clone(), Priority::NORMAL, Causes::source());
    }

    /// Returns the number of consecutive failures of the daemon before this run.
    pub fn failures(&self) -> u32 {
        self.life.failures
    }
}

impl<K: Object> Clone for DaemonContext<K> {
    fn clone(&self) -> Self {
        Self { life: self.life.clone(), seen: Mutex::new(self.seen.lock().clone()), kind: PhantomData }
    }
}

impl<K: Object> Deref for DaemonContext<K> {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.life.context
    }
}

impl<K: Object> fmt::Debug for DaemonContext<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DaemonContext").field("key", &self.life.key).finish_non_exhaustive()
    }
}
