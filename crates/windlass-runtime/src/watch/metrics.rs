//! Metrics of lists and watches, under the names of client-go's reflector.

use kube::core::ApiResource;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
};

use super::failure::REASONS;
use crate::metrics::Metrics;

/// Metric families of all watches of a process. A cheap handle.
///
/// | | |
/// |---|---|
/// | `reflector_lists_total` | lists, including streaming lists |
/// | `reflector_list_duration_seconds` | duration of lists |
/// | `reflector_items_per_list` | number of objects per list |
/// | `reflector_watches_total` | watches started |
/// | `reflector_watch_duration_seconds` | duration of watches |
/// | `reflector_items_per_watch` | number of events per watch |
/// | `reflector_short_watches_total` | watches that ended at once without an event |
/// | `reflector_failures_total` | failed lists and watches, by `reason` |
/// | `reflector_unreadable_objects_total` | objects skipped because they failed to deserialize |
/// | `reflector_last_resource_version` | latest resource version that was observed |
///
/// The label `name` is the resource, such as `pods` or `deployments.apps`.
#[derive(Clone, Debug)]
pub struct WatchMetrics {
    lists: Family<Name, Counter>,
    list_duration: Family<Name, Histogram>,
    items_per_list: Family<Name, Histogram>,
    watches: Family<Name, Counter>,
    watch_duration: Family<Name, Histogram>,
    items_per_watch: Family<Name, Histogram>,
    short_watches: Family<Name, Counter>,
    failures: Family<FailureLabels, Counter>,
    unreadable: Family<Name, Counter>,
    last_revision: Family<Name, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Name {
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    name: String,
    reason: &'static str,
}

/// Metrics of one watch. Without a registry, nothing is counted.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    of: Option<(WatchMetrics, Name)>,
    /// Set with every event, so it is looked up once.
    last_revision: Option<Gauge>,
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.005, 4.0, 10))
}

fn items() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 10.0, 7))
}

impl WatchMetrics {
    /// Registers the families. Must be called once per [`Metrics`]; a second call would duplicate them.
    pub fn register(metrics: &Metrics) -> Self {
        let families = Self {
            lists: Family::default(),
            list_duration: Family::new_with_constructor(seconds as fn() -> Histogram),
            items_per_list: Family::new_with_constructor(items as fn() -> Histogram),
            watches: Family::default(),
            watch_duration: Family::new_with_constructor(seconds as fn() -> Histogram),
            items_per_watch: Family::new_with_constructor(items as fn() -> Histogram),
            short_watches: Family::default(),
            failures: Family::default(),
            unreadable: Family::default(),
            last_revision: Family::default(),
        };
        let all = families.clone();
        metrics.register(|registry| {
            registry.register("reflector_lists", "Lists, including streaming lists", all.lists);
            registry.register("reflector_list_duration_seconds", "Duration of lists", all.list_duration);
            registry.register("reflector_items_per_list", "Number of objects per list", all.items_per_list);
            registry.register("reflector_watches", "Watches begun", all.watches);
            registry.register("reflector_watch_duration_seconds", "Duration of watches", all.watch_duration);
            registry.register("reflector_items_per_watch", "Number of events per watch", all.items_per_watch);
            let help = "Watches that ended at once without an event";
            registry.register("reflector_short_watches", help, all.short_watches);
            registry.register("reflector_failures", "Failed lists and watches", all.failures);
            let help = "Objects skipped because they failed to deserialize";
            registry.register("reflector_unreadable_objects", help, all.unreadable);
            let help = "Latest resource version that was observed";
            registry.register("reflector_last_resource_version", help, all.last_revision);
        });
        families
    }

    /// Removes the metrics of a resource that is no longer watched.
    pub(crate) fn forget(&self, resource: &ApiResource) {
        let name = Name::of(resource);
        for counters in [&self.lists, &self.watches, &self.short_watches, &self.unreadable] {
            counters.remove(&name);
        }
        for histograms in [&self.list_duration, &self.items_per_list, &self.watch_duration, &self.items_per_watch] {
            histograms.remove(&name);
        }
        self.last_revision.remove(&name);
        for reason in REASONS {
            self.failures.remove(&FailureLabels { name: name.name.clone(), reason });
        }
    }
}

impl Name {
    fn of(resource: &ApiResource) -> Self {
        let name = match resource.group.as_str() {
            "" => resource.plural.clone(),
            group => format!("{}.{group}", resource.plural),
        };
        Self { name }
    }
}

impl Counts {
    pub(super) fn new(metrics: Option<WatchMetrics>, resource: &ApiResource) -> Self {
        let of = metrics.map(|metrics| (metrics, Name::of(resource)));
        let last_revision = of.as_ref().map(|(metrics, name)| metrics.last_revision.get_or_create(name).clone());
        Self { of, last_revision }
    }

    pub(super) fn listed(&self, took: std::time::Duration, objects: usize) {
        if let Some((metrics, name)) = &self.of {
            metrics.lists.get_or_create(name).inc();
            metrics.list_duration.get_or_create(name).observe(took.as_secs_f64());
            metrics.items_per_list.get_or_create(name).observe(objects as f64);
        }
    }

    pub(super) fn watch_began(&self) {
        if let Some((metrics, name)) = &self.of {
            metrics.watches.get_or_create(name).inc();
        }
    }

    pub(super) fn watch_ended(&self, lasted: std::time::Duration, events: u64) {
        if let Some((metrics, name)) = &self.of {
            metrics.watch_duration.get_or_create(name).observe(lasted.as_secs_f64());
            metrics.items_per_watch.get_or_create(name).observe(events as f64);
        }
    }

    pub(super) fn short_watch(&self) {
        if let Some((metrics, name)) = &self.of {
            metrics.short_watches.get_or_create(name).inc();
        }
    }

    pub(super) fn failed(&self, reason: &'static str) {
        if let Some((metrics, Name { name })) = &self.of {
            metrics.failures.get_or_create(&FailureLabels { name: name.clone(), reason }).inc();
        }
    }

    pub(super) fn unreadable(&self) {
        if let Some((metrics, name)) = &self.of {
            metrics.unreadable.get_or_create(name).inc();
        }
    }

    pub(super) fn revision(&self, revision: u64) {
        if let Some(last) = &self.last_revision {
            last.set(revision.try_into().unwrap_or(i64::MAX));
        }
    }
}
