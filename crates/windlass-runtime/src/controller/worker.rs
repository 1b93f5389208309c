//! Workers: take keys from the queue, run attempts, and report the results back to the queue.

use std::{future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::time::Instant;
use tracing::Instrument;
use uuid::Uuid;

use crate::{
    Error, Result,
    context::ContextError,
    controller::{
        Action, Causes, OwnChanges, Report,
        attempt_record::AttemptRecord,
        metrics::Counters,
        recent::{RecentReconcile, RecentReconciles},
    },
    key::ObjectKey,
    lease::Shard,
    queue::{Queue, Work},
    random,
};

/// Handles one key.
pub(crate) trait Handle: Send + Sync + 'static {
    fn handle(&self, key: &ObjectKey, attempt: &Attempt) -> impl Future<Output = Result<Action>> + Send;

    /// Returns whether [`failed`](Self::failed) does anything.
    fn minds_errors(&self) -> bool {
        false
    }

    /// Returns the changes of the object by a failed attempt, if nothing else has changed but its status.
    fn own_changes(&self, key: &ObjectKey, attempt: &Attempt) -> Option<OwnChanges> {
        let _ = (key, attempt);
        None
    }

    /// Called when an attempt has failed, before the key is retried.
    fn failed(&self, key: &ObjectKey, attempt: &Attempt, error: Arc<Error>) -> impl Future<Output = ()> + Send {
        let _ = (key, attempt, error);
        std::future::ready(())
    }
}

/// Information for a handler about an attempt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attempt {
    /// Consecutive failures before this attempt.
    pub(crate) failures: u32,
    pub(crate) causes: Causes,
    /// State that the daemon of the object has reported.
    pub(crate) report: Option<Report>,
    pub(crate) record: AttemptRecord,
}

/// State that the workers of a controller share.
pub(crate) struct Workers<H> {
    pub(crate) controller: Arc<str>,
    pub(crate) queue: Queue<ObjectKey>,
    pub(crate) handler: H,
    pub(crate) timeout: Option<Duration>,
    pub(crate) counters: Counters,
    pub(crate) shard: Shard,
    pub(crate) recent: Option<Arc<RecentReconciles>>,
}

/// Counts a worker as active until its attempt ends.
struct Active<'a>(&'a Counters);

impl<'a> Active<'a> {
    fn new(counters: &'a Counters) -> Self {
        counters.active.inc();
        Self(counters)
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.active.dec();
    }
}

impl<H: Handle> Workers<H> {
    /// Works until the queue is closed. Can be dropped at any time: its key returns to the queue.
    pub(crate) async fn work(self: Arc<Self>) {
        let ids = Ids::new();
        let mut count = 0;
        while let Some(work) = self.queue.next().await {
            // A queue that is never empty must not block the thread, nor keep this worker from being stopped.
            tokio::task::coop::consume_budget().await;
            if !self.shard.owns(work.key()) {
                work.done();
                continue;
            }
            count += 1;
            let key = work.key();
            let span = tracing::info_span!(
                "reconcile",
                controller = &*self.controller,
                namespace = key.namespace(),
                // Not `name`, which is the name of the span in JSON logs.
                object = key.name(),
                reconcile_id = %ids.get(count),
                causes = %work.causes(),
            );
            self.attempt(work).instrument(span).await;
        }
    }

    async fn attempt(&self, work: Work<ObjectKey>) {
        let _active = Active::new(&self.counters);
        let began = Instant::now();
        self.counters.caused(work.causes());
        let record = AttemptRecord::default();
        let about = Attempt { failures: work.attempts(), causes: work.causes().clone(), report: None, record };
        let attempt = AssertUnwindSafe(self.handler.handle(work.key(), &about)).catch_unwind();
        let attempt = async {
            match self.timeout {
                None => Ok(attempt.await),
                Some(limit) => tokio::time::timeout(limit, attempt).await.map_err(|_| limit),
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = attempt => Some(outcome),
            () = self.shard.lost(work.key()) => None,
        };
        let took = began.elapsed();
        self.counters.took(took);
        if let Some(recent) = &self.recent {
            let result = result(outcome.as_ref());
            let (key, causes) = (work.key().clone(), about.causes.clone());
            recent.record(RecentReconcile { key, causes, ended: windlass_clock::now(), took, result });
        }
        let Some(outcome) = outcome else { return lost(work) };
        let error = match outcome {
            Ok(Ok(Ok(action))) => return self.succeeded(work, action),
            Ok(Ok(Err(error))) if is_key_lost(&error) => return lost(work),
            Ok(Ok(Err(error))) if is_conflict(&error) && !error.is_terminal() => {
                self.count_failure();
                // Another write came first. Nothing is wrong: the next attempt sees it.
                tracing::info!(%error, "conflict; retrying");
                return retry(work, error.retry_delay());
            }
            Ok(Ok(Err(error))) if is_race_with_deletion(&error, work.attempts()) && !error.is_terminal() => {
                self.count_failure();
                tracing::info!(%error, "something was deleted at the same time; retrying");
                return retry(work, error.retry_delay());
            }
            Ok(Ok(Err(error))) => {
                if error.is_terminal() {
                    self.counters.terminal.inc();
                    tracing::error!(%error, "reconcile failed with a terminal error; not retrying until something changes");
                } else {
                    tracing::error!(%error, failures = work.attempts() + 1, "reconcile failed");
                }
                error
            }
            Ok(Err(panic)) => {
                self.counters.panics.inc();
                let message = crate::panic::message(panic.as_ref());
                tracing::error!(panic = message, "reconcile panicked");
                Error::new(format!("the reconcile panicked: {message}"))
            }
            Err(limit) => {
                self.counters.timeouts.inc();
                tracing::error!(?limit, "reconcile timed out and was dropped");
                Error::new(format!("the reconcile took longer than {limit:?}"))
            }
        };
        self.count_failure();
        let (terminal, delay) = (error.is_terminal(), error.retry_delay());
        if self.handler.minds_errors() {
            tokio::select! {
                () = self.handler.failed(work.key(), &about, Arc::new(error)) => {}
                () = self.shard.lost(work.key()) => return lost(work),
            }
        }
        match self.handler.own_changes(work.key(), &about) {
            _ if terminal => work.done(),
            Some(own) => work.retry_despite(own, delay),
            None => retry(work, delay),
        }
    }

    fn succeeded(&self, work: Work<ObjectKey>, action: Action) {
        match action.spread_delay(random::fraction()) {
            None => {
                self.counters.success.inc();
                work.done();
            }
            Some(delay) => {
                self.counters.requeue_after.inc();
                work.requeue_after(delay);
            }
        }
    }

    fn count_failure(&self) {
        self.counters.errors.inc();
        self.counters.error.inc();
    }
}

/// Outcome of an attempt: a panic of the reconciler is an error of the second level, a timeout one of the first.
type Outcome = std::result::Result<std::thread::Result<Result<Action>>, Duration>;

/// Returns the name of an outcome, as in the metrics; `None` if the attempt was dropped.
fn result(outcome: Option<&Outcome>) -> &'static str {
    match outcome {
        Some(Ok(Ok(Ok(action)))) if action.delay().is_some() => "requeue_after",
        Some(Ok(Ok(Ok(_)))) => "success",
        Some(Ok(Ok(Err(_)))) => "error",
        Some(Ok(Err(_))) => "panic",
        Some(Err(_)) => "timeout",
        None => "dropped",
    }
}

/// Retries a key after its backoff, or after a delay of its own.
fn retry(work: Work<ObjectKey>, delay: Option<Duration>) {
    match delay {
        Some(delay) => work.retry_after(delay),
        None => work.retry(),
    }
}

/// The key belongs to another replica, which reconciles it now. If the key returns, all its work returns too.
fn lost(work: Work<ObjectKey>) {
    tracing::info!("the object belongs to another replica now; dropping the reconcile");
    work.done();
}

fn is_key_lost(error: &Error) -> bool {
    error.downcast_ref::<ContextError>().is_some_and(ContextError::is_key_lost)
}

fn is_conflict(error: &Error) -> bool {
    match (error.downcast_ref::<ContextError>(), error.downcast_ref::<kube::Error>()) {
        (Some(error), _) => error.is_conflict(),
        (_, Some(kube::Error::Api(status))) => status.code == 409 && status.reason == "Conflict",
        _ => false,
    }
}

/// Returns whether an object or a namespace was deleted while it was in use. An object that is still missing at the second
/// attempt is a problem.
fn is_race_with_deletion(error: &Error, attempts: u32) -> bool {
    let error = error.downcast_ref::<ContextError>();
    error.is_some_and(|error| error.is_namespace_terminating() || attempts == 0 && error.is_not_found())
}

/// Reconcile IDs: random per worker, then counted, so that an ID costs no system call.
struct Ids {
    high: u64,
    low: u64,
}

impl Ids {
    fn new() -> Self {
        let (high, low) = Uuid::new_v4().as_u64_pair();
        Self { high, low }
    }

    fn get(&self, count: u64) -> Uuid {
        Uuid::from_u64_pair(self.high, self.low.wrapping_add(count))
    }
}

#[cfg(test)]
pub(crate) mod tests;
