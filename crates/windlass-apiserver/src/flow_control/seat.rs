//! Requests that wait or run, as drop guards: a request that is dropped leaves its queue or frees its seats.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::oneshot::{self, Receiver, Sender},
    time::Instant,
};

use super::{
    configuration::Flow,
    queue_set::{Id, QueueSet, Work},
    retry_after::RetryAfter,
};

/// The changing state of a priority level, which outlives changes of its configuration.
pub(super) struct LevelState {
    pub(super) queues: Mutex<Queues>,
    pub(super) retry: Mutex<RetryAfter>,
}

/// The queues of a level, and the tasks that wait in them.
pub(super) struct Queues {
    pub(super) set: QueueSet,
    waiting: HashMap<Id, Sender<()>>,
}

impl Queues {
    pub(super) fn new(set: QueueSet) -> Self {
        Self { set, waiting: HashMap::new() }
    }

    /// Returns a channel that gets a message when the request is dispatched.
    pub(super) fn wait(&mut self, id: Id) -> Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.insert(id, sender);
        receiver
    }

    /// Wakes the tasks whose requests were dispatched.
    pub(super) fn wake_dispatched(&mut self) {
        for id in self.set.take_dispatched() {
            if let Some(sender) = self.waiting.remove(&id) {
                // A receiver that was dropped is about to finish the request.
                let _ = sender.send(());
            }
        }
    }
}

/// A request that runs; its seats are freed when this is dropped.
pub(crate) struct Seat {
    flow: Arc<Flow>,
    /// `None` in an exempt level.
    id: Option<Id>,
    work: Work,
    /// The time from which the other times are counted.
    start: Instant,
    began: Duration,
    /// Whether the request is a watch, for metrics.
    pub(super) is_watch: bool,
}

impl Seat {
    /// A request that needs no seat.
    pub(super) fn exempt(flow: Arc<Flow>, start: Instant, began: Duration) -> Self {
        flow.statistics.began_exempt();
        Self { flow, id: None, work: Work::ONE, start, began, is_watch: false }
    }

    /// A request that did not wait. `length` is the length of its queue, if it went through one.
    pub(super) fn at_once(
        flow: Arc<Flow>,
        id: Id,
        work: Work,
        length: Option<usize>,
        (start, began): (Instant, Duration),
    ) -> Self {
        let seats = work.max_seats();
        if (seats, length) == (1, Some(1)) {
            flow.statistics.passed();
        } else {
            flow.statistics.entered(seats, length);
            flow.statistics.waited(Duration::ZERO, true);
            flow.statistics.began(seats);
        }
        Self { flow, id: Some(id), work, start, began, is_watch: false }
    }

    /// A request that has waited.
    fn after_waiting(flow: Arc<Flow>, id: Id, work: Work, start: Instant) -> Self {
        flow.statistics.began(work.max_seats());
        Self { flow, id: Some(id), work, start, began: start.elapsed(), is_watch: false }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.flow.statistics.ended(self.work.max_seats());
        let now = self.start.elapsed();
        self.flow.statistics.executed(now.saturating_sub(self.began), self.is_watch);
        if let Some(id) = self.id {
            finish(&self.flow, id, self.start, now);
        }
    }
}

/// Ends a request. If it keeps its seats for a moment, a task frees them.
fn finish(flow: &Arc<Flow>, id: Id, start: Instant, now: Duration) {
    let mut queues = flow.level.shared.queues.lock();
    let linger = queues.set.finish(now, id);
    queues.wake_dispatched();
    drop(queues);
    let Some(linger) = linger else { return };
    let flow = flow.clone();
    let release = move || {
        let mut queues = flow.level.shared.queues.lock();
        queues.set.release(start.elapsed(), id);
        queues.wake_dispatched();
    };
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn(async move {
            tokio::time::sleep(linger).await;
            release();
        })),
        // The runtime is shutting down.
        Err(_) => release(),
    }
}

/// A request in a queue; it leaves the queue when this is dropped.
pub(super) struct Waiting {
    flow: Arc<Flow>,
    id: Id,
    work: Work,
    start: Instant,
    dispatched: Receiver<()>,
    /// Whether a [`Seat`] has taken over.
    over: bool,
}

impl Waiting {
    pub(super) fn new(flow: Arc<Flow>, id: Id, work: Work, start: Instant, dispatched: Receiver<()>) -> Self {
        flow.statistics.queued(work.max_seats());
        Self { flow, id, work, start, dispatched, over: false }
    }

    /// Resolves when the request may run.
    pub(super) async fn dispatched(&mut self) {
        // The sender is dropped only after it has sent.
        let _ = (&mut self.dispatched).await;
    }

    pub(super) fn into_seat(mut self) -> Seat {
        self.over = true;
        Seat::after_waiting(self.flow.clone(), self.id, self.work, self.start)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.flow.statistics.dequeued(self.work.max_seats());
        if self.over {
            return;
        }
        let mut queues = self.flow.level.shared.queues.lock();
        queues.waiting.remove(&self.id);
        let cancelled = queues.set.cancel(self.start.elapsed(), self.id);
        queues.wake_dispatched();
        drop(queues);
        if !cancelled {
            // It was dispatched meanwhile.
            finish(&self.flow, self.id, self.start, self.start.elapsed());
        }
    }
}
