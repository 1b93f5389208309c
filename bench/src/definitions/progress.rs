//! How far a long phase is, told on standard error.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use windlass_bench::table::thousands;

/// How often it is told, at most.
const STEPS: usize = 10;
/// What is over sooner needs no word.
const PATIENCE: Duration = Duration::from_secs(2);

/// The progress of one phase.
#[derive(Debug)]
pub(super) struct Progress {
    what: &'static str,
    count: usize,
    done: AtomicUsize,
    start: Instant,
}

impl Progress {
    /// Of something that is done so many times.
    pub(super) fn new(count: usize, what: &'static str) -> Self {
        Self { what, count, done: AtomicUsize::new(0), start: Instant::now() }
    }

    /// One more is done.
    pub(super) fn step(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(self.count.div_ceil(STEPS)) && self.start.elapsed() > PATIENCE {
            eprintln!("    {} of {} {}", thousands(done as u64), thousands(self.count as u64), self.what);
        }
    }
}
