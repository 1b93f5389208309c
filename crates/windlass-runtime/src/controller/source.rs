//! Sources of keys.

use std::{
    collections::BTreeSet,
    fmt,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt as _, Stream, StreamExt, future::BoxFuture};
use kube::core::ApiResource;
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use crate::{
    any_object::{AnyChange, ChangeHandler},
    cache::{AnyInformer, Caches, Subscription},
    context::{Context, WatchLease, WatchedKinds},
    controller::{Causes, owners::OwnerKind},
    key::ObjectKey,
    manifests::Permission,
    queue::{Priority, Queue},
    random,
};

/// A source of keys to reconcile: a [`Watch`](super::Watch), a [`Trigger`], a timer ([`Every`]), or a
/// [stream](Source::stream).
pub struct Source {
    any: Box<dyn AnySource>,
}

impl Source {
    pub(crate) fn new(source: impl AnySource + 'static) -> Self {
        Self { any: Box::new(source) }
    }

    pub(crate) fn into_any(self) -> Box<dyn AnySource> {
        self.any
    }

    /// Creates a source from a stream of keys. The stream is polled while the controller runs. A key that arrives again
    /// while it is still queued is queued only once. The end of the stream is logged, and shown in `/debug/state`.
    ///
    /// Each process has its own stream. With sharding, the stream of each replica must deliver all keys: a replica
    /// skips those of others.
    pub fn stream(keys: impl Stream<Item = ObjectKey> + Send + 'static) -> Self {
        Self::new(TaskSource(Box::new(move |source_context: SourceContext| {
            Box::pin(async move {
                let mut keys = std::pin::pin!(keys);
                let _running = source_context.streams.start();
                while let Some(key) = keys.next().await {
                    source_context.request(key);
                    // A stream that is always ready must not block the thread.
                    tokio::task::coop::consume_budget().await;
                }
                tracing::warn!("a stream of keys has ended; no more keys will come from it");
            })
        })))
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

/// Requests reconciles from anywhere: from a message handler of another system, a test, or another controller. Clones
/// share it.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_runtime::{controller::{Action, Controller, Trigger}, key::ObjectKey};
///
/// let trigger = Trigger::new();
/// let controller = Controller::<ConfigMap>::new("mirror", async |_config, _ctx| Ok(Action::done())).source(&trigger);
/// trigger.enqueue(ObjectKey::namespaced("default", "settings"));
/// ```
#[derive(Clone, Default)]
pub struct Trigger {
    shared: Arc<Mutex<TriggerState>>,
}

#[derive(Default)]
struct TriggerState {
    /// The running controllers with this source. Weak, so that they are dropped when they end.
    listeners: Vec<Weak<SourceContext>>,
    /// Whether a controller has ever used it.
    listened: bool,
    /// Keys that were requested before the first controller ran.
    early: BTreeSet<ObjectKey>,
    early_resync: bool,
}

impl Trigger {
    /// Creates a trigger that no controller uses yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests a reconcile of an object, without waiting. Requests before the controller runs are kept for it;
    /// requests after it has ended are dropped. Only this process gets the request: with sharding, trigger every
    /// replica, as each skips the keys of others.
    pub fn enqueue(&self, key: ObjectKey) {
        let mut triggered = self.shared.lock();
        if !triggered.listened {
            triggered.early.insert(key);
            return;
        }
        for listener in triggered.listeners() {
            listener.request(key.clone());
        }
    }

    /// Requests a reconcile of all objects of the controller's kind, with low priority.
    pub fn enqueue_all(&self) {
        let mut triggered = self.shared.lock();
        triggered.early_resync |= !triggered.listened;
        let listeners = triggered.listeners();
        drop(triggered);
        for listener in listeners {
            listener.resync.request();
        }
    }
}

impl TriggerState {
    /// Returns the running controllers, and removes the others.
    fn listeners(&mut self) -> Vec<Arc<SourceContext>> {
        self.listeners.retain(|listener| listener.strong_count() > 0);
        self.listeners.iter().filter_map(Weak::upgrade).collect()
    }
}

impl fmt::Debug for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trigger").field("listeners", &self.shared.lock().listeners.len()).finish_non_exhaustive()
    }
}

impl From<&Trigger> for Source {
    fn from(trigger: &Trigger) -> Self {
        Self::new(trigger.clone())
    }
}

impl From<Trigger> for Source {
    fn from(trigger: Trigger) -> Self {
        Self::new(trigger)
    }
}

impl AnySource for Trigger {
    fn connect(self: Box<Self>, source_context: &SourceContext) -> Connection {
        let listener = Arc::new(source_context.clone());
        let mut triggered = self.shared.lock();
        triggered.listened = true;
        triggered.listeners.push(Arc::downgrade(&listener));
        for key in std::mem::take(&mut triggered.early) {
            source_context.request(key);
        }
        let resync = std::mem::take(&mut triggered.early_resync);
        drop(triggered);
        if resync {
            source_context.resync.request();
        }
        // Held while the controller runs.
        Connection::Task(Box::pin(async move {
            let _listener = listener;
            std::future::pending().await
        }))
    }
}

/// A period longer than any process runs, but short enough to be added to any clock.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// A timer that requests reconciles periodically.
///
/// ```
/// use std::time::Duration;
/// use windlass_runtime::{controller::{Every, Source}, key::ObjectKey};
///
/// let all: Source = Every::new(Duration::from_secs(3600)).into();
/// let one: Source = Every::new(Duration::from_secs(60)).keys([ObjectKey::cluster("global")]).into();
/// ```
#[derive(Clone, Debug)]
pub struct Every {
    period: Duration,
    jitter: f64,
    keys: Option<Vec<ObjectKey>>,
}

impl Every {
    /// Requests all objects of the controller's kind once per period, with low priority. The first time is one period
    /// after the controller has started. A period of zero counts as one millisecond.
    pub fn new(period: Duration) -> Self {
        Self { period: period.max(Duration::from_millis(1)), jitter: 0.0, keys: None }
    }

    /// Changes each period at random by up to this part of it (0.1 for 10 %) in either direction, so that replicas and
    /// operators that have started together do not work together.
    #[must_use]
    pub fn jitter(mut self, part: f64) -> Self {
        self.jitter = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
        self
    }

    /// Returns the time until the next request; `random` is from 0 to 1.
    fn next(&self, random: f64) -> Duration {
        let factor = 1.0 + self.jitter * (2.0 * random - 1.0);
        let spread = Duration::try_from_secs_f64(self.period.as_secs_f64() * factor);
        spread.unwrap_or(self.period).clamp(Duration::from_millis(1), FOREVER)
    }

    /// Requests only these objects, whether they exist or not, with normal priority.
    #[must_use]
    pub fn keys(mut self, keys: impl IntoIterator<Item = ObjectKey>) -> Self {
        self.keys = Some(keys.into_iter().collect());
        self
    }
}

impl From<Every> for Source {
    fn from(every: Every) -> Self {
        Self::new(TaskSource(Box::new(move |source_context: SourceContext| {
            Box::pin(async move {
                let mut due = Instant::now();
                loop {
                    let next = every.next(random::fraction());
                    // A process that was suspended has nothing to make up for: one request is enough.
                    due = (due + next).max(Instant::now());
                    tokio::time::sleep_until(due).await;
                    match &every.keys {
                        Some(keys) => {
                            keys.iter().for_each(|key| source_context.request(key.clone()));
                        }
                        None => source_context.resync.request(),
                    }
                }
            })
        })))
    }
}

type Task = Box<dyn FnOnce(SourceContext) -> BoxFuture<'static, ()> + Send>;

struct TaskSource(Task);

impl AnySource for TaskSource {
    fn connect(self: Box<Self>, source_context: &SourceContext) -> Connection {
        Connection::Task((self.0)(source_context.clone()))
    }
}

/// Context that a source is connected to. A cheap handle.
#[derive(Clone)]
pub(crate) struct SourceContext {
    pub(crate) queue: Queue<ObjectKey>,
    pub(crate) context: Context,
    /// The informers of the controller's kind, one per scope.
    pub(crate) primary: Arc<[Arc<AnyInformer>]>,
    pub(crate) owner: Arc<OwnerKind>,
    pub(crate) resync: Arc<Resync>,
    pub(crate) streams: Arc<Streams>,
    pub(crate) panics: SourcePanics,
}

/// Panics of tasks that run outside of those of the controller. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct SourcePanics(Arc<watch::Sender<Option<String>>>);

impl SourcePanics {
    /// Returns a task that reports its panic.
    pub(crate) fn catch<F: Future<Output = ()> + Send>(&self, task: F) -> impl Future<Output = ()> + Send + use<F> {
        let panics = self.clone();
        async move {
            if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
                panics.0.send_replace(Some(crate::panic::message(panic.as_ref()).to_owned()));
            }
        }
    }

    /// Resolves with the message of a panic.
    pub(crate) async fn caught(&self) -> String {
        let mut panics = self.0.subscribe();
        let caught = panics.wait_for(Option::is_some).await.ok().and_then(|panic| panic.clone());
        match caught {
            Some(message) => message,
            // Not reached: this is the sender.
            None => std::future::pending().await,
        }
    }
}

impl SourceContext {
    /// Queues a key that a source has requested.
    fn request(&self, key: ObjectKey) {
        self.queue.add_caused(key, Priority::NORMAL, Causes::source());
    }
}

/// The streams of a controller, for `/debug/state`.
#[derive(Default)]
pub(crate) struct Streams {
    running: AtomicUsize,
    ended: AtomicUsize,
}

/// A running stream, until it is dropped.
struct RunningStream<'a>(&'a Streams);

impl Streams {
    fn start(&self) -> RunningStream<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        RunningStream(self)
    }

    /// Returns the number of running and ended streams.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.running.load(Ordering::Relaxed), self.ended.load(Ordering::Relaxed))
    }
}

impl Drop for RunningStream<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns whether a kind that is known only at run time is taken to be namespaced.
pub(crate) type IsNamespaced<'a> = &'a dyn Fn(&ApiResource) -> bool;

/// A type-erased [`Source`]. All sources of a controller first open their informers; then they are connected, with a
/// context that can read all of these.
pub(crate) trait AnySource: Send {
    fn permissions(&self) -> Vec<Permission> {
        Vec::new()
    }

    /// Restricts watches of all namespaces to these. The function decides for kinds that are known only at run time.
    fn restrict_to(&mut self, namespaces: &[String], is_namespaced: IsNamespaced<'_>) {
        let _ = (namespaces, is_namespaced);
    }

    fn open(&mut self, caches: &Caches, watched_kinds: &WatchedKinds) {
        let _ = (caches, watched_kinds);
    }

    /// Like [`open`](Self::open), for a source that may end earlier than its controller: with the leases.
    fn open_leased(&mut self, caches: &Caches, watched_kinds: &WatchedKinds) -> Vec<WatchLease> {
        self.open(caches, watched_kinds);
        Vec::new()
    }

    fn connect(self: Box<Self>, source_context: &SourceContext) -> Connection;
}

/// A connected source.
pub(crate) enum Connection {
    /// A task that runs with the controller.
    Task(BoxFuture<'static, ()>),
    /// Informers to subscribe to while workers run.
    Watch(Vec<PendingSubscription>),
    /// A set of sources that is opened before workers run, in a plan as well.
    Set(Opening),
}

/// Opens a set of sources. Must be called within a tokio runtime.
pub(crate) type Opening = Box<dyn FnOnce() -> Opened + Send>;
/// An open set of sources; dropping it ends them.
pub(crate) type Opened = Box<dyn Send>;

/// A subscription to an informer that begins when workers run. Before that, nothing would take the keys.
pub(crate) struct PendingSubscription {
    informer: Arc<AnyInformer>,
    handler: ChangeHandler,
}

impl PendingSubscription {
    pub(crate) fn new(informer: Arc<AnyInformer>, handler: impl FnMut(&AnyChange<'_>) + Send + Sync + 'static) -> Self {
        Self { informer, handler: Box::new(handler) }
    }

    pub(crate) fn informer(&self) -> Arc<AnyInformer> {
        self.informer.clone()
    }

    pub(crate) fn resource(&self) -> &ApiResource {
        self.informer.resource()
    }

    /// Resolves when the informer has synced.
    pub(crate) async fn synced(&self) {
        self.informer.synced().await;
    }

    /// Subscribes to the current state and all later events.
    pub(crate) fn subscribe(self) -> Subscription {
        let Self { informer, mut handler } = self;
        informer.subscribe(Box::new(move |event| handler(&AnyChange::of(&event))))
    }

    /// Returns whether the resource is known not to be served.
    pub(crate) fn is_absent(&self) -> bool {
        self.informer.is_absent()
    }
}

/// Queues all objects of a controller's kind, with low priority. A request before workers run is kept.
pub(crate) struct Resync {
    queue_all: Box<dyn Fn() + Send + Sync>,
    state: Mutex<ResyncState>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ResyncState {
    Closed,
    Requested,
    Open,
}

impl Resync {
    pub(crate) fn new(queue_all: impl Fn() + Send + Sync + 'static) -> Self {
        Self { queue_all: Box::new(queue_all), state: Mutex::new(ResyncState::Closed) }
    }

    /// Requests a resync.
    pub(crate) fn request(&self) {
        let mut state = self.state.lock();
        if *state != ResyncState::Open {
            *state = ResyncState::Requested;
            return;
        }
        drop(state);
        (self.queue_all)();
    }

    /// Workers run from now on.
    pub(crate) fn open(&self) {
        let early = std::mem::replace(&mut *self.state.lock(), ResyncState::Open) == ResyncState::Requested;
        if early {
            (self.queue_all)();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_exact_unless_they_have_jitter() {
        let seconds = |every: &Every| [0.0, 0.5, 1.0].map(|random| every.next(random).as_secs());
        assert_eq!(seconds(&Every::new(Duration::from_secs(100))), [100, 100, 100]);
        assert_eq!(seconds(&Every::new(Duration::from_secs(100)).jitter(0.1)), [90, 100, 110]);
        assert_eq!(seconds(&Every::new(Duration::from_secs(100)).jitter(f64::NAN)), [100, 100, 100]);
        assert_eq!(Every::new(Duration::MAX).jitter(1.0).next(0.7), FOREVER);
        assert_eq!(Every::new(Duration::ZERO).jitter(1.0).next(0.0), Duration::from_millis(1));
    }
}
