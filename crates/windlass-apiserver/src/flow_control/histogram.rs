//! Histograms that requests update without a lock.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Factor by which values are multiplied in the sum, which is an integer.
const PARTS: f64 = 1e9;

/// The observations of a value, by upper bound.
#[derive(Debug)]
pub(super) struct Histogram<const N: usize> {
    bounds: &'static [f64; N],
    buckets: [AtomicU64; N],
    /// The number of values above the last bound.
    above: AtomicU64,
    sum: AtomicU64,
}

impl<const N: usize> Histogram<N> {
    pub(super) const fn new(bounds: &'static [f64; N]) -> Self {
        Self { bounds, buckets: [const { AtomicU64::new(0) }; N], above: AtomicU64::new(0), sum: AtomicU64::new(0) }
    }

    pub(super) fn observe(&self, value: f64) {
        let bucket = self.bounds.iter().position(|bound| value <= *bound);
        bucket.map_or(&self.above, |bucket| &self.buckets[bucket]).fetch_add(1, Relaxed);
        self.sum.fetch_add((value * PARTS) as u64, Relaxed);
    }

    /// Writes the series with these labels, unless nothing was observed.
    pub(super) fn render(&self, name: &str, labels: &str, out: &mut String) {
        let counts = self.buckets.each_ref().map(|bucket| bucket.load(Relaxed));
        let count = counts.iter().sum::<u64>() + self.above.load(Relaxed);
        if count == 0 {
            return;
        }
        let mut below = 0;
        for (bound, count) in self.bounds.iter().zip(counts) {
            below += count;
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}");
        }
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "{name}_sum{{{labels}}} {}", self.sum.load(Relaxed) as f64 / PARTS);
        let _ = writeln!(out, "{name}_count{{{labels}}} {count}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_counted_in_its_bucket_and_all_larger_ones() {
        let histogram = Histogram::new(&[0.0, 0.5, 2.0]);
        let mut out = String::new();
        histogram.render("h", "a=\"b\"", &mut out);
        assert_eq!(out, "");
        [0.0, 0.5, 0.6, 2.0, 2.5].into_iter().for_each(|value| histogram.observe(value));
        histogram.render("h", "a=\"b\"", &mut out);
        expect_test::expect![[r#"
            h_bucket{a="b",le="0"} 1
            h_bucket{a="b",le="0.5"} 2
            h_bucket{a="b",le="2"} 4
            h_bucket{a="b",le="+Inf"} 5
            h_sum{a="b"} 5.6
            h_count{a="b"} 5
        "#]]
        .assert_eq(&out);
    }
}
