//! The running daemons of a controller.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{AnyDaemon, Life, Report, metrics::DaemonMetrics};
use crate::{
    Error,
    any_object::AnyObject,
    context::Context,
    controller::Causes,
    key::ObjectKey,
    lease::{Leadership, Shard},
    queue::{Priority, Queue},
    shutdown::Shutdown,
};

/// The daemons of a controller. Dropping the last handle drops them.
pub(crate) struct Daemons {
    controller: Arc<str>,
    shared: Arc<Shared>,
    set: Mutex<JoinSet<()>>,
}

/// State that daemons share with the controller.
struct Shared {
    daemon: AnyDaemon,
    queue: Queue<ObjectKey>,
    entries: Mutex<Entries>,
    /// Drops all daemons.
    abort: CancellationToken,
    metrics: DaemonMetrics,
}

#[derive(Default)]
struct Entries {
    by_key: HashMap<ObjectKey, Entry>,
    /// Whether no more daemons start.
    closed: bool,
    started: u64,
}

/// The daemon of an object.
struct Entry {
    /// Distinguishes it from an earlier daemon of the same key.
    number: u64,
    uid: String,
    object: watch::Sender<Arc<dyn AnyObject>>,
    stop: CancellationToken,
    report: Arc<Mutex<Option<Report>>>,
    /// Whether it has returned without being asked to.
    finished: bool,
}

/// Number of daemons, for `/debug/state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DaemonCounts {
    pub(crate) running: usize,
    pub(crate) finished: usize,
}

impl Daemons {
    pub(crate) fn new(controller: Arc<str>, daemon: AnyDaemon, queue: Queue<ObjectKey>, context: &Context) -> Self {
        let metrics = DaemonMetrics::new(context.metrics(), &controller);
        let shared = Shared { daemon, queue, entries: Mutex::default(), abort: CancellationToken::new(), metrics };
        Self { controller, shared: Arc::new(shared), set: Mutex::default() }
    }

    /// Starts the daemon of an object, or shows the running one the state of its object. Returns what it has reported.
    /// Must be called within a tokio runtime, and by one caller per key at a time.
    pub(crate) fn keep(&self, key: &ObjectKey, object: &Arc<dyn AnyObject>, context: &Context) -> Option<Report> {
        let mut entries = self.shared.entries.lock();
        if let Some(entry) = entries.by_key.get(key) {
            entry.object.send_if_modified(|shown| {
                let is_new = shown.metadata().resource_version != object.metadata().resource_version;
                *shown = object.clone();
                is_new
            });
            return entry.report.lock().clone();
        }
        if entries.closed {
            return None;
        }
        entries.started += 1;
        let (number, sender, stop) = (entries.started, watch::Sender::new(object.clone()), CancellationToken::new());
        let life = Life {
            key: key.clone(),
            context: context.for_key(key),
            queue: self.shared.queue.clone(),
            object: sender.subscribe(),
            stop: stop.clone(),
            report: Arc::default(),
            failures: 0,
        };
        let uid = object.metadata().uid.clone().unwrap_or_default();
        let entry = Entry { number, uid, object: sender, stop, report: life.report.clone(), finished: false };
        entries.by_key.insert(key.clone(), entry);
        drop(entries);
        let span = tracing::info_span!(
            "daemon",
            controller = &*self.controller,
            namespace = key.namespace(),
            object = key.name()
        );
        self.shared.metrics.running.inc();
        let ending = Ending { shared: self.shared.clone(), key: key.clone(), number, finished: false };
        let mut set = self.set.lock();
        // Frees daemons that have ended.
        while set.try_join_next().is_some() {}
        set.spawn(ending.live(life).instrument(span).boxed());
        None
    }

    /// Stops the daemon of an object, unless the object is still `uid`. Returns whether there is no daemon, and
    /// otherwise the time it has at most; its end queues the key.
    pub(crate) fn stop(&self, key: &ObjectKey, except: Option<&str>) -> Result<(), Duration> {
        let mut entries = self.shared.entries.lock();
        let Some(entry) = entries.by_key.get(key) else { return Ok(()) };
        if except == Some(&*entry.uid) {
            return Ok(());
        }
        if entry.finished {
            entries.by_key.remove(key);
            return Ok(());
        }
        entry.stop.cancel();
        Err(self.shared.daemon.grace)
    }

    /// Stops the daemons with the process, drops them when it may no longer work, and drops finished ones of keys that
    /// another replica has now. Never returns.
    pub(crate) async fn follow(self: Arc<Self>, leadership: Option<Leadership>, mut shard: Shard, shutdown: Shutdown) {
        let lost = async {
            match &leadership {
                Some(leadership) => leadership.lost().await,
                None => std::future::pending().await,
            }
        };
        let stopped = async {
            shutdown.draining().await;
            self.stop_all();
            shutdown.aborting().await;
        };
        let forgetting = async {
            loop {
                shard.changed().await;
                self.forget_others(&shard);
            }
        };
        tokio::select! {
            () = lost => {}
            () = stopped => {}
            () = forgetting => {}
        }
        self.stop_all();
        self.shared.abort.cancel();
        std::future::pending().await
    }

    /// Removes the finished daemons of other replicas' keys, which nothing else would. The replica that has a key now
    /// starts a daemon of its own.
    fn forget_others(&self, shard: &Shard) {
        self.shared.entries.lock().by_key.retain(|key, entry| !entry.finished || shard.owns(key));
    }

    fn stop_all(&self) {
        let mut entries = self.shared.entries.lock();
        entries.closed = true;
        entries.by_key.values().for_each(|entry| entry.stop.cancel());
    }

    /// Asks all daemons to stop, and resolves when they have ended, at the latest after their grace period.
    pub(crate) async fn end(&self) {
        self.stop_all();
        let mut set = std::mem::take(&mut *self.set.lock());
        while set.join_next().await.is_some() {}
    }

    pub(crate) fn counts(&self) -> DaemonCounts {
        let entries = self.shared.entries.lock();
        let finished = entries.by_key.values().filter(|entry| entry.finished).count();
        DaemonCounts { running: entries.by_key.len() - finished, finished }
    }
}

/// A daemon that runs. However it ends, even when it is dropped, its entry is updated and the key is queued.
struct Ending {
    shared: Arc<Shared>,
    key: ObjectKey,
    number: u64,
    finished: bool,
}

impl Ending {
    async fn live(mut self, life: Life) {
        let (stop, shard) = (life.stop.clone(), life.context.shard().clone());
        let shared = self.shared.clone();
        let grace = shared.daemon.grace;
        let too_late = async {
            stop.cancelled().await;
            tokio::time::sleep(grace).await;
        };
        tokio::select! {
            biased;
            () = shared.abort.cancelled() => tracing::info!("dropped: this process may no longer work"),
            () = shard.lost(&self.key) => tracing::info!("dropped: the object belongs to another replica now"),
            () = run(&shared, life) => self.finished = !stop.is_cancelled(),
            () = too_late => tracing::warn!(?grace, "did not end within its grace period and was dropped"),
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.shared.metrics.running.dec();
        let mut entries = self.shared.entries.lock();
        if let Some(entry) = entries.by_key.get_mut(&self.key)
            && entry.number == self.number
        {
            if self.finished {
                entry.finished = true;
            } else {
                entries.by_key.remove(&self.key);
            }
        }
        drop(entries);
        self.shared.queue.add_caused(self.key.clone(), Priority::NORMAL, Causes::source());
    }
}

/// Runs a daemon until it is done, or stops; starts it again after failures.
async fn run(shared: &Shared, mut life: Life) {
    let (first, longest) = shared.daemon.backoff;
    loop {
        let began = Instant::now();
        let attempt = async { (shared.daemon.run)(life.clone()).await };
        let error = match AssertUnwindSafe(attempt).catch_unwind().await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(panic) => Error::new(format!("the daemon panicked: {}", crate::panic::message(panic.as_ref()))),
        };
        shared.metrics.failures.inc();
        if life.stop.is_cancelled() {
            tracing::warn!(%error, "failed while it stopped");
            return;
        }
        if error.is_terminal() {
            tracing::error!(%error, "failed with a terminal error; not starting it again");
            return;
        }
        if began.elapsed() >= longest * 2 {
            life.failures = 0;
        }
        life.failures = life.failures.saturating_add(1);
        let delay = error.retry_delay().unwrap_or_else(|| backoff(first, longest, life.failures));
        tracing::error!(%error, failures = life.failures, ?delay, "failed; starting it again after a delay");
        if tokio::time::timeout(delay, life.stop.cancelled()).await.is_ok() {
            return;
        }
    }
}

/// Returns the delay after this many failures in a row.
fn backoff(first: Duration, longest: Duration, failures: u32) -> Duration {
    first.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(longest)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;

    use super::*;
    use crate::{
        controller::Daemon,
        lease::{LeadershipState, Ring},
    };

    /// Counts the running daemons.
    struct Running(Arc<AtomicUsize>);

    impl Drop for Running {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_lease_drops_daemons_at_once_and_starts_no_more() {
        let server = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, tower::BoxError>>()
        });
        let context = Context::builder(Client::new(server, "default")).build();
        let count = Arc::new(AtomicUsize::new(0));
        let running = count.clone();
        let daemon = Daemon::<ConfigMap>::new(move |_, _| {
            running.fetch_add(1, Ordering::SeqCst);
            let running = Running(running.clone());
            async move {
                let _running = running;
                std::future::pending().await
            }
        });
        let queue = Queue::new();
        let daemons = Arc::new(Daemons::new("test".into(), daemon.into_any(), queue.clone(), &context));
        let (sender, leadership) = Leadership::followed();
        sender.send_replace(LeadershipState::Leads { until: Instant::now() + Duration::from_secs(10) });
        let following = tokio::spawn(daemons.clone().follow(Some(leadership), Shard::whole(), Shutdown::new()));
        let (key, object): (_, Arc<dyn AnyObject>) =
            (ObjectKey::namespaced("default", "a"), Arc::new(ConfigMap::default()));
        assert!(daemons.keep(&key, &object, &context).is_none());
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert_eq!(count.load(Ordering::SeqCst), 1);
        assert_eq!(daemons.counts(), DaemonCounts { running: 1, finished: 0 });
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(count.load(Ordering::SeqCst), 0);
        daemons.keep(&key, &object, &context);
        assert_eq!(daemons.counts(), DaemonCounts { running: 0, finished: 0 });
        following.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn finished_daemons_of_keys_of_other_replicas_are_forgotten() {
        let server = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, tower::BoxError>>()
        });
        let (sender, shard) = Shard::followed("me".into());
        let share = |members: &[&str]| {
            let ring = Arc::new(Ring::new(members.iter().map(|member| Arc::from(*member))));
            sender.send_modify(|view| {
                view.until = Some(Instant::now() + Duration::from_secs(3600));
                view.held = vec![ring];
            });
        };
        share(&["me"]);
        let context = Context::builder(Client::new(server, "default")).shard(shard.clone()).build();
        let daemon = Daemon::<ConfigMap>::new(|_, _| async { Ok(()) });
        let daemons = Arc::new(Daemons::new("test".into(), daemon.into_any(), Queue::new(), &context));
        let following = tokio::spawn(daemons.clone().follow(None, shard.clone(), Shutdown::new()));
        let object: Arc<dyn AnyObject> = Arc::new(ConfigMap::default());
        let keys: Vec<_> = (0..50).map(|number| ObjectKey::namespaced("default", &format!("o{number}"))).collect();
        for key in &keys {
            daemons.keep(key, &object, &context);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(daemons.counts(), DaemonCounts { running: 0, finished: 50 });
        share(&["me", "other"]);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let kept = keys.iter().filter(|key| shard.owns(key)).count();
        assert!(kept > 0 && kept < 50, "{kept}");
        assert_eq!(daemons.counts(), DaemonCounts { running: 0, finished: kept });
        following.abort();
    }

    #[test]
    fn the_backoff_doubles_up_to_the_longest() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(300));
        let delays: Vec<_> =
            [1, 2, 3, 9, 10, 99].iter().map(|times| backoff(first, longest, *times).as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 256, 300, 300]);
        assert_eq!(backoff(Duration::MAX, Duration::MAX, 5), Duration::MAX);
    }
}
