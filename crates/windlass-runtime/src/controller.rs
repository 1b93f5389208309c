//! From events to keys to reconciles.
//!
//! A [`Controller`] keeps objects of one kind true. It watches them and whatever they depend on, turns every event into
//! the key of an object that may have to change, and calls a function with that object, again and again until it has
//! nothing left to do.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use k8s_openapi::api::{apps::v1::Deployment, batch::v1::CronJob, core::v1::ConfigMap};
//! use windlass_runtime::{Result, context::Context, controller::{Action, Controller}, key::ObjectKey};
//!
//! async fn reconcile(job: Arc<CronJob>, ctx: Context) -> Result<Action> {
//!     // Look at `job`, at what is there, and close the gap.
//!     Ok(Action::done())
//! }
//!
//! async fn cleanup(job: Arc<CronJob>, ctx: Context) -> Result<Action> {
//!     // Undo what garbage collection cannot. The object stays until this answers `done`.
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
//! # What it promises
//!
//! - **Every object is looked at** after the controller has started, after each change of it or of what it
//!   [owns](Controller::owns) or [watches](Controller::watches), including changes and deletions that happened while
//!   the watch was down. Changes in quick succession may be seen as one.
//! - **One at a time.** Two reconciles of the same object never run at once; different objects do, as many as
//!   [`Controller::concurrency`] says.
//! - **News first.** What was there at the start, and resyncs, wait until news are dealt with.
//! - **Reads see its own writes.** What was written through the context of a reconcile is what is read from then on, in
//!   the same process, and the next reconcile of that object waits until it is: also if the one before took too long,
//!   and if the server's answer got lost. (In a scope by [fields](Scope::fields) other than name and namespace, an
//!   object that is new is read when the watch has brought it.)
//! - **Failures are tried again**, later each time; panics and [timeouts](Controller::timeout) are failures and harm
//!   nobody else. A [terminal](crate::Error::terminal) error is not tried again until something changes.
//! - **It waits for definitions.** A kind that is not served yet, or not any more, is followed when it comes; see
//!   [`Controller::absent_grace`].
//! - **It works only where it may**: while this process leads, and on keys that are its own where replicas share them.

use std::{future::Future, marker::PhantomData, sync::Arc, time::Duration};

use crate::{Result, context::Context, key::ObjectKey, object::Object, queue::RateLimit, scope::Scope};

pub mod filter;
mod finalizing;
mod handler;
mod metrics;
mod owners;
mod reconciler;
mod run;
mod source;
pub mod sync;
mod watch;
mod worker;

use filter::AnyFilter;
use finalizing::Finalizer;
use reconciler::{AnyReconciler, OnDeleted};
use run::Prepared;
use source::AnySource;
use watch::AnyWatch;

pub use reconciler::Reconciler;
pub use run::ControllerError;
pub use source::{Every, Source, Trigger};
pub use watch::Watch;

/// What to do after a reconcile that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    requeue_after: Option<Duration>,
}

impl Action {
    /// Nothing, until something changes.
    pub fn done() -> Self {
        Self::default()
    }

    /// Reconcile again after this time, or earlier if something changes. No time at all counts as a millisecond: who
    /// needs to try again soon because something is not ready yet is better off with an error, which is tried again
    /// later each time.
    pub fn requeue_after(delay: Duration) -> Self {
        Self { requeue_after: Some(delay.max(Duration::from_millis(1))) }
    }

    /// The delay, if there is one.
    pub fn delay(&self) -> Option<Duration> {
        self.requeue_after
    }
}

/// A controller of one kind, to be given to an operator (or [run](Self::run) by hand).
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
    on_deleted: Option<OnDeleted>,
    concurrency: usize,
    timeout: Option<Duration>,
    rate_limit: RateLimit,
    absent_grace: Duration,
    field_manager: Option<Arc<str>>,
    reporter: Option<Arc<str>>,
    needs_leader: bool,
    prepared: Option<Prepared>,
}

impl<K: Object<DynamicType: Default>> Controller<K> {
    /// A controller of all objects of a kind. The name is for logs, metrics and the field manager of writes, and should
    /// be unique within an operator.
    pub fn new(name: &str, reconciler: impl Reconciler<K>) -> Self {
        Self::of(name, Watch::new(), reconciler)
    }
}

impl<K: Object> Controller<K> {
    /// A controller of the objects that a watch describes: of a kind known at run time, of metadata alone, of an
    /// informer's objects.
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

    /// Only objects of this scope.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.any.primary.set_scope(scope);
        self
    }

    /// Only events of the controller's own kind that pass. By default all do, so that a controller that goes on because
    /// of a status (its own or a pod's) is called; [`filter::ignoring_status`] saves those that do not from being
    /// called by their own writes.
    #[must_use]
    pub fn filter(mut self, filter: filter::Filter<K>) -> Self {
        self.any.primary.add_filter(AnyFilter::of(filter));
        self
    }

    /// Objects of this kind are made by the controller: an event of one asks for a reconcile of the owner that controls
    /// it. Owners are known by group and kind, whatever the version.
    #[must_use]
    pub fn owns<W: Object<DynamicType: Default>>(self) -> Self {
        self.source(Watch::<W>::new().owned())
    }

    /// Objects of this kind matter to the objects whose keys the function gives: it is called with the state before an
    /// event and with the state after it. The function must be quick; it can read the controller's caches.
    #[must_use]
    pub fn watches<W: Object<DynamicType: Default>>(
        self,
        map: impl Fn(&W, &Context) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        self.source(Watch::<W>::new().map(map))
    }

    /// Another source of keys: a [`Watch`] with a scope or a filter, a [`Trigger`], a timer.
    #[must_use]
    pub fn source(mut self, source: impl Into<Source>) -> Self {
        self.any.sources.push(source.into().into_any());
        self
    }

    /// Looks at all objects once in a period, as [`Every`] does.
    #[must_use]
    pub fn every(self, period: Duration) -> Self {
        self.source(Every::new(period))
    }

    /// Keeps objects from vanishing until `cleanup` is done with them.
    ///
    /// The finalizer is added before an object is first reconciled. When somebody deletes the object, `cleanup` is
    /// called in place of the reconciler, as often as it takes: the finalizer is removed only when it answers
    /// [`Action::done`]. A requeue or an error keeps it. Finalizers of others are left alone.
    #[must_use]
    pub fn finalizer(mut self, name: &str, cleanup: impl Reconciler<K>) -> Self {
        self.any.finalizer = Some(Finalizer { name: name.into(), cleanup: reconciler::any_reconciler(cleanup) });
        self
    }

    /// Called when an object that was asked for is not there: it was deleted, or never was. An error is tried again.
    ///
    /// It is not called for objects that went while this process did not run or did not lead, or in the moment in which
    /// their keys went from one replica to another; nor while the kind is not served, as the objects may be back when
    /// it is. What must not be missed belongs into a [finalizer](Self::finalizer).
    #[must_use]
    pub fn on_deleted<Answer>(mut self, call: impl Fn(ObjectKey, Context) -> Answer + Send + Sync + 'static) -> Self
    where
        Answer: Future<Output = Result<()>> + Send + 'static,
    {
        self.any.on_deleted = Some(Box::new(move |key, ctx| Box::pin(call(key, ctx))));
        self
    }

    /// How many objects may be reconciled at a time; 1 by default, and at least.
    #[must_use]
    pub fn concurrency(mut self, workers: usize) -> Self {
        self.any.concurrency = workers.max(1);
        self
    }

    /// How long a reconcile may take before it is dropped and counted as failed; ten minutes by default.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.any.timeout = Some(limit);
        self
    }

    /// Lets reconciles take as long as they like.
    #[must_use]
    pub fn without_timeout(mut self) -> Self {
        self.any.timeout = None;
        self
    }

    /// How failed reconciles are spread over time.
    #[must_use]
    pub fn rate_limit(mut self, limit: RateLimit) -> Self {
        self.any.rate_limit = limit;
        self
    }

    /// How long to wait, at the start, for a kind that is owned or watched and not served; ten seconds by default.
    /// After that the controller starts without it, says so in the log, and follows when it comes. (The controller's
    /// own kind is waited for as long as it takes.)
    #[must_use]
    pub fn absent_grace(mut self, grace: Duration) -> Self {
        self.any.absent_grace = grace;
        self
    }

    /// The field manager of the controller's writes, in place of one made of the names of operator and controller.
    /// Controllers that share one must not apply to the same objects: each would take back what the other applied.
    #[must_use]
    pub fn field_manager(mut self, name: &str) -> Self {
        self.any.field_manager = Some(name.into());
        self
    }

    /// Whom events name as their source, in place of the operator.
    #[must_use]
    pub fn reporter(mut self, name: &str) -> Self {
        self.any.reporter = Some(name.into());
        self
    }

    /// Lets the controller work in every process and on all objects, not only in the one that leads or on its share.
    #[must_use]
    pub fn without_leader(mut self) -> Self {
        self.any.needs_leader = false;
        self
    }
}

impl AnyController {
    fn new(name: &str, primary: AnyWatch, reconciler: Arc<dyn AnyReconciler>) -> Self {
        Self {
            name: name.into(),
            primary,
            sources: Vec::new(),
            reconciler,
            finalizer: None,
            on_deleted: None,
            concurrency: 1,
            timeout: Some(Duration::from_secs(600)),
            rate_limit: RateLimit::default(),
            absent_grace: Duration::from_secs(10),
            field_manager: None,
            reporter: None,
            needs_leader: true,
            prepared: None,
        }
    }
}
