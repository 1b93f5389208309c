//! Counters of a flow schema in a priority level.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use super::{histogram::Histogram, queue_set::Rejection};

/// The upper bounds of the histograms of times, in seconds.
const SECONDS: [f64; 13] = [0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];

/// The upper bounds of the histogram of queue lengths.
const QUEUE_LENGTHS: [f64; 8] = [0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];
/// The upper bounds of the histogram of seats.
const SEATS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0];

/// The counters of a flow schema.
#[derive(Debug)]
pub(super) struct Statistics {
    pub(super) dispatched: AtomicU64,
    /// By [`Rejection`].
    pub(super) rejected: [AtomicU64; 3],
    pub(super) executing: AtomicUsize,
    pub(super) executing_seats: AtomicUsize,
    /// The highest number of executing seats since it was last taken.
    highest: AtomicUsize,
    pub(super) waiting: AtomicUsize,
    pub(super) waiting_seats: AtomicUsize,
    /// Waiting times of requests that were rejected and of those that were executed.
    pub(super) waits: [Histogram<13>; 2],
    /// Times of executed requests: of watches, until they have started, and of others.
    pub(super) executions: [Histogram<13>; 2],
    /// Seats that requests need.
    pub(super) seats: Histogram<8>,
    /// Lengths of queues, with the request that entered them.
    pub(super) queue_lengths: Histogram<8>,
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            dispatched: AtomicU64::default(),
            rejected: Default::default(),
            executing: AtomicUsize::default(),
            executing_seats: AtomicUsize::default(),
            highest: AtomicUsize::default(),
            waiting: AtomicUsize::default(),
            waiting_seats: AtomicUsize::default(),
            waits: [const { Histogram::new(&SECONDS) }; 2],
            executions: [const { Histogram::new(&SECONDS) }; 2],
            seats: Histogram::new(&SEATS),
            queue_lengths: Histogram::new(&QUEUE_LENGTHS),
        }
    }
}

impl Rejection {
    pub(super) const ALL: [Self; 3] = [Self::ConcurrencyLimit, Self::QueueFull, Self::TimeOut];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::ConcurrencyLimit => "concurrency-limit",
            Self::QueueFull => "queue-full",
            Self::TimeOut => "time-out",
        }
    }
}

impl Statistics {
    pub(super) fn began(&self, seats: usize) {
        self.dispatched.fetch_add(1, Relaxed);
        self.executing.fetch_add(1, Relaxed);
        let now = self.executing_seats.fetch_add(seats, Relaxed) + seats;
        if now > self.highest.load(Relaxed) {
            self.highest.fetch_max(now, Relaxed);
        }
    }

    pub(super) fn ended(&self, seats: usize) {
        self.executing.fetch_sub(1, Relaxed);
        self.executing_seats.fetch_sub(seats, Relaxed);
    }

    /// Returns the highest number of executing seats since the last call.
    pub(super) fn take_highest(&self) -> usize {
        self.highest.swap(self.executing_seats.load(Relaxed), Relaxed)
    }

    pub(super) fn queued(&self, seats: usize) {
        self.waiting.fetch_add(1, Relaxed);
        self.waiting_seats.fetch_add(seats, Relaxed);
    }

    pub(super) fn dequeued(&self, seats: usize) {
        self.waiting.fetch_sub(1, Relaxed);
        self.waiting_seats.fetch_sub(seats, Relaxed);
    }

    pub(super) fn rejected(&self, why: Rejection) {
        self.rejected[why as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn waited(&self, time: Duration, executed: bool) {
        self.waits[usize::from(executed)].observe(time.as_secs_f64());
    }

    pub(super) fn executed(&self, time: Duration, is_watch: bool) {
        self.executions[usize::from(is_watch)].observe(time.as_secs_f64());
    }
}
