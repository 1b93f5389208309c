//! Workers without a server: a queue, and handlers controlled by the test.

use std::{
    collections::HashMap,
    io::Write,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::{
    metrics::Metrics,
    queue::{Priority, RateLimit},
};

type Call = Box<dyn Fn(ObjectKey) -> BoxFuture<'static, Result<Action>> + Send + Sync>;

impl Handle for Call {
    fn handle(&self, key: &ObjectKey, _: &Attempt) -> impl Future<Output = Result<Action>> + Send {
        self(key.clone())
    }
}

pub(crate) fn workers<F, Answer>(call: F) -> Workers<Call>
where
    F: Fn(ObjectKey) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<Action>> + Send + 'static,
{
    Workers {
        controller: "test".into(),
        queue: Queue::builder("test").rate_limit(RateLimit { jitter: 0.0, ..RateLimit::default() }).build(),
        handler: Box::new(move |key| Box::pin(call(key))),
        timeout: None,
        counters: Counters::new(&Metrics::new(), "test", 1),
        shard: Shard::whole(),
        recent: None,
    }
}

/// Works until nothing is left to do.
async fn exhaust(workers: Workers<Call>, concurrency: usize) -> Arc<Workers<Call>> {
    let workers = Arc::new(workers);
    let tasks: Vec<_> = (0..concurrency).map(|_| tokio::spawn(workers.clone().work())).collect();
    while !workers.queue.is_empty() || workers.queue.delayed() > 0 || workers.queue.held() > 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    workers.queue.close();
    for task in tasks {
        task.await.unwrap();
    }
    workers
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_failing_keys_are_all_done_in_the_end() {
    const KEYS: usize = 100_000;
    let attempts = Arc::new(Mutex::new(HashMap::<ObjectKey, u32>::new()));
    let counted = attempts.clone();
    let workers = workers(move |key| {
        let attempt = {
            let mut counted = counted.lock();
            let count = counted.entry(key).or_default();
            *count += 1;
            *count
        };
        async move { if attempt < 3 { Err(Error::new("not yet")) } else { Ok(Action::done()) } }
    });
    let began = Instant::now();
    for number in 0..KEYS {
        workers.queue.add(ObjectKey::namespaced("default", &number.to_string()), Priority::LOW);
    }
    let workers = exhaust(workers, 8).await;
    let attempts = attempts.lock();
    assert_eq!(attempts.len(), KEYS);
    assert!(attempts.values().all(|count| *count == 3));
    assert_eq!((workers.counters.success.get(), workers.counters.errors.get()), (KEYS as u64, 2 * KEYS as u64));
    // 200,000 retries at 100 per second after a burst of 1,000: no server is overrun by all of them at once.
    assert!(began.elapsed() >= Duration::from_secs(1900), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn panics_and_timeouts_back_off_as_failures_do() {
    let times = Arc::new(Mutex::new(Vec::new()));
    let noted = times.clone();
    let mut workers = workers(move |_key| {
        let mut noted = noted.lock();
        noted.push(Instant::now());
        let attempt = noted.len();
        async move {
            match attempt {
                1 | 3 => panic!("attempt {attempt}"),
                2 | 4 => std::future::pending().await,
                _ => Ok(Action::done()),
            }
        }
    });
    workers.timeout = Some(Duration::from_secs(1));
    workers.queue.add(ObjectKey::cluster("a"), Priority::NORMAL);
    let workers = exhaust(workers, 1).await;
    let times = times.lock();
    let gaps: Vec<_> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
    assert_eq!(gaps, [5, 1010, 20, 1040]);
    let counters = &workers.counters;
    assert_eq!((counters.panics.get(), counters.timeouts.get(), counters.errors.get()), (2, 2, 4));
    assert_eq!((counters.success.get(), counters.active.get()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_stopped_midway_returns_its_key() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let workers = Arc::new(workers(move |_key| {
        let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
        async move { if first { std::future::pending().await } else { Ok(Action::done()) } }
    }));
    workers.queue.add(ObjectKey::cluster("a"), Priority::NORMAL);
    let stopped = tokio::spawn(workers.clone().work());
    while calls.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(workers.counters.active.get(), 1);
    stopped.abort();
    assert!(stopped.await.unwrap_err().is_cancelled());
    assert_eq!((workers.counters.active.get(), workers.queue.held()), (0, 0));
    let work = workers.queue.next().await.expect("the key must be queued again");
    assert_eq!(work.key().name(), "a");
    work.done();
}

/// Lines of the log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// Collects the lines of this thread until the guard is dropped.
    fn collect() -> (Self, tracing::subscriber::DefaultGuard) {
        // A global subscriber: a span that another thread enters first, without a subscriber, would stay disabled here.
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
        let lines = Self::default();
        let written = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || written.clone()).finish();
        (lines, tracing::subscriber::set_default(subscriber))
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

/// Returns the error of an update that the API server answers with a Status.
fn rejected(status: serde_json::Value) -> Error {
    Error::from(ContextError::Rejected {
        verb: crate::context::Verb::Update,
        kind: "Pod".to_owned(),
        key: ObjectKey::namespaced("shop", "web"),
        source: Box::new(serde_json::from_value(status).unwrap()),
    })
}

#[tokio::test(start_paused = true)]
async fn conflicts_and_races_with_deletion_are_logged_as_information_and_other_failures_as_errors() {
    let (lines, _guard) = Lines::collect();
    let attempts = Arc::new(AtomicUsize::new(0));
    let workers = workers(move |_key| {
        let attempt = attempts.fetch_add(1, Ordering::SeqCst);
        async move {
            let status = |code: u16, reason: &str| {
                json!({
                    "status": "Failure", "code": code, "reason": reason, "message": reason,
                    "details": {"name": "web", "kind": "pods"},
                })
            };
            match attempt {
                0 | 1 => Err(rejected(status(404, "NotFound"))),
                2 => Err(Error::from(ContextError::Conflict {
                    verb: crate::context::Verb::Update,
                    kind: "Pod".to_owned(),
                    key: ObjectKey::namespaced("shop", "web"),
                    source: Box::new(serde_json::from_value(status(409, "Conflict")).unwrap()),
                })),
                3 => Err(rejected(status(403, "Forbidden"))),
                _ => Ok(Action::done()),
            }
        }
    });
    workers.queue.add(ObjectKey::namespaced("shop", "web"), Priority::NORMAL);
    exhaust(workers, 1).await;
    let text = lines.text();
    let logged: Vec<(&str, bool)> = text
        .lines()
        .map(|line| (line.split_whitespace().nth(1).unwrap_or_default(), line.contains("; retrying")))
        .collect();
    // An object that is still missing in the second attempt is not about to be deleted.
    assert_eq!(logged, [("INFO", true), ("ERROR", false), ("INFO", true), ("ERROR", false)], "{text}");
}

#[tokio::test]
async fn a_log_line_names_controller_object_and_reconcile() {
    let (lines, _guard) = Lines::collect();
    let workers = Arc::new(workers(|_key| async { Err(Error::terminal("bad cidr")) }));
    for name in ["web", "db"] {
        workers.queue.add(ObjectKey::namespaced("shop", name), Priority::NORMAL);
    }
    workers.queue.drain();
    workers.work().await;
    let text = lines.text();
    let ids: Vec<Uuid> = text
        .lines()
        .zip(["web", "db"])
        .map(|(line, name)| {
            let span = format!("reconcile{{controller=\"test\" namespace=\"shop\" object=\"{name}\" reconcile_id=");
            assert!(line.contains("error=bad cidr"), "{line}");
            let id = line.split_once(&span).unwrap_or_else(|| panic!("{span} in {line}")).1;
            id[..36].parse().unwrap()
        })
        .collect();
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn races_with_deletion_are_not_errors_unless_an_object_stays_missing() {
    let gone = serde_json::json!({
        "status": "Failure", "code": 404, "reason": "NotFound", "message": "pods \"web\" not found",
        "details": {"name": "web", "kind": "pods"},
    });
    assert!(is_race_with_deletion(&rejected(gone.clone()), 0));
    assert!(!is_race_with_deletion(&rejected(gone), 1));
    let terminating = serde_json::json!({
        "status": "Failure", "code": 403, "reason": "Forbidden", "message": "unable to create new content",
        "details": {"causes": [{"reason": "NamespaceTerminating", "message": "m", "field": "f"}]},
    });
    assert!(is_race_with_deletion(&rejected(terminating), 7));
    let forbidden = serde_json::json!({"status": "Failure", "code": 403, "reason": "Forbidden", "message": "no"});
    assert!(!is_race_with_deletion(&rejected(forbidden), 0));
    assert!(!is_race_with_deletion(&Error::new("not found"), 0));
}

#[tokio::test(start_paused = true)]
async fn an_error_can_say_when_it_is_retried() {
    let times = Arc::new(Mutex::new(Vec::new()));
    let seen = times.clone();
    let workers = workers(move |_| {
        let mut seen = seen.lock();
        seen.push(Instant::now());
        let outcome = match seen.len() {
            1 | 2 => Err(Error::new("busy").retry_after(Duration::from_secs(100))),
            3 => Err(Error::new("broken")),
            _ => Ok(Action::done()),
        };
        async move { outcome }
    });
    workers.queue.add(ObjectKey::cluster("a"), Priority::NORMAL);
    exhaust(workers, 1).await;
    let waits: Vec<_> = times.lock().windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
    // The third failure in a row.
    assert_eq!(waits, [100_000, 100_000, 20]);
}

#[tokio::test(start_paused = true)]
async fn a_requeue_with_jitter_is_never_early() {
    let spread = |random| Action::requeue_after(Duration::from_secs(100)).jitter(0.5).spread_delay(random);
    assert_eq!([0.0, 0.5, 1.0].map(|random| spread(random).unwrap().as_secs()), [100, 125, 150]);
    assert_eq!(Action::requeue_after(Duration::from_secs(1)).spread_delay(1.0), Some(Duration::from_secs(1)));
    assert_eq!(Action::requeue_after(Duration::MAX).jitter(9.0).spread_delay(1.0), Some(Duration::MAX));
    assert_eq!(Action::done().jitter(f64::NAN).spread_delay(1.0), None);
}
