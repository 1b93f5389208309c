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
    cache::{AnyInformer, Caches, Subscription},
    context::{Context, Wired},
    controller::owners::OwnerKind,
    erased::{AnyChange, Hear},
    key::ObjectKey,
    manifests::Permission,
    queue::{Priority, Queue},
};

/// Something that asks for reconciles: a [`Watch`](super::Watch), a [`Trigger`], a timer ([`Every`]), or a
/// [stream](Source::stream).
pub struct Source {
    feed: Box<dyn Feed>,
}

impl Source {
    pub(crate) fn new(feed: impl Feed + 'static) -> Self {
        Self { feed: Box::new(feed) }
    }

    pub(crate) fn into_feed(self) -> Box<dyn Feed> {
        self.feed
    }

    /// The keys that a stream brings. It is polled while the controller runs; keys that come faster than they are
    /// worked on cost one place in the queue each, however often they come.
    ///
    /// Each process has a stream of its own. Where replicas share the objects, each must be brought all keys: those that
    /// are not its own are passed over.
    pub fn stream(keys: impl Stream<Item = ObjectKey> + Send + 'static) -> Self {
        Self::new(TaskFeed(Box::new(move |wiring: Wiring| {
            Box::pin(async move {
                let mut keys = std::pin::pin!(keys);
                while let Some(key) = keys.next().await {
                    wiring.queue.add(key, Priority::NORMAL);
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
    shared: Arc<Mutex<Triggered>>,
}

#[derive(Default)]
struct Triggered {
    /// The controllers that listen. They are let go when they end, however long the trigger lives.
    listeners: Vec<Weak<Wiring>>,
    /// Whether there has been one.
    listened: bool,
    /// What was asked for before the first of them listened.
    early: BTreeSet<ObjectKey>,
    early_everything: bool,
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
    pub fn enqueue_everything(&self) {
        let mut triggered = self.shared.lock();
        triggered.early_everything |= !triggered.listened;
        let listeners = triggered.listeners();
        drop(triggered);
        for listener in listeners {
            listener.everything.ask();
        }
    }
}

impl Triggered {
    /// Those that are still there; the others are forgotten.
    fn listeners(&mut self) -> Vec<Arc<Wiring>> {
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

impl Feed for Trigger {
    fn connect(self: Box<Self>, wiring: &Wiring) -> Connection {
        let listener = Arc::new(wiring.clone());
        let mut triggered = self.shared.lock();
        triggered.listened = true;
        triggered.listeners.push(Arc::downgrade(&listener));
        for key in std::mem::take(&mut triggered.early) {
            wiring.queue.add(key, Priority::NORMAL);
        }
        let everything = std::mem::take(&mut triggered.early_everything);
        drop(triggered);
        if everything {
            wiring.everything.ask();
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
        Self::new(TaskFeed(Box::new(move |wiring: Wiring| {
            Box::pin(async move {
                let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + every.period, every.period);
                // A process that slept has nothing to make up for: once is enough.
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    ticks.tick().await;
                    match &every.keys {
                        Some(keys) => keys.iter().for_each(|key| wiring.queue.add(key.clone(), Priority::NORMAL)),
                        None => wiring.everything.ask(),
                    }
                }
            })
        })))
    }
}

type Task = Box<dyn FnOnce(Wiring) -> BoxFuture<'static, ()> + Send>;

struct TaskFeed(Task);

impl Feed for TaskFeed {
    fn connect(self: Box<Self>, wiring: &Wiring) -> Connection {
        Connection::Task((self.0)(wiring.clone()))
    }
}

/// What a source is connected to. A cheap handle.
#[derive(Clone)]
pub(crate) struct Wiring {
    pub(crate) queue: Queue<ObjectKey>,
    pub(crate) context: Context,
    pub(crate) owner: Arc<OwnerKind>,
    pub(crate) everything: Arc<Everything>,
}

/// A source of any kind: first all open their informers, then, when a context over all of them can be had, they are
/// connected.
pub(crate) trait Feed: Send {
    fn permissions(&self) -> Vec<Permission> {
        Vec::new()
    }

    /// Narrows what is watched in all namespaces to these.
    fn within(&mut self, namespaces: &[String]) {
        let _ = namespaces;
    }

    fn open(&mut self, caches: &Caches, wired: &Wired) {
        let _ = (caches, wired);
    }

    fn connect(self: Box<Self>, wiring: &Wiring) -> Connection;
}

/// A connected source.
pub(crate) enum Connection {
    /// To be polled while the controller runs.
    Task(BoxFuture<'static, ()>),
    /// Informers, heard for as long as the controller works.
    Watch(Vec<Connected>),
}

/// An informer that a controller hears, as soon as it works: until then nobody would take the keys.
pub(crate) struct Connected {
    informer: Arc<AnyInformer>,
    hear: Hear,
}

impl Connected {
    pub(crate) fn new(informer: Arc<AnyInformer>, hear: impl FnMut(&AnyChange<'_>) + Send + Sync + 'static) -> Self {
        Self { informer, hear: Box::new(hear) }
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
        let Self { informer, mut hear } = self;
        informer.subscribe(Box::new(move |event| hear(&AnyChange::of(&event))))
    }

    /// Whether the resource is known not to be served.
    pub(crate) fn is_absent(&self) -> bool {
        self.informer.is_absent()
    }
}

/// Queues all objects of a controller's kind, not urgently. While nobody works, it is only noted that somebody asked.
pub(crate) struct Everything {
    queue_all: Box<dyn Fn() + Send + Sync>,
    state: Mutex<Asked>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    NotYet,
    Early,
    Open,
}

impl Everything {
    pub(crate) fn new(queue_all: impl Fn() + Send + Sync + 'static) -> Self {
        Self { queue_all: Box::new(queue_all), state: Mutex::new(Asked::NotYet) }
    }

    /// Asks for it.
    pub(crate) fn ask(&self) {
        let mut state = self.state.lock();
        if *state != Asked::Open {
            *state = Asked::Early;
            return;
        }
        drop(state);
        (self.queue_all)();
    }

    /// Somebody works from now on.
    pub(crate) fn open(&self) {
        let early = std::mem::replace(&mut *self.state.lock(), Asked::Open) == Asked::Early;
        if early {
            (self.queue_all)();
        }
    }
}
