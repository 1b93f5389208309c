//! Where keys come from.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::{Stream, StreamExt, future::BoxFuture};
use kube::core::ApiResource;
use parking_lot::Mutex;
use tokio::time::MissedTickBehavior;

use crate::{
    any_object::{AnyChange, ChangeHandler},
    cache::{AnyInformer, Caches, Subscription},
    context::{Context, WatchedKinds},
    controller::owners::OwnerKind,
    key::ObjectKey,
    manifests::Permission,
    queue::{Priority, Queue},
};

/// Something that asks for reconciles: a [`Watch`](super::Watch), a [`Trigger`], a timer ([`Every`]), or a
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

    /// The keys that a stream brings. It is polled while the controller runs; keys that come faster than they are
    /// worked on cost one place in the queue each, however often they come.
    ///
    /// Each process has a stream of its own. Where replicas share the objects, each must be brought all keys: those that
    /// are not its own are passed over.
    pub fn stream(keys: impl Stream<Item = ObjectKey> + Send + 'static) -> Self {
        Self::new(TaskSource(Box::new(move |source_context: SourceContext| {
            Box::pin(async move {
                let mut keys = std::pin::pin!(keys);
                while let Some(key) = keys.next().await {
                    source_context.queue.add(key, Priority::NORMAL);
                    // A stream that is always ready must not keep the thread from others.
                    tokio::task::coop::consume_budget().await;
                }
            })
        })))
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

/// Asks for reconciles from anywhere: a handler of another system's messages, a test, another controller. Clones share
/// it.
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
    /// The controllers that listen. They are let go when they end, however long the trigger lives.
    listeners: Vec<Weak<SourceContext>>,
    /// Whether there has been one.
    listened: bool,
    /// What was asked for before the first of them listened.
    early: BTreeSet<ObjectKey>,
    early_resync: bool,
}

impl Trigger {
    /// One that no controller listens to yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for a reconcile of an object. Never waits. What is asked for before the controller is there is kept for it,
    /// and what is asked for after it has ended is not. Only this process is asked: where replicas share the objects,
    /// each must be, as those of others are passed over.
    pub fn enqueue(&self, key: ObjectKey) {
        let mut triggered = self.shared.lock();
        if !triggered.listened {
            triggered.early.insert(key);
            return;
        }
        for listener in triggered.listeners() {
            listener.queue.add(key.clone(), Priority::NORMAL);
        }
    }

    /// Asks for a reconcile of every object of the controller's kind, after everything urgent.
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
    /// Those that are still there; the others are forgotten.
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
            source_context.queue.add(key, Priority::NORMAL);
        }
        let resync = std::mem::take(&mut triggered.early_resync);
        drop(triggered);
        if resync {
            source_context.resync.request();
        }
        // Held for as long as the controller runs.
        Connection::Task(Box::pin(async move {
            let _listener = listener;
            std::future::pending().await
        }))
    }
}

/// A timer: asks for reconciles again and again.
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
    keys: Option<Vec<ObjectKey>>,
}

impl Every {
    /// Every object of the controller's kind, once in a period, after everything urgent. The first time is one period
    /// after the controller has started; a period of zero counts as a millisecond.
    pub fn new(period: Duration) -> Self {
        Self { period: period.max(Duration::from_millis(1)), keys: None }
    }

    /// These objects only, whether they exist or not, and with the urgency of news.
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
                let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + every.period, every.period);
                // A process that slept has nothing to make up for: once is enough.
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    ticks.tick().await;
                    match &every.keys {
                        Some(keys) => {
                            keys.iter().for_each(|key| source_context.queue.add(key.clone(), Priority::NORMAL))
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

/// What a source is connected to. A cheap handle.
#[derive(Clone)]
pub(crate) struct SourceContext {
    pub(crate) queue: Queue<ObjectKey>,
    pub(crate) context: Context,
    pub(crate) owner: Arc<OwnerKind>,
    pub(crate) resync: Arc<Resync>,
}

/// A source of any kind: first all open their informers, then, when a context over all of them can be had, they are
/// connected.
pub(crate) trait AnySource: Send {
    fn permissions(&self) -> Vec<Permission> {
        Vec::new()
    }

    /// Narrows what is watched in all namespaces to these.
    fn restrict_to(&mut self, namespaces: &[String]) {
        let _ = namespaces;
    }

    fn open(&mut self, caches: &Caches, watched_kinds: &WatchedKinds) {
        let _ = (caches, watched_kinds);
    }

    fn connect(self: Box<Self>, source_context: &SourceContext) -> Connection;
}

/// A connected source.
pub(crate) enum Connection {
    /// To be polled while the controller runs.
    Task(BoxFuture<'static, ()>),
    /// Informers, heard for as long as the controller works.
    Watch(Vec<PendingSubscription>),
}

/// An informer that a controller hears, as soon as it works: until then nobody would take the keys.
pub(crate) struct PendingSubscription {
    informer: Arc<AnyInformer>,
    handler: ChangeHandler,
}

impl PendingSubscription {
    pub(crate) fn new(informer: Arc<AnyInformer>, handler: impl FnMut(&AnyChange<'_>) + Send + Sync + 'static) -> Self {
        Self { informer, handler: Box::new(handler) }
    }

    pub(crate) fn resource(&self) -> &ApiResource {
        self.informer.resource()
    }

    /// Resolves when the informer has its first state.
    pub(crate) async fn synced(&self) {
        self.informer.synced().await;
    }

    /// Hears what is there, and what happens from now on.
    pub(crate) fn subscribe(self) -> Subscription {
        let Self { informer, mut handler } = self;
        informer.subscribe(Box::new(move |event| handler(&AnyChange::of(&event))))
    }

    /// Whether the resource is known not to be served.
    pub(crate) fn is_absent(&self) -> bool {
        self.informer.is_absent()
    }
}

/// Queues all objects of a controller's kind, not urgently. While nobody works, it is only noted that somebody asked.
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

    /// Asks for it.
    pub(crate) fn request(&self) {
        let mut state = self.state.lock();
        if *state != ResyncState::Open {
            *state = ResyncState::Requested;
            return;
        }
        drop(state);
        (self.queue_all)();
    }

    /// Somebody works from now on.
    pub(crate) fn open(&self) {
        let early = std::mem::replace(&mut *self.state.lock(), ResyncState::Open) == ResyncState::Requested;
        if early {
            (self.queue_all)();
        }
    }
}
