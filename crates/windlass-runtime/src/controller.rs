//! Controllers: reconcilers, and the watches that trigger them.
//!
//! A [`Controller`] reconciles the objects of one kind. It watches them and the objects they depend on, turns every
//! event into the keys of the objects it affects, and calls the reconciler for each, until there is nothing left to do.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use k8s_openapi::api::{apps::v1::Deployment, batch::v1::CronJob, core::v1::ConfigMap};
//! use windlass_runtime::{Result, context::Context, controller::{Action, Controller}, key::ObjectKey};
//!
//! async fn reconcile(job: Arc<CronJob>, ctx: Context) -> Result<Action> {
//!     // Compare the desired with the observed state, and close the gap.
//!     Ok(Action::done())
//! }
//!
//! async fn cleanup(job: Arc<CronJob>, ctx: Context) -> Result<Action> {
//!     // Undo what garbage collection cannot. The object exists until this returns `done`.
//!     Ok(Action::done())
//! }
//!
//! let controller = Controller::<CronJob>::new("nightly", reconcile)
//!     .owns::<Deployment>()
//!     .watches::<ConfigMap>(|config, _ctx| vec![ObjectKey::of(config)])
//!     .finalizer("nightly.example.com/cleanup", cleanup)
//!     .concurrency(4)
//!     .timeout(Duration::from_secs(60));
//! ```
//!
//! # Guarantees
//!
//! - **Every object is reconciled** when the controller has started, and after each change to it or to objects that it
//!   [owns](Controller::owns) or [watches](Controller::watches), including changes and deletions that happened while
//!   the watch was interrupted. Changes in quick succession may be seen as one.
//! - **One reconcile per object at a time.** Different objects are reconciled concurrently, up to
//!   [`Controller::concurrency`].
//! - **New events first.** Objects of the initial list and resyncs wait until all new events have been handled.
//! - **A controller reads its own writes.** Reads see everything that the same process wrote through the context of a
//!   reconcile, and the next reconcile of that object waits until they do, even if the previous one timed out, or if
//!   the response of the API server was lost. (In a scope by [fields](Scope::fields) other than name and namespace, a
//!   new object becomes visible when the watch delivers it.)
//! - **Failures are retried** with backoff. Panics and [timeouts](Controller::timeout) count as failures and do not
//!   affect other reconciles. A [terminal](crate::Error::terminal) error is not retried until something changes.
//! - **Missing CRDs are waited for.** A kind that is not served yet, or no longer, is watched as soon as it is served;
//!   see [`Controller::absent_grace`].
//! - **Objects that are being deleted are left alone.** The reconciler is not called for an object with a deletion
//!   timestamp, unless the controller [asks for it](Controller::reconcile_terminating); the cleanup of a
//!   [finalizer](Controller::finalizer) is.
//! - **It works only while it may**: while this process leads, and, with sharding, on its own keys.

use std::{future::Future, marker::PhantomData, sync::Arc, time::Duration};

use kube::Client;

use crate::{Result, context::Context, key::ObjectKey, object::Object, queue::RateLimit, scope::Scope};

mod attempt_record;
mod causes;
mod daemon;
mod error_hook;
pub mod filter;
mod finalizing;
mod handler;
mod mapping;
mod metrics;
mod owners;
mod pass;
mod permissions;
mod recent;
mod reconciler;
mod run;
mod source;
pub mod sync;
mod watch;
mod watch_set;
mod worker;

use daemon::AnyDaemon;
use error_hook::AnyErrorHook;
use filter::AnyFilter;
use finalizing::Finalizer;
use permissions::DeclaredPermissions;
use recent::RecentReconciles;
use reconciler::{AnyReconciler, OnDeleted};
use run::Prepared;
use source::AnySource;
pub(crate) use watch::AnyWatch;

pub use causes::Cause;
pub(crate) use causes::{Causes, OwnChanges};
pub(crate) use daemon::Report;
pub use daemon::{Daemon, DaemonContext};
pub(crate) use pass::PassReport;
pub use reconciler::Reconciler;
pub use run::ControllerError;
pub(crate) use run::ControllerView;
pub use source::{Every, Source, Trigger};
pub use watch::Watch;
pub use watch_set::{NotSynced, WatchSet};
pub(crate) use worker::Attempt;

/// Next step after a successful reconcile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Action {
    requeue_after: Option<Duration>,
    jitter: f64,
}

impl Action {
    /// Do nothing until something changes.
    pub fn done() -> Self {
        Self::default()
    }

    /// Reconcile again after a delay, or earlier if something changes. A delay of zero counts as one millisecond. To
    /// retry soon because something is not ready yet, return an error instead: errors are retried with backoff.
    pub fn requeue_after(delay: Duration) -> Self {
        Self { requeue_after: Some(delay.max(Duration::from_millis(1))), jitter: 0.0 }
    }

    /// Stretches the delay at random by up to this part of it (0.1 for 10 %), so that objects which are reconciled
    /// together are not requeued together.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_runtime::controller::Action;
    ///
    /// let hourly = Action::requeue_after(Duration::from_secs(3600)).jitter(0.1);
    /// ```
    #[must_use]
    pub fn jitter(mut self, part: f64) -> Self {
        self.jitter = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
        self
    }

    /// Returns the delay with its jitter; `random` is from 0 to 1.
    pub(crate) fn spread_delay(&self, random: f64) -> Option<Duration> {
        let longer = |delay: Duration| {
            let more = Duration::try_from_secs_f64(delay.as_secs_f64() * self.jitter * random);
            delay.saturating_add(more.unwrap_or_default())
        };
        self.requeue_after.map(longer)
    }

    /// Returns the delay, if there is one, without jitter.
    pub fn delay(&self) -> Option<Duration> {
        self.requeue_after
    }
}

/// A controller of one kind, to be added to an [operator](crate::operator::Operator::controller) or [run](Self::run) by
/// hand.
pub struct Controller<K: Object> {
    any: AnyController,
    kind: PhantomData<fn(K)>,
}

/// A type-erased [`Controller`]: the code that runs controllers is compiled once, not per kind.
pub(crate) struct AnyController {
    name: Arc<str>,
    primary: AnyWatch,
    sources: Vec<Box<dyn AnySource>>,
    reconciler: Arc<dyn AnyReconciler>,
    finalizer: Option<Finalizer>,
    reconcile_terminating: bool,
    on_deleted: Option<OnDeleted>,
    on_error: Option<Arc<dyn AnyErrorHook>>,
    daemon: Option<AnyDaemon>,
    concurrency: usize,
    timeout: Option<Duration>,
    rate_limit: RateLimit,
    absent_grace: Duration,
    /// The client of its requests; that of the operator by default.
    client: Option<Client>,
    field_manager: Option<Arc<str>>,
    reporter: Option<Arc<str>>,
    declared: DeclaredPermissions,
    needs_leader: bool,
    /// The last reconciles, if something shows them.
    recent: Option<Arc<RecentReconciles>>,
    prepared: Option<Prepared>,
}

impl<K: Object<DynamicType: Default>> Controller<K> {
    /// Creates a controller for all objects of a kind. The name appears in logs, metrics and the field manager of
    /// writes, and should be unique within an operator.
    pub fn new(name: &str, reconciler: impl Reconciler<K>) -> Self {
        Self::of(name, Watch::new(), reconciler)
    }
}

impl<K: Object> Controller<K> {
    /// Creates a controller for the objects of a [`Watch`]: of a kind that is known at run time, of metadata only, or
    /// of an existing informer.
    ///
    /// ```
    /// use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
    /// use windlass_runtime::controller::{Action, Controller, Watch};
    ///
    /// let foo = ApiResource::from_gvk(&GroupVersionKind::gvk("samplecontroller.k8s.io", "v1alpha1", "Foo"));
    /// let controller = Controller::of("foo", Watch::<DynamicObject>::with(foo), async |_foo, _ctx| Ok(Action::done()));
    /// ```
    pub fn of(name: &str, primary: Watch<K>, reconciler: impl Reconciler<K>) -> Self {
        let any = AnyController::new(name, primary.into_any(), reconciler::any_reconciler(reconciler));
        Self { any, kind: PhantomData }
    }

    /// Restricts the controller to the objects of a scope.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.any.primary.set_scope(scope);
        self
    }

    /// Restricts the events of the controller's own kind. By default all events trigger a reconcile, including changes
    /// of the status. A controller that does not react to the status can use [`filter::ignoring_status`], so that its
    /// own status writes do not trigger it.
    #[must_use]
    pub fn filter(mut self, filter: filter::Filter<K>) -> Self {
        self.any.primary.add_filter(AnyFilter::of(filter));
        self
    }

    /// Declares that the controller creates objects of this kind: an event of one triggers a reconcile of its
    /// controlling owner. Owners are matched by group and kind, regardless of version. The generated role allows to
    /// create, change and delete them.
    #[must_use]
    pub fn owns<W: Object<DynamicType: Default>>(self) -> Self {
        self.source(Watch::<W>::new().owned())
    }

    /// Watches a kind that affects the objects whose keys the function returns. The function is called with the states
    /// before and after an event. It must be quick, and can read the controller's caches. The generated role allows to
    /// read the objects; see [`creates`](Self::creates) and [`deletes`](Self::deletes) for more.
    #[must_use]
    pub fn watches<W: Object<DynamicType: Default>>(
        self,
        map: impl Fn(&W, &Context) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        self.source(Watch::<W>::new().map(map))
    }

    /// Adds another source of keys: a [`Watch`] with a scope or a filter, a [`Trigger`], or a timer.
    #[must_use]
    pub fn source(mut self, source: impl Into<Source>) -> Self {
        self.any.sources.push(source.into().into_any());
        self
    }

    /// Reconciles all objects periodically; see [`Every`].
    #[must_use]
    pub fn every(self, period: Duration) -> Self {
        self.source(Every::new(period))
    }

    /// Adds a finalizer, so that an object is not removed before `cleanup` is done with it.
    ///
    /// The finalizer is added before an object is first reconciled. When the object is deleted, `cleanup` is called
    /// instead of the reconciler, as often as needed: the finalizer is removed only when it returns [`Action::done`]. A
    /// requeue or an error keeps it. Other finalizers are not touched.
    #[must_use]
    pub fn finalizer(mut self, name: &str, cleanup: impl Reconciler<K>) -> Self {
        self.any.finalizer = Some(Finalizer { name: name.into(), cleanup: reconciler::any_reconciler(cleanup) });
        self
    }

    /// Adds a finalizer whose cleanup is the method [`cleanup`](Reconciler::cleanup) of the reconciler; see
    /// [`finalizer`](Self::finalizer). For reconcilers that share something with their cleanup:
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
    ///
    ///     async fn cleanup(&self, config: Arc<ConfigMap>, _ctx: Context) -> Result<Action> {
    ///         println!("deleting {:?} from {}", config.metadata.name, self.target);
    ///         Ok(Action::done())
    ///     }
    /// }
    ///
    /// let controller = Controller::new("mirror", Mirror { target: "elsewhere".into() }).cleans_up("example.com/mirror");
    /// ```
    #[must_use]
    pub fn cleans_up(mut self, name: &str) -> Self {
        let cleanup = Arc::new(reconciler::CleanupOf(self.any.reconciler.clone()));
        self.any.finalizer = Some(Finalizer { name: name.into(), cleanup });
        self
    }

    /// Calls the reconciler also for objects that are being deleted, that is, with a deletion timestamp. (With a
    /// [finalizer](Self::finalizer), the cleanup is called instead while the object has it.)
    ///
    /// By default, it is not called for them. Their children are being garbage-collected, and a reconciler that applies
    /// them again would keep a foreground deletion from ending.
    #[must_use]
    pub fn reconcile_terminating(mut self) -> Self {
        self.any.reconcile_terminating = true;
        self
    }

    /// Sets a function that is called when an object of the queue does not exist: it was deleted, or never existed.
    /// Errors are retried.
    ///
    /// It is not called for objects that were deleted while this process did not run or did not lead, or while their
    /// keys moved from one replica to another; nor while the kind is not served, as the objects may return with it.
    /// Cleanup that must not be missed belongs in a [finalizer](Self::finalizer).
    #[must_use]
    pub fn on_deleted<Answer>(mut self, call: impl Fn(ObjectKey, Context) -> Answer + Send + Sync + 'static) -> Self
    where
        Answer: Future<Output = Result<()>> + Send + 'static,
    {
        self.any.on_deleted = Some(Box::new(move |key, ctx| Box::pin(call(key, ctx))));
        self
    }

    /// Runs a task per object alongside the reconciles, from the first reconcile of an object to its deletion; see
    /// [`Daemon`]. A second call replaces the first. With a [finalizer](Self::finalizer), an object is kept until its
    /// daemon has ended.
    #[must_use]
    pub fn daemon(mut self, daemon: Daemon<K>) -> Self {
        self.any.daemon = Some(daemon.into_any());
        self
    }

    /// Sets the number of objects that are reconciled concurrently; 1 by default, which is also the minimum.
    #[must_use]
    pub fn concurrency(mut self, workers: usize) -> Self {
        self.any.concurrency = workers.max(1);
        self
    }

    /// Sets the time after which a reconcile is dropped and counted as failed; ten minutes by default.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.any.timeout = Some(limit);
        self
    }

    /// Removes the time limit of reconciles.
    #[must_use]
    pub fn without_timeout(mut self) -> Self {
        self.any.timeout = None;
        self
    }

    /// Sets the backoff of failed reconciles.
    #[must_use]
    pub fn rate_limit(mut self, limit: RateLimit) -> Self {
        self.any.rate_limit = limit;
        self
    }

    /// Sets how long to wait at startup for an owned or watched kind that is not served; ten seconds by default. After
    /// that, the controller logs a warning, starts without it, and watches it as soon as it is served. (It always waits
    /// for its own kind.)
    #[must_use]
    pub fn absent_grace(mut self, grace: Duration) -> Self {
        self.any.absent_grace = grace;
        self
    }

    /// Sets the client for writes and events of the controller, for example with an identity of its own. The default is
    /// the client of the operator, which informers always use.
    #[must_use]
    pub fn client(mut self, client: Client) -> Self {
        self.any.client = Some(client);
        self
    }

    /// Sets the field manager of the controller's writes; OPERATOR/CONTROLLER by default. Controllers that share a
    /// field manager must not apply the same objects: each would remove the fields that the other applied.
    #[must_use]
    pub fn field_manager(mut self, name: &str) -> Self {
        self.any.field_manager = Some(name.into());
        self
    }

    /// Sets the reporting component of events; the operator by default.
    #[must_use]
    pub fn reporter(mut self, name: &str) -> Self {
        self.any.reporter = Some(name.into());
        self
    }

    /// Lets the controller work in every replica and on all objects, regardless of leader election and sharding.
    #[must_use]
    pub fn without_leader(mut self) -> Self {
        self.any.needs_leader = false;
        self
    }
}

impl AnyController {
    /// Sets the client, unless the controller has one.
    pub(crate) fn default_client(&mut self, client: &Client) {
        self.client.get_or_insert_with(|| client.clone());
    }

    fn new(name: &str, primary: AnyWatch, reconciler: Arc<dyn AnyReconciler>) -> Self {
        Self {
            name: name.into(),
            primary,
            sources: Vec::new(),
            reconciler,
            finalizer: None,
            reconcile_terminating: false,
            on_deleted: None,
            on_error: None,
            daemon: None,
            concurrency: 1,
            timeout: Some(Duration::from_secs(600)),
            rate_limit: RateLimit::default(),
            absent_grace: Duration::from_secs(10),
            client: None,
            field_manager: None,
            reporter: None,
            declared: DeclaredPermissions::default(),
            needs_leader: true,
            recent: None,
            prepared: None,
        }
    }
}
