//! Counters of a flow schema in a priority level.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;

use super::queue_set::Rejection;

/// The upper bounds of the histogram of waiting times, in seconds.
pub(super) const BUCKETS: [f64; 13] = [0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];

/// The counters of a flow schema.
#[derive(Debug, Default)]
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
    pub(super) waits: [Mutex<Histogram>; 2],
}

#[derive(Debug, Default, Clone)]
pub(super) struct Histogram {
    pub(super) count: u64,
    pub(super) sum: f64,
    pub(super) buckets: [u64; BUCKETS.len()],
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
        let mut histogram = self.waits[usize::from(executed)].lock();
        let seconds = time.as_secs_f64();
        histogram.count += 1;
        histogram.sum += seconds;
        if let Some(bucket) = BUCKETS.iter().position(|bound| seconds <= *bound) {
            histogram.buckets[bucket] += 1;
        }
    }
}
