//! Lifecycle of a controller: sync caches, then run workers while this process leads.

use std::{future::Future, sync::Arc, time::Duration};

use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use hashbrown::HashSet;
use kube::core::ApiResource;
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::{
    cache::AnyInformer,
    context::{Context, Reader, SharedHandles, WatchedKinds, any_kind::KindInfo},
    controller::{
        AnyController, Causes, Controller,
        daemon::{DaemonCounts, Daemons},
        handler::Handler,
        metrics::Counters,
        owners::OwnerKind,
        recent::RecentReconciles,
        source::{Connection, Opened, Opening, PendingSubscription, Resync, SourceContext, SourcePanics, Streams},
        watch::{AnyWatch, prioritized},
        worker::{Handle, Workers},
    },
    key::ObjectKey,
    lease::{Leadership, Shard},
    object::Object,
    queue::{Priority, Queue, QueueMetrics},
    shutdown::Shutdown,
};

/// Error that stopped a controller.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// A worker ended, because something outside of a reconcile panicked.
    #[error("a worker of controller {controller:?} ended")]
    WorkerEnded {
        /// Name of the controller.
        controller: Arc<str>,
        /// The panic of the worker.
        #[source]
        source: Option<tokio::task::JoinError>,
    },
    /// A source of keys panicked, so it would deliver no more keys.
    #[error("a source of controller {controller:?} panicked: {message}")]
    SourcePanicked {
        /// Name of the controller.
        controller: Arc<str>,
        /// The panic message.
        message: String,
    },
}

/// The state of a controller, for `/debug/state`.
pub(crate) struct ControllerView {
    pub(crate) name: Arc<str>,
    pub(crate) resource: ApiResource,
    pub(crate) workers: usize,
    pub(crate) queue: Queue<ObjectKey>,
    pub(crate) streams: Arc<Streams>,
    /// The last reconciles, if they are kept.
    pub(crate) recent: Option<Arc<RecentReconciles>>,
    daemons: Option<Arc<Daemons>>,
}

impl ControllerView {
    /// Returns the number of daemons, if the controller has any.
    pub(crate) fn daemons(&self) -> Option<DaemonCounts> {
        self.daemons.as_ref().map(|daemons| daemons.counts())
    }
}

/// A controller whose informers run.
pub(crate) struct Prepared {
    pub(super) source_context: SourceContext,
    pub(super) kind_info: Arc<dyn KindInfo>,
    pub(super) primary: Vec<Arc<AnyInformer>>,
    /// Subscriptions to the primary kind.
    pub(super) first: Vec<PendingSubscription>,
    pub(super) others: Vec<PendingSubscription>,
    tasks: Vec<BoxFuture<'static, ()>>,
    /// Sets of watches, which begin when workers run.
    pub(super) sets: Vec<Opening>,
    pub(super) daemons: Option<Arc<Daemons>>,
}

impl<K: Object> Controller<K> {
    /// Returns the name, as it appears in logs and metrics.
    pub fn name(&self) -> &str {
        self.any.name()
    }

    /// Runs the controller without an [operator](crate::operator::Operator) until `shutdown` drains.
    ///
    /// Informers start when this is called, within a tokio runtime; everything else happens while the future is polled.
    /// The controller waits until its caches are synced and this process leads (unless it [needs no
    /// leader](Self::without_leader)), then queues all objects and reconciles them. When leadership is lost, running
    /// reconciles are dropped and no more begin: a process leads at most once. When draining begins, running reconciles
    /// finish and no others start; when aborting begins, they are dropped.
    pub fn run(self, context: &Context, shutdown: Shutdown) -> BoxFuture<'static, Result<(), ControllerError>> {
        let mut any = self.any;
        any.prepare(context.handles());
        any.run(context.handles().clone(), shutdown)
    }

    pub(crate) fn into_any(self) -> AnyController {
        self.any
    }
}

impl AnyController {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the controller may work only in the process that leads.
    pub(crate) fn needs_leader(&self) -> bool {
        self.needs_leader
    }

    /// Narrows watches of all namespaces to these. Scopes that name a namespace, cluster-scoped kinds, and kinds that
    /// are known only at run time are unchanged. Must be called before [`prepare`](Self::prepare).
    pub(crate) fn restrict_to(&mut self, namespaces: &[String]) {
        self.primary.restrict_to(namespaces, &|_| false);
        self.sources.iter_mut().for_each(|source| source.restrict_to(namespaces, &|_| false));
        self.declared.restrict_to(namespaces);
    }

    /// Starts the informers, so that caches are warm when `run` begins to work. Must be called within a tokio runtime.
    /// A second call does nothing.
    pub(crate) fn prepare(&mut self, handles: &SharedHandles) {
        if self.prepared.is_none() {
            self.prepared = Some(self.connect(handles));
        }
    }

    /// Keeps the last reconciles, for [`view`](Self::view).
    pub(crate) fn keep_recent(&mut self) {
        self.recent.get_or_insert_default();
    }

    /// Returns a view of the state of the controller, which must be prepared.
    pub(crate) fn view(&self) -> Option<ControllerView> {
        let prepared = self.prepared.as_ref()?;
        let SourceContext { queue, streams, .. } = prepared.source_context.clone();
        let (resource, daemons) = (self.primary.kind_info.resource(), prepared.daemons.clone());
        let (name, recent) = (self.name.clone(), self.recent.clone());
        Some(ControllerView { name, resource, workers: self.concurrency, queue, streams, recent, daemons })
    }

    /// See [`Controller::run`].
    pub(crate) fn run(
        mut self,
        handles: SharedHandles,
        shutdown: Shutdown,
    ) -> BoxFuture<'static, Result<(), ControllerError>> {
        let span = tracing::info_span!("controller", controller = &*self.name);
        let life = async move {
            let prepared = match self.prepared.take() {
                Some(prepared) => prepared,
                None => self.connect(&handles),
            };
            self.supervise(prepared, handles, shutdown).await
        };
        Box::pin(life.instrument(span))
    }

    fn connect(&mut self, shared: &SharedHandles) -> Prepared {
        let watched_kinds = WatchedKinds::of(Reader::Controller);
        let primary = self.primary.open(&shared.caches, &watched_kinds);
        let mut sources = std::mem::take(&mut self.sources);
        for source in &mut sources {
            source.open(&shared.caches, &watched_kinds);
        }
        let queue = Queue::builder(&*self.name)
            .rate_limit(self.rate_limit.clone())
            .metrics(&shared.metrics.shared(QueueMetrics::register))
            .build();
        let queue_all = {
            let (queue, primary) = (queue.clone(), primary.clone());
            move || {
                for key in primary.iter().flat_map(|informer| informer.keys()) {
                    queue.add_caused(key, Priority::LOW, Causes::resync());
                }
            }
        };
        let owner = OwnerKind::of(&*self.primary.kind_info);
        let context = Context::new(self.handles(shared), watched_kinds);
        let source_context = SourceContext {
            queue,
            context,
            primary: primary.clone().into(),
            owner: Arc::new(owner),
            resync: Arc::new(Resync::new(queue_all)),
            streams: Arc::default(),
            panics: SourcePanics::default(),
        };
        let subscribe =
            |informer: &Arc<AnyInformer>| pending_subscription(informer.clone(), &self.primary, &source_context);
        let first = primary.iter().map(subscribe).collect();
        let kind_info = self.primary.kind_info.clone();
        let daemons = self.daemon.take().map(|daemon| {
            let SourceContext { queue, context, .. } = &source_context;
            Arc::new(Daemons::new(self.name.clone(), daemon, queue.clone(), context))
        });
        let (others, tasks, sets) = (Vec::new(), Vec::new(), Vec::new());
        let mut prepared = Prepared { source_context, kind_info, primary, first, others, tasks, sets, daemons };
        for source in sources {
            match source.connect(&prepared.source_context) {
                Connection::Task(task) => prepared.tasks.push(task),
                Connection::Set(opening) => prepared.sets.push(opening),
                Connection::Watch(subscriptions) => prepared.others.extend(subscriptions),
            }
        }
        prepared
    }

    /// Returns the handles of this controller's contexts: with its own client, field manager and reporter, and with the
    /// right to write in every process if it needs no leader.
    fn handles(&self, shared: &SharedHandles) -> SharedHandles {
        let own = self.field_manager.clone();
        let field_manager = own.unwrap_or_else(|| field_manager(&shared.field_manager, &self.name));
        let mut handles = SharedHandles { field_manager, controller: Some(self.name.clone()), ..shared.clone() };
        if let Some(client) = &self.client {
            handles = handles.with_client(client);
        }
        if let Some(reporter) = &self.reporter {
            handles.events = handles.events.reporting(reporter);
        }
        if !self.needs_leader {
            (handles.leadership, handles.shard) = (Leadership::always(), Shard::whole());
        }
        handles
    }

    async fn supervise(
        self,
        mut prepared: Prepared,
        handles: SharedHandles,
        shutdown: Shutdown,
    ) -> Result<(), ControllerError> {
        // Dropped at the end of this function, together with all tasks.
        let mut source_tasks = JoinSet::new();
        for task in std::mem::take(&mut prepared.tasks) {
            source_tasks.spawn(task.in_current_span().boxed());
        }
        let shard = prepared.source_context.context.handles().shard.clone();
        let resync = prepared.source_context.resync.clone();
        source_tasks.spawn(follow_shard(shard.clone(), resync.clone()).in_current_span().boxed());
        for other in &prepared.others {
            source_tasks.spawn(follow_served(other.informer(), resync.clone()).in_current_span().boxed());
        }
        for informer in prepared.primary.iter().cloned() {
            source_tasks
                .spawn(follow_unreadable(informer, prepared.source_context.queue.clone()).in_current_span().boxed());
        }
        if let Some(daemons) = &prepared.daemons {
            let leadership = self.needs_leader.then(|| handles.leadership.clone());
            source_tasks.spawn(daemons.clone().follow(leadership, shard, shutdown.clone()).in_current_span().boxed());
        }
        let (controller, panics) = (self.name.clone(), prepared.source_context.panics.clone());
        let panicked = async {
            tokio::select! {
                message = panicked(&mut source_tasks) => message,
                message = panics.caught() => message,
            }
        };
        tokio::select! {
            ended = self.works(prepared, handles, shutdown) => ended,
            message = panicked => Err(ControllerError::SourcePanicked { controller, message }),
        }
    }

    async fn works(
        self,
        prepared: Prepared,
        handles: SharedHandles,
        shutdown: Shutdown,
    ) -> Result<(), ControllerError> {
        let Prepared { source_context, kind_info, primary, first, others, sets, daemons, .. } = prepared;
        let synced = synced(&first, &others, self.absent_grace);
        if unless_draining(&shutdown, synced).await.is_none() {
            source_context.queue.close();
            return Ok(());
        }
        let workers = Workers {
            controller: self.name.clone(),
            queue: source_context.queue.clone(),
            handler: Handler {
                primary,
                kind_info,
                reconciler: self.reconciler,
                finalizer: self.finalizer,
                reconcile_terminating: self.reconcile_terminating,
                on_deleted: self.on_deleted,
                on_error: self.on_error,
                daemons: daemons.clone(),
                context: source_context.context.clone(),
            },
            timeout: self.timeout,
            counters: Counters::new(&handles.metrics, &self.name, self.concurrency),
            shard: source_context.context.handles().shard.clone(),
            recent: self.recent,
        };
        let gate = Gate { leadership: self.needs_leader.then_some(handles.leadership), shutdown };
        if unless_draining(&gate.shutdown, gate.acquired()).await.is_none() {
            source_context.queue.close();
            return Ok(());
        }
        // Not earlier: keys would pile up that no worker takes, among them those of deleted objects.
        let subscriptions: Vec<_> = first.into_iter().chain(others).map(PendingSubscription::subscribe).collect();
        source_context.resync.open();
        let sets: Vec<Opened> = sets.into_iter().map(|open| open()).collect();
        let ended = work(Arc::new(workers), self.concurrency, gate).await;
        if let Some(daemons) = &daemons {
            daemons.end().await;
        }
        source_context.context.writes().end(LAST_WRITES).await;
        drop((subscriptions, sets));
        ended
    }
}

/// Prepares the subscription that turns events of the primary kind into keys.
fn pending_subscription(
    informer: Arc<AnyInformer>,
    primary: &AnyWatch,
    source_context: &SourceContext,
) -> PendingSubscription {
    let (filter, queue, owner) = (primary.filter.clone(), source_context.queue.clone(), source_context.owner.clone());
    let chosen = primary.priority;
    PendingSubscription::new(informer, move |change| {
        let Some(object) = change.newest() else { return };
        owner.saw(object.metadata());
        if filter.as_ref().is_none_or(|filter| filter.lets_pass(change)) {
            let priority = prioritized(change, chosen);
            queue.add_caused(ObjectKey::of_meta(object.metadata()), priority, Causes::object(change));
        }
    })
}

/// Maximum time that a controller that ends waits for the writes of dropped reconciles, before another process may lead.
pub(super) const LAST_WRITES: Duration = Duration::from_secs(2);
/// Maximum length of a field manager's name, in bytes.
const LONGEST_MANAGER: usize = 128;

/// Returns the field manager of a controller. Each controller has its own: an apply removes the fields that the same
/// manager applied before and omits now, so two controllers with one manager would keep removing each other's
/// conditions.
fn field_manager(operator: &str, controller: &str) -> Arc<str> {
    let full = format!("{operator}/{controller}");
    let mut name: String =
        full.chars().map(|it| if it == ' ' || !(it.is_control() || it.is_whitespace()) { it } else { '_' }).collect();
    if name.len() > LONGEST_MANAGER {
        // Names that differ only at the end must stay different.
        let hash = full
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        let end = format!("-{hash:016x}");
        name.truncate(name.floor_char_boundary(LONGEST_MANAGER - end.len()));
        name.push_str(&end);
    }
    name.into()
}

/// Conditions under which workers run.
pub(crate) struct Gate {
    /// `None` if no leader is needed.
    pub(crate) leadership: Option<Leadership>,
    pub(crate) shutdown: Shutdown,
}

impl Gate {
    async fn acquired(&self) {
        if let Some(leadership) = &self.leadership {
            leadership.acquired().await;
        }
    }

    async fn lost(&self) {
        match &self.leadership {
            Some(leadership) => leadership.lost().await,
            None => std::future::pending().await,
        }
    }
}

/// Runs workers while the gate allows it.
pub(crate) async fn work<H: Handle>(
    workers: Arc<Workers<H>>,
    concurrency: usize,
    gate: Gate,
) -> Result<(), ControllerError> {
    let shutdown = &gate.shutdown;
    if unless_draining(shutdown, gate.acquired()).await.is_none() {
        workers.queue.close();
        return Ok(());
    }
    let mut running = JoinSet::new();
    for _ in 0..concurrency {
        running.spawn(workers.clone().work().in_current_span().boxed());
    }
    tracing::info!(workers = concurrency, "workers started");
    tokio::select! {
        biased;
        () = gate.lost() => {
            tracing::warn!("lost leadership; dropping running reconciles");
            workers.queue.close();
            running.shutdown().await;
            shutdown.draining().await;
            return Ok(());
        }
        () = shutdown.draining() => {}
        ended = running.join_next() => {
            let source = ended.and_then(Result::err);
            return Err(ControllerError::WorkerEnded { controller: workers.controller.clone(), source });
        }
    }
    workers.queue.close();
    tokio::select! {
        () = async { while running.join_next().await.is_some() {} } => {}
        () = shutdown.aborting() => {}
        () = gate.lost() => {}
    }
    running.shutdown().await;
    tracing::info!("workers stopped");
    Ok(())
}

/// Requests a resync when the keys of this process change: the objects it has gained have been waiting.
async fn follow_shard(mut shard: Shard, resync: Arc<Resync>) {
    loop {
        shard.changed().await;
        resync.request();
    }
}

/// Requests a resync when a watched kind becomes available: earlier reconciles have failed to read it.
pub(super) async fn follow_served(informer: Arc<AnyInformer>, resync: Arc<Resync>) {
    loop {
        informer.served_again().await;
        resync.request();
    }
}

/// Queues objects that cannot be read, so that they are reported, and those that were unreadable: they may have been
/// deleted, which no other event tells of an object that was never readable.
async fn follow_unreadable(informer: Arc<AnyInformer>, queue: Queue<ObjectKey>) {
    let (mut changes, mut before) = (0, HashSet::new());
    loop {
        let now = informer.unreadable_after(&mut changes).await;
        for key in before.symmetric_difference(&now) {
            queue.add(ObjectKey::clone(key), Priority::LOW);
        }
        before = now;
    }
}

/// Resolves with the message when a source of keys has panicked. A source that just ends has no more keys.
async fn panicked(source_tasks: &mut JoinSet<()>) -> String {
    while let Some(ended) = source_tasks.join_next().await {
        if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
            return crate::panic::message(panic.as_ref()).to_owned();
        }
    }
    std::future::pending().await
}

/// Waits until all informers have synced. An informer whose resource is not served delays the others only for the grace
/// period, unless it is the primary's: without its objects there is nothing to do.
async fn synced(primary: &[PendingSubscription], others: &[PendingSubscription], grace: Duration) {
    let others = others.iter().map(|other| async move {
        while tokio::time::timeout(grace, other.synced()).await.is_err() {
            if other.is_absent() {
                tracing::warn!(resource = %other.resource().plural, "resource is not served; starting without it");
                return;
            }
            tracing::info!(resource = %other.resource().plural, "waiting for the initial list");
        }
    });
    let primary = primary.iter().map(PendingSubscription::synced);
    tokio::join!(join_all(primary.map(FutureExt::boxed)), join_all(others.map(FutureExt::boxed)));
}

/// Returns the output of the future, or `None` if draining begins first.
async fn unless_draining<T>(shutdown: &Shutdown, answer: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = shutdown.draining() => None,
        answer = answer => Some(answer),
    }
}

#[cfg(test)]
mod tests;
