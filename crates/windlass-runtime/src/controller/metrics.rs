//! Metrics of controllers, under controller-runtime's names.

use std::{sync::Arc, time::Duration};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::{
    controller::causes::{CAUSES, Causes},
    metrics::Metrics,
};

/// Upper bounds of `controller_runtime_reconcile_time_seconds`, in seconds.
const BOUNDS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfController {
    controller: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfResult {
    controller: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCause {
    controller: String,
    cause: &'static str,
}

#[derive(Clone)]
struct Families {
    causes: Family<OfCause, Counter>,
    total: Family<OfResult, Counter>,
    errors: Family<OfController, Counter>,
    terminal: Family<OfController, Counter>,
    panics: Family<OfController, Counter>,
    timeouts: Family<OfController, Counter>,
    time: Family<OfController, Histogram, fn() -> Histogram>,
    workers: Family<OfController, Gauge>,
    active: Family<OfController, Gauge>,
}

impl Families {
    fn new() -> Self {
        Self {
            causes: Family::default(),
            total: Family::default(),
            errors: Family::default(),
            terminal: Family::default(),
            panics: Family::default(),
            timeouts: Family::default(),
            time: Family::new_with_constructor(|| Histogram::new(BOUNDS)),
            workers: Family::default(),
            active: Family::default(),
        }
    }

    fn register(metrics: &Metrics) -> Self {
        let families = Self::new();
        metrics.register(|registry| families.clone().add_to(registry));
        families
    }

    fn add_to(self, registry: &mut Registry) {
        let mut counter = |name: &str, help: &str, family: Family<OfController, Counter>| {
            registry.register(format!("controller_runtime_{name}"), help, family);
        };
        counter("reconcile_errors", "Reconciles that failed", self.errors);
        counter("terminal_reconcile_errors", "Reconciles that failed with a terminal error", self.terminal);
        counter("reconcile_panics", "Reconciles that panicked", self.panics);
        counter("reconcile_timeouts", "Reconciles that timed out", self.timeouts);
        registry.register("controller_runtime_reconcile", "Reconciles, by result", self.total);
        let help = "Reconciles, by cause; one with several causes is counted for each";
        registry.register("windlass_reconcile_causes", help, self.causes);
        registry.register("controller_runtime_reconcile_time_seconds", "Duration of reconciles", self.time);
        registry.register(
            "controller_runtime_max_concurrent_reconciles",
            "Maximum number of concurrent reconciles",
            self.workers,
        );
        registry.register("controller_runtime_active_workers", "Number of running reconciles", self.active);
    }
}

/// Metrics of one controller. They are looked up once, so that counting takes no lock of a metric family.
#[derive(Clone)]
pub(crate) struct Counters {
    pub(crate) success: Counter,
    pub(crate) error: Counter,
    pub(crate) requeue_after: Counter,
    pub(crate) errors: Counter,
    pub(crate) terminal: Counter,
    pub(crate) panics: Counter,
    pub(crate) timeouts: Counter,
    pub(crate) active: Gauge,
    time: Arc<Histogram>,
    causes: Arc<[(&'static str, Counter)]>,
}

impl Counters {
    pub(crate) fn new(metrics: &Metrics, controller: &str, workers: usize) -> Self {
        let families = metrics.shared(Families::register);
        let of = OfController { controller: controller.to_owned() };
        let result =
            |result| families.total.get_or_create_owned(&OfResult { controller: controller.to_owned(), result });
        let cause = |cause| {
            let of = OfCause { controller: controller.to_owned(), cause };
            (cause, families.causes.get_or_create_owned(&of))
        };
        families.workers.get_or_create_owned(&of).set(i64::try_from(workers).unwrap_or(i64::MAX));
        // Never counted, as a requeue always has a delay. Present for dashboards that sum it up.
        result("requeue");
        Self {
            success: result("success"),
            error: result("error"),

            requeue_after: result("requeue_after"),
            errors: families.errors.get_or_create_owned(&of),
            terminal: families.terminal.get_or_create_owned(&of),
            panics: families.panics.get_or_create_owned(&of),
            timeouts: families.timeouts.get_or_create_owned(&of),
            active: families.active.get_or_create_owned(&of),
            time: Arc::new(families.time.get_or_create_owned(&of)),
            causes: CAUSES.map(cause).into(),
        }
    }

    pub(crate) fn caused(&self, causes: &Causes) {
        causes.names(|name| {
            if let Some((_, counter)) = self.causes.iter().find(|(cause, _)| *cause == name) {
                counter.inc();
            }
        });
    }

    pub(crate) fn took(&self, time: Duration) {
        self.time.observe(time.as_secs_f64());
    }
}
