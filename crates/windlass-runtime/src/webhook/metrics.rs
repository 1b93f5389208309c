//! Metrics of webhooks, under controller-runtime's names.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
};

use crate::metrics::Metrics;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Hook {
    pub(super) webhook: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct HookCode {
    pub(super) webhook: String,
    pub(super) code: u16,
}

#[derive(Clone, Debug)]
pub(super) struct WebhookMetrics {
    pub(super) latency: Family<Hook, Histogram>,
    pub(super) requests: Family<HookCode, Counter>,
    pub(super) in_flight: Family<Hook, Gauge>,
    pub(super) panics: Counter,
    pub(super) conversion_panics: Counter,
    pub(super) certificates: CertificateMetrics,
}

/// Metrics of certificates that are read from files, of all servers of the process.
#[derive(Clone, Debug)]
pub(crate) struct CertificateMetrics {
    pub(super) reads: Counter,
    pub(super) errors: Counter,
}

impl CertificateMetrics {
    /// Returns the metrics, which are registered once.
    pub(crate) fn shared(metrics: &Metrics) -> Self {
        metrics.shared(|metrics| {
            let this = Self { reads: Counter::default(), errors: Counter::default() };
            metrics.register(|registry| {
                registry.register(
                    "certwatcher_read_certificate",
                    "Total number of certificate reads",
                    this.reads.clone(),
                );
                registry.register(
                    "certwatcher_read_certificate_errors",
                    "Total number of certificate read errors",
                    this.errors.clone(),
                );
            });
            this
        })
    }
}

impl WebhookMetrics {
    pub(super) fn register(metrics: &Metrics) -> Self {
        let this = Self {
            latency: Family::new_with_constructor(|| Histogram::new(exponential_buckets(10e-9, 10.0, 12))),
            requests: Family::default(),
            in_flight: Family::default(),
            panics: Counter::default(),
            conversion_panics: Counter::default(),
            certificates: CertificateMetrics::shared(metrics),
        };
        // Counters get the suffix `_total` when they are encoded.
        metrics.register(|registry| {
            registry.register(
                "controller_runtime_webhook_latency_seconds",
                "Histogram of the latency of processing admission requests",
                this.latency.clone(),
            );
            registry.register(
                "controller_runtime_webhook_requests",
                "Total number of admission requests by HTTP status code",
                this.requests.clone(),
            );
            registry.register(
                "controller_runtime_webhook_requests_in_flight",
                "Current number of admission requests being served",
                this.in_flight.clone(),
            );
            registry.register(
                "controller_runtime_webhook_panics",
                "Total number of webhook panics",
                this.panics.clone(),
            );
            registry.register(
                "controller_runtime_conversion_webhook_panics",
                "Total number of conversion webhook panics",
                this.conversion_panics.clone(),
            );
        });
        this
    }

    /// Reports a path before its first request.
    pub(super) fn announce(&self, path: &str) {
        let hook = Hook { webhook: path.to_owned() };
        drop(self.latency.get_or_create(&hook));
        drop(self.in_flight.get_or_create(&hook));
        for code in [200, 500] {
            drop(self.requests.get_or_create(&HookCode { webhook: path.to_owned(), code }));
        }
    }
}
