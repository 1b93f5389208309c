//! Metrics of daemons.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};

use crate::metrics::Metrics;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfController {
    controller: String,
}

#[derive(Clone, Default)]
struct Families {
    running: Family<OfController, Gauge>,
    failures: Family<OfController, Counter>,
}

/// Metrics of the daemons of one controller.
pub(super) struct DaemonMetrics {
    pub(super) running: Gauge,
    pub(super) failures: Counter,
}

impl DaemonMetrics {
    pub(super) fn new(metrics: &Metrics, controller: &str) -> Self {
        let families = metrics.shared(|metrics| {
            let families = Families::default();
            metrics.register(|registry| {
                registry.register("windlass_daemons_running", "Number of running daemons", families.running.clone());
                let help = "Daemons that failed or panicked";
                registry.register("windlass_daemon_failures", help, families.failures.clone());
            });
            families
        });
        let of = OfController { controller: controller.to_owned() };
        Self {
            running: families.running.get_or_create_owned(&of),
            failures: families.failures.get_or_create_owned(&of),
        }
    }
}
