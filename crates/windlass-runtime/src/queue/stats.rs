//! Statistics of a queue, under the same lock as its keys.

use std::{collections::BTreeMap, time::Duration};

use super::Priority;

/// Upper bounds in seconds: client-go's, powers of ten from 10 ns to 1000 s.
pub(super) const BOUNDS: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0];

#[derive(Clone, Debug, Default)]
pub(super) struct Stats {
    /// Keys that became ready.
    pub(super) adds: u64,
    /// Keys that were delayed, after a failure or otherwise.
    pub(super) retries: u64,
    /// Time from ready to a worker.
    pub(super) queued: Durations,
    /// Time with a worker.
    pub(super) worked: Durations,
    /// Number of ready keys by priority. Computed on request, like the following fields.
    pub(super) depths: BTreeMap<Priority, usize>,
    /// Total age of the keys that are held now.
    pub(super) unfinished: Duration,
    /// Age of the key that is held longest.
    pub(super) longest: Duration,
}

/// Histogram of durations.
#[derive(Clone, Debug, Default)]
pub(super) struct Durations {
    pub(super) sum: Duration,
    pub(super) count: u64,
    /// Number of durations per bucket; the last one is for those beyond all bounds.
    pub(super) buckets: [u64; BOUNDS.len() + 1],
}

impl Durations {
    pub(super) fn observe(&mut self, took: Duration) {
        self.sum = self.sum.saturating_add(took);
        self.count += 1;
        let nanoseconds = took.as_nanos();
        // The bounds are powers of ten: the number of digits determines the bucket.
        let digits = nanoseconds.saturating_sub(1).checked_ilog10().unwrap_or(0) as usize;
        self.buckets[digits.min(BOUNDS.len())] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_within_the_least_bound_that_holds_it() {
        for nanoseconds in [0, 1, 9, 10, 11, 100, 101, 999_999, 1_000_000, 1_000_001, 10u64.pow(12), 10u64.pow(12) + 1]
        {
            let mut durations = Durations::default();
            durations.observe(Duration::from_nanos(nanoseconds));
            let expected = BOUNDS.iter().position(|bound| (bound * 1e9).round() as u64 >= nanoseconds);
            let found = durations.buckets.iter().position(|count| *count == 1);
            assert_eq!(found, Some(expected.unwrap_or(BOUNDS.len())), "{nanoseconds} ns");
        }
    }
}
