//! Counters of a flow schema in a priority level.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use super::{
    histogram::{Histogram, Unit, nanoseconds},
    queue_set::Rejection,
};

const MILLIS: u64 = 1_000_000;

/// The upper bounds of the histograms of times, in nanoseconds.
const TIMES: [u64; 13] = [
    0,
    5 * MILLIS,
    20 * MILLIS,
    50 * MILLIS,
    100 * MILLIS,
    200 * MILLIS,
    500 * MILLIS,
    1000 * MILLIS,
    2000 * MILLIS,
    5000 * MILLIS,
    10_000 * MILLIS,
    15_000 * MILLIS,
    30_000 * MILLIS,
];

/// The upper bounds of the histogram of queue lengths.
const QUEUE_LENGTHS: [u64; 8] = [0, 10, 25, 50, 100, 250, 500, 1000];
/// The upper bounds of the histogram of seats.
const SEATS: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 100];

/// The counters of a flow schema.
#[derive(Debug)]
pub(super) struct Statistics {
    current: Current,
    /// By [`Rejection`].
    pub(super) rejected: [AtomicU64; 3],
    pub(super) waiting: AtomicUsize,
    pub(super) waiting_seats: AtomicUsize,
    /// Waiting times of rejected and of executed requests.
    pub(super) waits: [Histogram<13>; 2],
    /// Times of executed requests: of watches, until they have started, and of others.
    pub(super) executions: [Histogram<13>; 2],
    /// Seats that requests need.
    pub(super) seats: Histogram<8>,
    /// Lengths of queues, with the request that entered them.
    pub(super) queue_lengths: Histogram<8>,
}

/// The counters that almost every request changes, in one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Current {
    dispatched: AtomicU64,
    /// Requests with one seat that passed an empty queue, and that the histograms do not have yet.
    passed: AtomicU64,
    /// Requests of an exempt level, with one seat, that the histogram does not have yet.
    exempt: AtomicU64,
    executing: AtomicUsize,
    /// The seats of executing requests beyond the first of each.
    more_seats: AtomicUsize,
    /// The highest number of executing seats since it was last taken.
    highest: AtomicUsize,
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            current: Current::default(),
            rejected: Default::default(),
            waiting: AtomicUsize::default(),
            waiting_seats: AtomicUsize::default(),
            waits: [const { Histogram::new(Unit::Nanosecond, &TIMES) }; 2],
            executions: [const { Histogram::new(Unit::Nanosecond, &TIMES) }; 2],
            seats: Histogram::new(Unit::One, &SEATS),
            queue_lengths: Histogram::new(Unit::One, &QUEUE_LENGTHS),
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
    /// Records the seats that a request needs, and the length of the queue that it has entered, if any.
    pub(super) fn entered(&self, seats: usize, length: Option<usize>) {
        self.seats.observe(seats as u64);
        if let Some(length) = length {
            self.queue_lengths.observe(length as u64);
        }
    }

    /// Records a request with one seat that passed an empty queue and executes.
    pub(super) fn passed(&self) {
        self.current.passed.fetch_add(1, Relaxed);
        self.current.executing.fetch_add(1, Relaxed);
    }

    /// Records a request of an exempt level, with one seat, that executes.
    pub(super) fn began_exempt(&self) {
        self.current.exempt.fetch_add(1, Relaxed);
        self.executes(1);
    }

    /// Records a request that executes.
    pub(super) fn began(&self, seats: usize) {
        self.current.dispatched.fetch_add(1, Relaxed);
        self.executes(seats);
    }

    fn executes(&self, seats: usize) {
        let Current { executing, more_seats, highest, .. } = &self.current;
        let now = executing.fetch_add(1, Relaxed) + 1;
        let more = match seats.saturating_sub(1) {
            0 => more_seats.load(Relaxed),
            more => more_seats.fetch_add(more, Relaxed) + more,
        };
        if now + more > highest.load(Relaxed) {
            highest.fetch_max(now + more, Relaxed);
        }
    }

    pub(super) fn ended(&self, seats: usize) {
        self.current.executing.fetch_sub(1, Relaxed);
        if seats > 1 {
            self.current.more_seats.fetch_sub(seats - 1, Relaxed);
        }
    }

    /// Adds the requests that passed an empty queue, and those of an exempt level, to the counters and histograms. Must
    /// be called before these are read.
    pub(super) fn settle(&self) {
        let exempt = self.current.exempt.swap(0, Relaxed);
        if exempt > 0 {
            self.current.dispatched.fetch_add(exempt, Relaxed);
            self.seats.observe_many(1, exempt);
        }
        let passed = self.current.passed.swap(0, Relaxed);
        if passed > 0 {
            self.current.dispatched.fetch_add(passed, Relaxed);
            self.seats.observe_many(1, passed);
            self.queue_lengths.observe_many(1, passed);
            self.waits[1].observe_many(0, passed);
        }
    }

    /// Returns the number of requests that were executed.
    pub(super) fn dispatched(&self) -> u64 {
        let Current { dispatched, passed, exempt, .. } = &self.current;
        [dispatched, passed, exempt].iter().map(|count| count.load(Relaxed)).sum()
    }

    /// Returns the number of executing requests.
    pub(super) fn executing(&self) -> usize {
        self.current.executing.load(Relaxed)
    }

    /// Returns the number of seats of executing requests.
    pub(super) fn executing_seats(&self) -> usize {
        self.executing() + self.current.more_seats.load(Relaxed)
    }

    /// Returns the highest number of executing seats since the last call, for an exempt level.
    pub(super) fn take_highest(&self) -> usize {
        self.current.highest.swap(self.executing_seats(), Relaxed)
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
        self.waits[usize::from(executed)].observe(nanoseconds(time));
    }

    pub(super) fn executed(&self, time: Duration, is_watch: bool) {
        self.executions[usize::from(is_watch)].observe(nanoseconds(time));
    }
}
