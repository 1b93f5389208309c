//! A work queue: which keys to work on, and when.
//!
//! A [`Queue`] holds each key once. [`Queue::next`] hands it to one worker as [`Work`], and to no other until that
//! worker reports the result.
//!
//! - **Deduplication.** A key that is added again while it waits still waits once, with the higher priority and the
//!   shorter delay. A key that is added while a worker has it is queued again when the worker is done, behind keys that
//!   have waited in the meantime.
//! - **Order.** Higher priorities first, and first in, first out within a priority. One of every 16 keys is the one
//!   that has waited longest regardless of priority, so that a steady flow of events cannot delay a resync forever: a
//!   key behind `n` others is handed out within `16 (n + 1)` keys.
//! - **Failures.** A failed key is retried after a delay that grows with each consecutive failure ([`RateLimit`]). An
//!   ordinary add makes it ready at once, unless [`RateLimit::keep_backoff`] is set. Failures are counted only while a
//!   key is in the queue or held.
//! - **Nothing is lost.** Work that is dropped without a result, by a panic or because its task was aborted, counts as
//!   failed. Dropping the future of [`Queue::next`] loses nothing.
//! - **Cost.** Adding, taking and finishing a key cost the same with a thousand keys and with a million; a delay costs
//!   its logarithm. One waiting worker keeps the timer of all delayed keys: the queue has no task of its own.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use windlass_runtime::queue::{Priority, Queue};
//!
//! let queue = Queue::new();
//! queue.add("old", Priority::LOW);
//! queue.add("new", Priority::NORMAL);
//! queue.add("new", Priority::NORMAL);
//! queue.drain();
//!
//! let mut seen = Vec::new();
//! while let Some(work) = queue.next().await {
//!     seen.push(*work.key());
//!     work.done();
//! }
//! assert_eq!(seen, ["new", "old"]);
//! # }
//! ```

use std::{fmt, hash::Hash, pin::pin, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

mod builder;
mod metrics;
mod rate_limit;
mod ready;
mod slots;
mod state;
mod stats;
#[cfg(test)]
mod tests;
mod work;

pub use builder::QueueBuilder;
pub use metrics::QueueMetrics;
pub use rate_limit::{Bucket, RateLimit};
use state::{State, Taken, When};
pub use work::Work;

use crate::controller::Causes;

/// Priority of a key; higher is sooner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub i32);

impl Priority {
    /// Initial list and resyncs: after all new events. The same value as in controller-runtime.
    pub const LOW: Self = Self(-100);
    /// New events.
    pub const NORMAL: Self = Self(0);
}

/// A queue of keys. A cheap handle: clones share it.
pub struct Queue<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<T: Clone + Eq + Hash + Send + 'static> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.shared.inner.lock();
        f.debug_struct("Queue")
            .field("name", &self.shared.name)
            .field("delayed", &inner.state.delayed())
            .field("held", &inner.state.held())
            .finish_non_exhaustive()
    }
}

struct Shared<T> {
    name: String,
    inner: Mutex<Inner<T>>,
    /// Wakes a waiting worker. A worker that takes a key wakes the next if there are more, so one permit is enough.
    wake: Notify,
    /// Wakes the worker that keeps the timer, when a delayed key is due sooner than it expects.
    rearm: Notify,
}

/// Locked only for a few map operations, and never across an await.
struct Inner<T> {
    state: State<T>,
    /// Number of waiting workers.
    idle: usize,
    /// Whether one of them keeps the timer, and until when it sleeps.
    clock: Option<Option<Instant>>,
}

impl Queue<()> {
    /// Returns a builder for a queue, which has a name in metrics.
    pub fn builder(name: impl Into<String>) -> QueueBuilder {
        QueueBuilder::new(name.into())
    }
}

impl<T: Clone + Eq + Hash + Send + 'static> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Clone + Eq + Hash + Send + 'static> Queue<T> {
    /// Creates an empty queue with the default [`RateLimit`].
    pub fn new() -> Self {
        Queue::builder("").build()
    }

    /// Adds a key that is ready at once. If it already waits with the same or a higher priority, it keeps its place;
    /// otherwise it moves behind the others of the higher priority. Does nothing when the queue is closed.
    pub fn add(&self, key: T, priority: Priority) {
        self.add_caused(key, priority, Causes::default());
    }

    /// Like [`add`](Self::add), with a reason for the worker.
    pub(crate) fn add_caused(&self, key: T, priority: Priority, causes: Causes) {
        self.shared.change(|state, now| state.add_caused(now, key, priority, When::Now, causes));
    }

    /// Adds a key after a delay. If it already waits, the shorter delay and the higher priority apply. Does nothing
    /// when the queue is closed.
    pub fn add_after(&self, key: T, delay: Duration, priority: Priority) {
        let at = |now| When::after(now, delay);
        self.shared.change(|state, now| state.add_caused(now, key, priority, at(now), Causes::default()));
    }

    /// Returns the next key; `None` when the queue is closed and no more keys will be ready.
    ///
    /// Cancel safe: a dropped future has taken nothing. Waiting workers are woken in order.
    pub async fn next(&self) -> Option<Work<T>> {
        if let Some(work) = self.try_next() {
            return Some(work);
        }
        loop {
            // Created before the check, so that later changes are not missed.
            let mut woken = pin!(self.shared.wake.notified());
            woken.as_mut().enable();
            let waiting = match self.look() {
                Look::Work(work) => return Some(work),
                Look::Over => return None,
                Look::Wait(waiting) => waiting,
            };
            match waiting.clock {
                None => woken.await,
                Some(deadline) => {
                    let due = async {
                        match deadline {
                            Some(deadline) => tokio::time::sleep_until(deadline).await,
                            None => std::future::pending().await,
                        }
                    };
                    tokio::select! {
                        () = woken => {}
                        () = self.shared.rearm.notified() => {}
                        () = due => {}
                    }
                }
            }
            waiting.look_again();
        }
    }

    /// Returns the next key if one is ready now.
    pub fn try_next(&self) -> Option<Work<T>> {
        let mut inner = self.shared.inner.lock();
        let taken = inner.state.pop(Instant::now())?;
        Some(self.hand_out(inner, taken))
    }

    fn hand_out(&self, inner: parking_lot::MutexGuard<'_, Inner<T>>, taken: Taken<T>) -> Work<T> {
        // A waiting worker is needed for other ready keys, or to take over the timer.
        let unkept = inner.clock.is_none() && inner.state.next_deadline().is_some();
        let more = inner.idle > 0 && (inner.state.ready_now() > 0 || unkept);
        let over = inner.state.is_over();
        drop(inner);
        if more {
            self.shared.wake.notify_one();
        }
        if over {
            self.shared.wake.notify_waiters();
        }
        Work::new(self.shared.clone(), taken)
    }

    fn look(&self) -> Look<'_, T> {
        let mut inner = self.shared.inner.lock();
        if let Some(taken) = inner.state.pop(Instant::now()) {
            return Look::Work(self.hand_out(inner, taken));
        }
        if inner.state.is_over() {
            return Look::Over;
        }
        inner.idle += 1;
        let keeps_clock = inner.clock.is_none();
        let clock = keeps_clock.then(|| inner.state.next_deadline());
        if keeps_clock {
            inner.clock = clock;
        }
        Look::Wait(Waiting { shared: &self.shared, clock, looks_again: false })
    }

    /// Accepts no more keys and drops delayed ones. Keys that are ready are still handed out, as are those that were
    /// added while a worker had them.
    pub fn drain(&self) {
        self.shared.change(|state, now| state.close(now, true));
    }

    /// Accepts no more keys, and drops all keys that no worker holds.
    pub fn close(&self) {
        self.shared.change(|state, now| state.close(now, false));
    }

    /// Returns the number of ready keys.
    pub fn len(&self) -> usize {
        self.shared.inner.lock().state.ready(Instant::now())
    }

    /// Returns whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of keys that are not ready yet: added with a delay, or failed.
    pub fn delayed(&self) -> usize {
        let mut inner = self.shared.inner.lock();
        inner.state.ready(Instant::now());
        inner.state.delayed()
    }

    /// Returns the number of keys that workers have.
    pub fn held(&self) -> usize {
        self.shared.inner.lock().state.held()
    }
}

enum Look<'a, T: Clone + Eq + Hash> {
    Work(Work<T>),
    Over,
    Wait(Waiting<'a, T>),
}

/// A waiting worker. If it is dropped while it keeps the timer, another is woken to keep it.
struct Waiting<'a, T: Clone + Eq + Hash> {
    shared: &'a Shared<T>,
    /// Whether it keeps the timer, and until when.
    clock: Option<Option<Instant>>,
    looks_again: bool,
}

impl<T: Clone + Eq + Hash> Waiting<'_, T> {
    /// Stops waiting in order to check again at once. Wakes no other worker: this one keeps the timer again, or wakes
    /// another when it takes a key. Two workers that woke each other here would never yield the thread.
    fn look_again(mut self) {
        self.looks_again = true;
    }
}

impl<T: Clone + Eq + Hash> Drop for Waiting<'_, T> {
    fn drop(&mut self) {
        let mut inner = self.shared.inner.lock();
        inner.idle -= 1;
        if self.clock.is_some() {
            inner.clock = None;
            let hand_over = !self.looks_again && inner.idle > 0 && inner.state.next_deadline().is_some();
            drop(inner);
            if hand_over {
                self.shared.wake.notify_one();
            }
        }
    }
}

impl<T: Clone + Eq + Hash> Shared<T> {
    /// Changes the state, then wakes workers as needed.
    fn change(&self, change: impl FnOnce(&mut State<T>, Instant)) {
        let mut inner = self.inner.lock();
        change(&mut inner.state, Instant::now());
        if inner.idle == 0 {
            return;
        }
        if inner.state.is_over() {
            drop(inner);
            return self.wake.notify_waiters();
        }
        let ready = inner.state.ready_now() > 0;
        let deadline = inner.state.next_deadline();
        let clock = inner.clock;
        drop(inner);
        let unkept = deadline.is_some() && clock.is_none();
        let late =
            clock.is_some_and(|until| deadline.is_some_and(|deadline| until.is_none_or(|until| deadline < until)));
        if ready || unkept {
            self.wake.notify_one();
        }
        if late {
            self.rearm.notify_one();
        }
    }
}

impl<T: Clone + Eq + Hash + Send> metrics::Counted for Shared<T> {
    fn stats(&self) -> stats::Stats {
        self.inner.lock().state.stats(Instant::now())
    }
}
