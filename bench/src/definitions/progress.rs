//! Progress of a long phase on standard error.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use windlass_bench::table::thousands;

/// Maximum number of reports.
const STEPS: usize = 10;
/// Phases shorter than this report no progress.
const MIN_REPORTED: Duration = Duration::from_secs(2);

/// Progress of one phase.
#[derive(Debug)]
pub(super) struct Progress {
    what: &'static str,
    count: usize,
    done: AtomicUsize,
    start: Instant,
}

impl Progress {
    /// Progress of an operation that is repeated `count` times.
    pub(super) fn new(count: usize, what: &'static str) -> Self {
        Self { what, count, done: AtomicUsize::new(0), start: Instant::now() }
    }

    /// Counts one more repetition.
    pub(super) fn step(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(self.count.div_ceil(STEPS)) && self.start.elapsed() > MIN_REPORTED {
            eprintln!("    {} of {} {}", thousands(done as u64), thousands(self.count as u64), self.what);
        }
    }
}
