//! A key that a worker has.

use std::{fmt, hash::Hash, sync::Arc, time::Duration};

use super::{
    Priority, Shared,
    slots::Slot,
    state::{Taken, Verdict},
};
use crate::controller::{Causes, OwnChanges};

/// A key that a worker has. No other worker gets the same key until this is dropped; if the key was added in the
/// meantime, it is queued again then.
///
/// A worker ends it with [`done`](Self::done), [`requeue_after`](Self::requeue_after), [`retry`](Self::retry) or
/// [`retry_after`](Self::retry_after).
/// Dropping it is a retry: the worker was stopped or panicked, and its progress is unknown.
#[must_use = "dropped work is retried"]
pub struct Work<T: Clone + Eq + Hash> {
    shared: Arc<Shared<T>>,
    slot: Slot,
    key: T,
    priority: Priority,
    failures: u32,
    causes: Causes,
    told: bool,
}

impl<T: Clone + Eq + Hash> Work<T> {
    pub(super) fn new(shared: Arc<Shared<T>>, taken: Taken<T>) -> Self {
        let Taken { slot, key, priority, failures, causes } = taken;
        Self { shared, slot, key, priority, failures, causes, told: false }
    }

    /// Returns why the key was added.
    pub(crate) fn causes(&self) -> &Causes {
        &self.causes
    }

    /// Returns the key.
    pub fn key(&self) -> &T {
        &self.key
    }

    /// Returns the priority that it had.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Returns the number of consecutive failures of the key: 0 the first time, and after each success.
    pub fn attempts(&self) -> u32 {
        self.failures
    }

    /// Reports success, or that a retry is useless. Resets the failures.
    pub fn done(mut self) {
        self.finish(Verdict::Done);
    }

    /// Reports success, and requeues the key after a delay, or earlier if it is added. Resets the failures, and keeps
    /// the priority.
    pub fn requeue_after(mut self, delay: Duration) {
        self.finish(Verdict::After(delay));
    }

    /// Reports a failure. The key is retried after its backoff, which grows with each failure, with the same priority.
    pub fn retry(mut self) {
        self.finish(Verdict::Retry);
    }

    /// Reports a failure, and retries the key after this delay instead of the backoff, or earlier if it is added. The
    /// delay is stretched at random by up to the [jitter](super::RateLimit::jitter).
    pub fn retry_after(mut self, delay: Duration) {
        self.finish(Verdict::RetryAfter(delay));
    }

    /// Reports a failure like [`retry`](Self::retry), or [`retry_after`](Self::retry_after) with a delay. Events that the
    /// attempt itself has caused do not make the key ready earlier.
    pub(crate) fn retry_despite(mut self, own: OwnChanges, delay: Option<Duration>) {
        self.told = true;
        self.shared.change(|state, now| {
            state.disregard(self.slot, own);
            state.finish(now, self.slot, delay.map_or(Verdict::Retry, Verdict::RetryAfter));
        });
    }

    fn finish(&mut self, verdict: Verdict) {
        if !std::mem::replace(&mut self.told, true) {
            self.shared.change(|state, now| state.finish(now, self.slot, verdict));
        }
    }
}

impl<T: Clone + Eq + Hash> Drop for Work<T> {
    fn drop(&mut self) {
        self.finish(Verdict::Retry);
    }
}

impl<T: Clone + Eq + Hash + fmt::Debug> fmt::Debug for Work<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("key", &self.key)
            .field("priority", &self.priority)
            .field("attempts", &self.failures)
            .finish_non_exhaustive()
    }
}
