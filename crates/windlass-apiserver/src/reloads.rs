//! Counters of reloaded configuration files, under the names of kube-apiserver.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
};

/// The number of reloads of a file, and the time of the last one.
#[derive(Default)]
pub(crate) struct Reloads {
    success: Outcome,
    failure: Outcome,
}

#[derive(Default)]
struct Outcome {
    count: AtomicU64,
    last: AtomicI64,
}

impl Outcome {
    fn record(&self) {
        self.last.store(windlass_clock::now().as_second(), Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Reloads {
    /// Records that a file has taken effect.
    pub(crate) fn succeeded(&self) {
        self.success.record();
    }

    /// Records that a file could not be read or used.
    pub(crate) fn failed(&self) {
        self.failure.record();
    }

    /// Writes the metrics of a configuration: `authentication` or `authorization`.
    pub(crate) fn render(&self, configuration: &str, out: &mut String) {
        let prefix = format!("apiserver_{configuration}_config_controller_automatic_reload");
        let outcomes = [("success", &self.success), ("failure", &self.failure)];
        let seen = outcomes.map(|(status, outcome)| (status, outcome, outcome.count.load(Ordering::Relaxed)));
        let _ = writeln!(out, "# HELP {prefix}s_total Reloads of the {configuration} configuration by status.");
        let _ = writeln!(out, "# TYPE {prefix}s_total counter");
        for (status, _, count) in seen {
            let _ = writeln!(out, "{prefix}s_total{{status=\"{status}\"}} {count}");
        }
        let _ = writeln!(out, "# HELP {prefix}_last_timestamp_seconds Time of the last reload by status.");
        let _ = writeln!(out, "# TYPE {prefix}_last_timestamp_seconds gauge");
        for (status, outcome, _) in seen.iter().filter(|(_, _, count)| *count > 0) {
            let last = outcome.last.load(Ordering::Relaxed);
            let _ = writeln!(out, "{prefix}_last_timestamp_seconds{{status=\"{status}\"}} {last}");
        }
    }
}
