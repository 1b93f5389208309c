//! Prometheus metrics, under controller-runtime's names.
//!
//! Each module of the runtime defines its metric families next to the code that counts, and registers them here. A
//! program adds its own in the same way:
//!
//! ```
//! use prometheus_client::metrics::counter::Counter;
//! use windlass_runtime::metrics::{Metrics, TextFormat};
//!
//! let metrics = Metrics::new();
//! let rollouts: Counter = Counter::default();
//! metrics.register(|registry| registry.register("foo_rollouts", "Rollouts begun", rollouts.clone()));
//! rollouts.inc();
//! assert!(metrics.encode_as(TextFormat::Prometheus).contains("\nfoo_rollouts_total 1\n"));
//! ```

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::Arc,
};

use parking_lot::Mutex;
use prometheus_client::registry::Registry;

mod merge;
mod process;
mod text;

pub use text::TextFormat;

/// All metrics of a process. A cheap handle.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    /// Values created by `shared`, by their type.
    shared: Arc<Mutex<HashMap<TypeId, Box<dyn Any + Send + Sync>>>>,
    /// Metrics of parts of the process, with a label.
    attached: Arc<Mutex<Vec<Attached>>>,
}

/// Metrics with a label.
#[derive(Clone, Debug)]
struct Attached {
    label: &'static str,
    value: Arc<str>,
    metrics: Metrics,
}

impl Metrics {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers metric families. The name of a counter must omit the suffix `_total`, which is added when it is
    /// encoded.
    pub fn register<T>(&self, add: impl FnOnce(&mut Registry) -> T) -> T {
        add(&mut self.registry.lock())
    }

    /// Returns metric families that several users share, as all controllers do. The first call registers them.
    pub fn shared<T: Clone + Send + Sync + 'static>(&self, register: impl FnOnce(&Self) -> T) -> T {
        let mut shared = self.shared.lock();
        let families = shared.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(register(self)));
        families.downcast_ref::<T>().expect("families are stored by their type").clone()
    }

    /// Registers `process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_open_fds` and other values that
    /// the kernel keeps about this process. They are read at each scrape. Does nothing without `/proc`.
    pub fn register_process(&self) {
        self.register(process::register);
    }

    /// Adds the metrics of a part of the process, with a label. Replaces those with the same value.
    pub(crate) fn attach(&self, label: &'static str, value: &Arc<str>, metrics: &Self) {
        let mut attached = self.attached.lock();
        attached.retain(|one| one.value != *value);
        attached.push(Attached { label, value: value.clone(), metrics: metrics.clone() });
    }

    /// Removes the metrics with this value of the label.
    pub(crate) fn detach(&self, value: &str) {
        self.attached.lock().retain(|one| &*one.value != value);
    }

    /// Encodes all metrics as OpenMetrics text.
    pub fn encode(&self) -> String {
        self.encode_as(TextFormat::OpenMetrics)
    }

    /// Encodes all metrics in a format.
    pub fn encode_as(&self, format: TextFormat) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry.lock())
            .expect("writing to a string must succeed");
        let attached = self.attached.lock().clone();
        if !attached.is_empty() {
            let parts = attached.iter().map(|one| (Some((one.label, &*one.value)), one.metrics.encode()));
            text = merge::merge(std::iter::once((None, text)).chain(parts));
        }
        match format {
            TextFormat::OpenMetrics => text,
            TextFormat::Prometheus => text::to_prometheus(&text),
        }
    }
}
