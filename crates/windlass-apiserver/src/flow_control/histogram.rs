//! Histograms that requests update without a lock.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// The observations of a value, by upper bound. The sum and the counts of the smallest values, which change with most
/// requests, share a cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Histogram<const N: usize> {
    sum: AtomicU64,
    buckets: [AtomicU64; N],
    /// The number of values above the last bound.
    above: AtomicU64,
    bounds: &'static [u64; N],
    unit: Unit,
}

/// The unit of the values of a histogram. Sums are integers, so each unit is as small as it must be, and no smaller:
/// a sum of nanoseconds lasts for centuries, a sum of counts for longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Counts, shown as they are.
    One,
    /// Durations, shown in seconds.
    Nanosecond,
}

impl Unit {
    /// The number of units in the unit that is shown.
    fn per_shown(self) -> f64 {
        match self {
            Self::One => 1.0,
            Self::Nanosecond => 1e9,
        }
    }
}

/// Returns a duration in the unit of histograms.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl<const N: usize> Histogram<N> {
    pub(crate) const fn new(unit: Unit, bounds: &'static [u64; N]) -> Self {
        let buckets = [const { AtomicU64::new(0) }; N];
        Self { sum: AtomicU64::new(0), buckets, above: AtomicU64::new(0), bounds, unit }
    }

    pub(crate) fn observe(&self, value: u64) {
        self.observe_many(value, 1);
    }

    /// Adds a value that was observed several times.
    pub(crate) fn observe_many(&self, value: u64, times: u64) {
        let bucket = self.bounds.iter().position(|bound| value <= *bound);
        bucket.map_or(&self.above, |bucket| &self.buckets[bucket]).fetch_add(times, Relaxed);
        self.sum.fetch_add(value.saturating_mul(times), Relaxed);
    }

    /// Returns the number of observations.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().chain([&self.above]).map(|count| count.load(Relaxed)).sum()
    }

    /// Writes the series with these labels, unless nothing was observed.
    pub(crate) fn render(&self, name: &str, labels: &str, out: &mut String) {
        let counts = self.buckets.each_ref().map(|bucket| bucket.load(Relaxed));
        let count = counts.iter().sum::<u64>() + self.above.load(Relaxed);
        if count == 0 {
            return;
        }
        let shown = |value: u64| value as f64 / self.unit.per_shown();
        let mut below = 0;
        for (bound, count) in self.bounds.iter().zip(counts) {
            below += count;
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{}\"}} {below}", shown(*bound));
        }
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "{name}_sum{{{labels}}} {}", shown(self.sum.load(Relaxed)));
        let _ = writeln!(out, "{name}_count{{{labels}}} {count}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered<const N: usize>(histogram: &Histogram<N>) -> String {
        let mut out = String::new();
        histogram.render("h", "a=\"b\"", &mut out);
        out
    }

    #[test]
    fn a_value_is_counted_in_its_bucket_and_all_larger_ones() {
        let histogram = Histogram::new(Unit::Nanosecond, &[0, 5_000_000, 2_000_000_000]);
        assert_eq!(rendered(&histogram), "");
        for millis in [0, 5, 6, 2000, 2500] {
            histogram.observe(nanoseconds(Duration::from_millis(millis)));
        }
        expect_test::expect![[r#"
            h_bucket{a="b",le="0"} 1
            h_bucket{a="b",le="0.005"} 2
            h_bucket{a="b",le="2"} 4
            h_bucket{a="b",le="+Inf"} 5
            h_sum{a="b"} 4.511
            h_count{a="b"} 5
        "#]]
        .assert_eq(&rendered(&histogram));
    }

    #[test]
    fn the_sum_of_many_counts_does_not_start_again() {
        let histogram = Histogram::new(Unit::One, &[1, 10]);
        histogram.observe(1);
        // A year of 1,000 requests per second with 10 seats each.
        histogram.observe_many(10, 365 * 24 * 3600 * 1000);
        expect_test::expect![[r#"
            h_bucket{a="b",le="1"} 1
            h_bucket{a="b",le="10"} 31536000001
            h_bucket{a="b",le="+Inf"} 31536000001
            h_sum{a="b"} 315360000001
            h_count{a="b"} 31536000001
        "#]]
        .assert_eq(&rendered(&histogram));
    }
}
