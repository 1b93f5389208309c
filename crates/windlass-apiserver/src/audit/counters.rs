//! The metrics of auditing, under the names of kube-apiserver.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tracing::error;

use super::Level;

/// Interval at which failures are logged.
const LOG_EVERY: Duration = Duration::from_secs(5);

/// The part of auditing that lost an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plugin {
    /// The queue of a backend, which was full.
    Buffered,
    /// The log.
    Log,
    /// The truncation of large events.
    Truncate,
    /// The webhook.
    Webhook,
}

const PLUGINS: [(Plugin, &str); 4] = [
    (Plugin::Buffered, "buffered"),
    (Plugin::Log, "log"),
    (Plugin::Truncate, "truncate"),
    (Plugin::Webhook, "webhook"),
];

/// The counters.
#[derive(Default)]
pub(crate) struct Counters {
    events: AtomicU64,
    rejected: AtomicU64,
    levels: [AtomicU64; Level::ALL.len()],
    errors: [AtomicU64; PLUGINS.len()],
    logged: Mutex<Logged>,
}

/// Time of the last log message, and the number of events lost since.
#[derive(Default)]
struct Logged {
    last: Option<Instant>,
    since: usize,
}

impl Counters {
    pub(super) fn level(&self, level: Level) {
        self.levels[level as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts lost events, and logs their number periodically.
    pub(super) fn error(&self, plugin: Plugin, events: usize, why: &str) {
        self.errors[plugin as usize].fetch_add(events as u64, Ordering::Relaxed);
        let mut logged = self.logged.lock();
        logged.since += events;
        if logged.last.is_none_or(|last| last.elapsed() >= LOG_EVERY) {
            let name = PLUGINS[plugin as usize].1;
            error!(plugin = name, "lost {} audit events: {why}", std::mem::take(&mut logged.since));
            logged.last = Some(Instant::now());
        }
    }

    /// Appends the metrics in the Prometheus text format.
    pub(crate) fn render(&self, out: &mut String) {
        let mut family = |name: &str, help: &str, series: &[(String, u64)]| {
            let _ = writeln!(out, "# HELP apiserver_audit_{name} {help}\n# TYPE apiserver_audit_{name} counter");
            for (labels, count) in series {
                let _ = writeln!(out, "apiserver_audit_{name}{labels} {count}");
            }
        };
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let plain = |counter: &AtomicU64| [(String::new(), count(counter))];
        let errors: Vec<_> = PLUGINS
            .iter()
            .zip(&self.errors)
            .map(|((_, name), counter)| (format!("{{plugin=\"{name}\"}}"), count(counter)))
            .collect();
        let levels: Vec<_> = Level::ALL
            .iter()
            .zip(&self.levels)
            .map(|(level, counter)| (format!("{{level=\"{}\"}}", level.as_str()), count(counter)))
            .collect();
        family("error_total", "Counter of audit events that were lost, by the plugin that lost them.", &errors);
        family("event_total", "Counter of audit events sent to the backends.", &plain(&self.events));
        family("level_total", "Counter of policy levels for audit events (1 per request).", &levels);
        let help = "Counter of requests rejected due to an error in an audit backend.";
        family("requests_rejected_total", help, &plain(&self.rejected));
    }
}
