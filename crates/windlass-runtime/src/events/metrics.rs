//! Metrics of events.

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue},
    metrics::{counter::Counter, family::Family},
};

use super::correlator::Dropped;
use crate::metrics::Metrics;

/// Metrics of recorders: `windlass_events_written_total`, the successful requests, and `windlass_events_dropped_total`,
/// the dropped occurrences by `cause`.
#[derive(Clone, Debug, Default)]
pub struct EventMetrics {
    written: Counter,
    dropped: Family<Cause, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Cause {
    cause: CauseName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "these are the label values of dashboards")]
enum CauseName {
    queue_full,
    rate_limited,
    rejected,
    given_up,
    evicted,
}

impl EventMetrics {
    /// Registers the metrics. Must be called once per process, and shared by its recorders.
    pub fn register(metrics: &Metrics) -> Self {
        let families = Self::default();
        metrics.register(|registry| {
            let help = "Events created and series updated";
            registry.register("windlass_events_written", help, families.written.clone());
            let help = "Occurrences that were recorded but not written";
            registry.register("windlass_events_dropped", help, families.dropped.clone());
        });
        families
    }

    /// Returns the number of successful requests.
    pub fn written(&self) -> u64 {
        self.written.get()
    }

    /// Returns the number of dropped occurrences of all causes.
    pub fn dropped(&self) -> u64 {
        use CauseName::{evicted, given_up, queue_full, rate_limited, rejected};
        let causes = [queue_full, rate_limited, rejected, given_up, evicted];
        causes.into_iter().map(|cause| self.dropped.get_or_create(&Cause { cause }).get()).sum()
    }

    pub(super) fn count_written(&self) {
        self.written.inc();
    }

    pub(super) fn count_dropped(&self, dropped: Dropped) {
        let cause = match dropped {
            Dropped::QueueFull => CauseName::queue_full,
            Dropped::RateLimited => CauseName::rate_limited,
            Dropped::Rejected => CauseName::rejected,
            Dropped::GivenUp => CauseName::given_up,
            Dropped::Evicted => CauseName::evicted,
        };
        self.dropped.get_or_create(&Cause { cause }).inc();
    }
}
