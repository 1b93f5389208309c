//! The life of a controller: caches get warm, then workers run while this process may.

use std::{future::Future, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, join_all};
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::{
    cache::AnyInformer,
    context::{Context, Parts, Wired, any::Typing},
    controller::{
        Controller, Plan,
        handler::Handler,
        metrics::Counters,
        owners::OwnerKind,
        source::{Connected, Connection, Everything, Wiring},
        watch::Watched,
        worker::{Handle, Workers},
    },
    key::ObjectKey,
    lease::{Leadership, Shard},
    manifests::Permission,
    object::Object,
    queue::{Priority, Queue, QueueMetrics},
    shutdown::Shutdown,
};

/// Why a controller ended although nobody asked it to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// A worker has ended: something outside of a reconcile panicked.
    #[error("a worker of the controller {controller:?} has ended")]
    WorkerEnded {
        /// The controller's name.
        controller: Arc<str>,
        /// How it ended.
        #[source]
        source: Option<tokio::task::JoinError>,
    },
    /// A source of keys panicked: nothing more would come from it.
    #[error("a source of the controller {controller:?} panicked: {message}")]
    SourcePanicked {
        /// The controller's name.
        controller: Arc<str>,
        /// What it said.
        message: String,
    },
}

/// A controller of whatever kind, as an operator runs it.
pub trait Runnable: Send + 'static {
    /// Its name, in logs and metrics.
    fn name(&self) -> &str;

    /// What its wiring needs of the API server.
    fn permissions(&self) -> Vec<Permission>;

    /// Narrows what is watched in all namespaces to these; scopes that name a namespace, kinds of the cluster, and
    /// kinds that are known only at run time stay as they are. Must be called before [`prepare`](Self::prepare).
    fn within(&mut self, namespaces: &[String]) {
        let _ = namespaces;
    }

    /// Starts informers, so that caches are warm when `run` begins to work. Must be called within a tokio runtime. A
    /// second call does nothing.
    fn prepare(&mut self, parts: &Parts);

    /// Works until asked to end: prepares if that has not been done, waits until its caches have their first state and
    /// this process leads (if it [must](Self::needs_leader)), then queues all objects and reconciles. When leadership
    /// is lost, reconciles are dropped and nothing more is done: a process leads once. When draining begins, reconciles
    /// that run are finished and no others begun; when aborting begins, they are dropped.
    fn run(self: Box<Self>, parts: Parts, shutdown: Shutdown) -> BoxFuture<'static, Result<(), ControllerError>>;

    /// Whether it may work only in the process that leads.
    fn needs_leader(&self) -> bool;
}

/// A controller whose informers run.
pub(crate) struct Prepared {
    wiring: Wiring,
    typing: Arc<dyn Typing>,
    primary: Vec<Arc<AnyInformer>>,
    /// Of the primary.
    first: Vec<Connected>,
    others: Vec<Connected>,
    tasks: Vec<BoxFuture<'static, ()>>,
}

impl<K: Object> Runnable for Controller<K> {
    fn name(&self) -> &str {
        &self.plan.name
    }

    fn permissions(&self) -> Vec<Permission> {
        self.plan.permissions(self.primary.watched())
    }

    fn within(&mut self, namespaces: &[String]) {
        self.primary.watched_mut().within(namespaces);
        self.plan.feeds.iter_mut().for_each(|feed| feed.within(namespaces));
    }

    fn prepare(&mut self, parts: &Parts) {
        self.plan.prepare(self.primary.watched(), parts);
    }

    fn run(self: Box<Self>, parts: Parts, shutdown: Shutdown) -> BoxFuture<'static, Result<(), ControllerError>> {
        let Self { primary, plan } = *self;
        plan.run(primary.into_watched(), parts, shutdown)
    }

    fn needs_leader(&self) -> bool {
        self.plan.needs_leader
    }
}

impl Plan {
    fn permissions(&self, primary: &Watched) -> Vec<Permission> {
        let mut permissions = primary.permissions("", &["get", "list", "watch", "update", "patch"]);
        permissions.extend(primary.permissions("/status", &["get", "update", "patch"]));
        permissions.extend(primary.permissions("/finalizers", &["update"]));
        permissions.extend(self.feeds.iter().flat_map(|feed| feed.permissions()));
        permissions
    }

    fn prepare(&mut self, primary: &Watched, parts: &Parts) {
        if self.prepared.is_none() {
            self.prepared = Some(self.connect(primary, parts));
        }
    }

    fn run(
        mut self,
        primary: Watched,
        parts: Parts,
        shutdown: Shutdown,
    ) -> BoxFuture<'static, Result<(), ControllerError>> {
        let span = tracing::info_span!("controller", controller = &*self.name);
        let life = async move {
            let prepared = match self.prepared.take() {
                Some(prepared) => prepared,
                None => self.connect(&primary, &parts),
            };
            self.live(prepared, parts, shutdown).await
        };
        Box::pin(life.instrument(span))
    }

    fn connect(&mut self, watched: &Watched, parts: &Parts) -> Prepared {
        let wired = Wired::new();
        let primary = watched.open(&parts.caches, &wired);
        let mut feeds = std::mem::take(&mut self.feeds);
        for feed in &mut feeds {
            feed.open(&parts.caches, &wired);
        }
        let queue = Queue::builder(&*self.name)
            .rate_limit(self.rate_limit.clone())
            .metrics(&parts.metrics.shared(QueueMetrics::register))
            .build();
        let everything = {
            let (queue, primary) = (queue.clone(), primary.clone());
            move || {
                for key in primary.iter().flat_map(|informer| informer.keys()) {
                    queue.add(key, Priority::LOW);
                }
            }
        };
        let owner = OwnerKind::of(&*watched.typing);
        let context = Context::new(self.parts(parts), wired);
        let wiring =
            Wiring { queue, context, owner: Arc::new(owner), everything: Arc::new(Everything::new(everything)) };
        let first = primary.iter().map(|informer| connected(informer.clone(), watched, &wiring)).collect();
        let typing = watched.typing.clone();
        let mut prepared = Prepared { wiring, typing, primary, first, others: Vec::new(), tasks: Vec::new() };
        for feed in feeds {
            match feed.connect(&prepared.wiring) {
                Connection::Task(task) => prepared.tasks.push(task),
                Connection::Watch(connected) => prepared.others.extend(connected),
            }
        }
        prepared
    }

    /// What its contexts write with: in its own name, and in every process if it may work there.
    fn parts(&self, shared: &Parts) -> Parts {
        let own = self.field_manager.clone();
        let field_manager = own.unwrap_or_else(|| field_manager(&shared.field_manager, &self.name));
        let mut parts = Parts { field_manager, ..shared.clone() };
        if let Some(reporter) = &self.reporter {
            parts.events = shared.events.reporting(reporter);
        }
        if !self.needs_leader {
            (parts.leadership, parts.shard) = (Leadership::always(), Shard::whole());
        }
        parts
    }

    async fn live(self, mut prepared: Prepared, parts: Parts, shutdown: Shutdown) -> Result<(), ControllerError> {
        // Dropped, and with it all tasks, when this function ends.
        let mut feeding = JoinSet::new();
        for task in std::mem::take(&mut prepared.tasks) {
            feeding.spawn(task.in_current_span());
        }
        let shard = prepared.wiring.context.parts().shard.clone();
        feeding.spawn(follow_shard(shard, prepared.wiring.everything.clone()).in_current_span());
        let controller = self.name.clone();
        tokio::select! {
            ended = self.works(prepared, parts, shutdown) => ended,
            message = panicked(&mut feeding) => Err(ControllerError::SourcePanicked { controller, message }),
        }
    }

    async fn works(self, prepared: Prepared, parts: Parts, shutdown: Shutdown) -> Result<(), ControllerError> {
        let Prepared { wiring, typing, primary, first, others, .. } = prepared;
        let synced = synced(&first, &others, self.absent_grace);
        if unless_draining(&shutdown, synced).await.is_none() {
            wiring.queue.close();
            return Ok(());
        }
        let workers = Workers {
            controller: self.name.clone(),
            queue: wiring.queue.clone(),
            handler: Handler {
                primary,
                typing,
                reconciler: self.reconciler,
                finalizer: self.finalizer,
                on_deleted: self.on_deleted,
                context: wiring.context.clone(),
            },
            timeout: self.timeout,
            counters: Counters::new(&parts.metrics, &self.name, self.concurrency),
            shard: wiring.context.parts().shard.clone(),
        };
        let gate = Gate { leadership: self.needs_leader.then_some(parts.leadership), shutdown };
        if unless_draining(&gate.shutdown, gate.acquired()).await.is_none() {
            wiring.queue.close();
            return Ok(());
        }
        // Not before: keys that nobody takes would pile up, those of objects that are gone among them.
        let subscriptions: Vec<_> = first.into_iter().chain(others).map(Connected::subscribe).collect();
        wiring.everything.open();
        let ended = work(Arc::new(workers), self.concurrency, gate).await;
        wiring.context.writes().end(LAST_WRITES).await;
        drop(subscriptions);
        ended
    }
}

/// Events of the primary are to become keys.
fn connected(informer: Arc<AnyInformer>, primary: &Watched, wiring: &Wiring) -> Connected {
    let (filter, queue, owner) = (primary.filter.clone(), wiring.queue.clone(), wiring.owner.clone());
    Connected::new(informer, move |change| {
        let Some(object) = change.newest() else { return };
        owner.saw(object.metadata());
        if filter.as_ref().is_none_or(|filter| filter.lets_pass(change)) {
            queue.add(ObjectKey::of_meta(object.metadata()), change.priority());
        }
    })
}

/// How long writes of reconciles that were dropped may take when a controller ends, before anybody else may lead.
const LAST_WRITES: Duration = Duration::from_secs(2);
/// The longest name of a field manager that servers take, in bytes.
const LONGEST_MANAGER: usize = 128;

/// The field manager of a controller. Each has its own: an apply takes back what the same manager applied before and
/// now does not, so two that shared one would take back each other's conditions for ever.
fn field_manager(operator: &str, controller: &str) -> Arc<str> {
    let full = format!("{operator}/{controller}");
    let mut name: String =
        full.chars().map(|it| if it == ' ' || !(it.is_control() || it.is_whitespace()) { it } else { '_' }).collect();
    if name.len() > LONGEST_MANAGER {
        // Two that differ only in their ends stay two.
        let hash = full
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        let end = format!("-{hash:016x}");
        name.truncate(name.floor_char_boundary(LONGEST_MANAGER - end.len()));
        name.push_str(&end);
    }
    name.into()
}

/// When workers may run.
pub(crate) struct Gate {
    /// None for those that need no leader.
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

/// Runs workers while they may.
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
        running.spawn(workers.clone().work().in_current_span());
    }
    tracing::info!(workers = concurrency, "workers started");
    tokio::select! {
        biased;
        () = gate.lost() => {
            tracing::warn!("this process does not lead any more; reconciles are dropped");
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

/// When the keys of this process change, all objects are looked at again: those that are its own now have been waiting.
async fn follow_shard(mut shard: Shard, everything: Arc<Everything>) {
    loop {
        shard.changed().await;
        everything.ask();
    }
}

/// Resolves, with what it said, when a source of keys has panicked. One that ends has no more to bring.
async fn panicked(feeding: &mut JoinSet<()>) -> String {
    while let Some(ended) = feeding.join_next().await {
        if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
            return crate::panic::message(panic.as_ref()).to_owned();
        }
    }
    std::future::pending().await
}

/// Waits until all informers have their first state. One whose resource is not served holds up the others for a while
/// only, unless it is the primary's: without its objects there is nothing to do.
async fn synced(primary: &[Connected], others: &[Connected], grace: Duration) {
    let others = others.iter().map(|other| async move {
        while tokio::time::timeout(grace, other.synced()).await.is_err() {
            if other.is_absent() {
                tracing::warn!(resource = %other.resource().plural, "not served; starting without it, and following when it comes");
                return;
            }
            tracing::info!(resource = %other.resource().plural, "waiting for the first state");
        }
    });
    let primary = primary.iter().map(Connected::synced);
    tokio::join!(join_all(primary), join_all(others));
}

/// The answer, or none if draining begins first.
async fn unless_draining<T>(shutdown: &Shutdown, answer: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = shutdown.draining() => None,
        answer = answer => Some(answer),
    }
}

#[cfg(test)]
mod tests;
