//! Workers: take keys from the queue, run attempts, and report the results back to the queue.

use std::{future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::time::Instant;
use tracing::Instrument;
use uuid::Uuid;

use crate::{
    Error, Result,
    context::ContextError,
    controller::{Action, metrics::Counters},
    key::ObjectKey,
    lease::Shard,
    queue::{Queue, Work},
};

/// Handles one key.
pub(crate) trait Handle: Send + Sync + 'static {
    fn handle(&self, key: &ObjectKey) -> impl Future<Output = Result<Action>> + Send;
}

/// State that the workers of a controller share.
pub(crate) struct Workers<H> {
    pub(crate) controller: Arc<str>,
    pub(crate) queue: Queue<ObjectKey>,
    pub(crate) handler: H,
    pub(crate) timeout: Option<Duration>,
    pub(crate) counters: Counters,
    pub(crate) shard: Shard,
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
            );
            self.attempt(work).instrument(span).await;
        }
    }

    async fn attempt(&self, work: Work<ObjectKey>) {
        let _active = Active::new(&self.counters);
        let began = Instant::now();
        let attempt = AssertUnwindSafe(self.handler.handle(work.key())).catch_unwind();
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
        self.counters.took(began.elapsed());
        let Some(outcome) = outcome else { return lost(work) };
        match outcome {
            Ok(Ok(Err(error))) if is_key_lost(&error) => lost(work),
            Ok(Ok(Ok(action))) => self.succeeded(work, action),
            Ok(Ok(Err(error))) if error.is_terminal() => {
                self.failed();
                self.counters.terminal.inc();
                tracing::error!(%error, "reconcile failed with a terminal error; not retrying until something changes");
                work.done();
            }
            Ok(Ok(Err(error))) => {
                self.failed();
                // Another write came first. Nothing is wrong: the next attempt sees it.
                if is_conflict(&error) {
                    tracing::info!(%error, "conflict; trying again");
                } else if is_race_with_deletion(&error, work.attempts()) {
                    tracing::info!(%error, "something was deleted at the same time; trying again");
                } else {
                    tracing::error!(%error, failures = work.attempts() + 1, "reconcile failed");
                }
                work.retry();
            }
            Ok(Err(panic)) => {
                self.failed();
                self.counters.panics.inc();
                tracing::error!(panic = crate::panic::message(panic.as_ref()), "reconcile panicked");
                work.retry();
            }
            Err(limit) => {
                self.failed();
                self.counters.timeouts.inc();
                tracing::error!(?limit, "reconcile timed out and was dropped");
                work.retry();
            }
        }
    }

    fn succeeded(&self, work: Work<ObjectKey>, action: Action) {
        match action.delay() {
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

    fn failed(&self) {
        self.counters.errors.inc();
        self.counters.error.inc();
    }
}

/// The key belongs to another replica, which reconciles it now. If the key returns, so does all work on it.
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
