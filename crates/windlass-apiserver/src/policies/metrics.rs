//! Counters of the checks of policies, under the names of kube-apiserver.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use parking_lot::Mutex;
use windlass_schema::field::quote;

/// The upper bounds of the latency histograms, in seconds.
const BUCKETS: [f64; 5] = [0.000_000_5, 0.001, 0.01, 0.1, 1.0];

/// The counters of all policies. Only checks that deny, warn, audit, change an object or fail are counted.
#[derive(Default)]
pub(crate) struct PolicyMetrics {
    pub(super) validating: Checks,
    pub(super) mutating: Checks,
}

/// The checks of validating or mutating policies.
#[derive(Default)]
pub(super) struct Checks(Mutex<BTreeMap<[String; 4], Series>>);

/// The labels of a check.
#[derive(Debug, Clone, Copy)]
pub(super) struct Check<'a> {
    pub(super) policy: &'a str,
    pub(super) binding: &'a str,
    pub(super) error: &'static str,
    /// Empty for mutating policies.
    pub(super) action: &'static str,
}

#[derive(Default)]
struct Series {
    count: u64,
    seconds: f64,
    buckets: [u64; BUCKETS.len()],
}

impl Checks {
    pub(super) fn observe(&self, check: Check<'_>, took: Duration) {
        let Check { policy, binding, error, action } = check;
        let labels = [policy, binding, error, action].map(str::to_owned);
        let mut all = self.0.lock();
        let series = all.entry(labels).or_default();
        let seconds = took.as_secs_f64();
        series.count += 1;
        series.seconds += seconds;
        if let Some(bucket) = BUCKETS.iter().position(|bound| seconds <= *bound) {
            series.buckets[bucket] += 1;
        }
    }

    fn render(&self, out: &mut String, kind: &str, what: &str) {
        let all = self.0.lock();
        if all.is_empty() {
            return;
        }
        let name = format!("apiserver_{kind}_admission_policy_check");
        let labels = |[policy, binding, error, action]: &[String; 4]| {
            let [policy, binding] = [quote(policy), quote(binding)];
            let action = if action.is_empty() { String::new() } else { format!("enforcement_action=\"{action}\",") };
            format!("{action}error_type=\"{error}\",policy={policy},policy_binding={binding}")
        };
        let _ = writeln!(out, "# HELP {name}_total {what} checks by policy, binding and action.");
        let _ = writeln!(out, "# TYPE {name}_total counter");
        for (key, series) in all.iter() {
            let _ = writeln!(out, "{name}_total{{{}}} {}", labels(key), series.count);
        }
        let _ = writeln!(out, "# HELP {name}_duration_seconds {what} latency of one expression in seconds.");
        let _ = writeln!(out, "# TYPE {name}_duration_seconds histogram");
        for (key, series) in all.iter() {
            let labels = labels(key);
            let mut below = 0;
            for (bound, count) in BUCKETS.iter().zip(series.buckets) {
                below += count;
                let _ = writeln!(out, "{name}_duration_seconds_bucket{{{labels},le=\"{bound}\"}} {below}");
            }
            let _ = writeln!(out, "{name}_duration_seconds_bucket{{{labels},le=\"+Inf\"}} {}", series.count);
            let _ = writeln!(out, "{name}_duration_seconds_sum{{{labels}}} {}", series.seconds);
            let _ = writeln!(out, "{name}_duration_seconds_count{{{labels}}} {}", series.count);
        }
    }
}

impl PolicyMetrics {
    /// Writes the metrics in the Prometheus text format.
    pub(crate) fn render(&self, out: &mut String) {
        self.validating.render(out, "validating", "Validation admission policy");
        self.mutating.render(out, "mutating", "Mutation admission policy");
    }
}
