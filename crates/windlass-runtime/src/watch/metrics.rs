//! Numbers of lists and watches, under the names of client-go's reflector.

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

use crate::metrics::Metrics;

/// The families of all watches of a process. A cheap handle.
///
/// | | |
/// |---|---|
/// | `reflector_lists_total` | states fetched, by list or as a stream |
/// | `reflector_list_duration_seconds` | how long each took |
/// | `reflector_items_per_list` | how many objects each had |
/// | `reflector_watches_total` | watches begun |
/// | `reflector_watch_duration_seconds` | how long each lasted |
/// | `reflector_items_per_watch` | how many events each brought |
/// | `reflector_short_watches_total` | watches that ended at once and brought nothing |
/// | `reflector_failures_total` | requests and watches that failed, by `reason` |
/// | `reflector_unreadable_objects_total` | objects passed over since they are not of their type |
/// | `reflector_last_resource_version` | the revision up to which everything is known |
///
/// The label `name` is that of the resource, as in `pods` or `deployments.apps`.
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

/// The numbers of one watch. Without a registry, nothing is counted.
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
    /// Adds the families to a process's metrics. To be done once; a second time would show them twice.
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
            registry.register("reflector_lists", "States fetched, by list or as a stream", all.lists);
            registry.register("reflector_list_duration_seconds", "How long fetching a state took", all.list_duration);
            registry.register("reflector_items_per_list", "Objects in a state that was fetched", all.items_per_list);
            registry.register("reflector_watches", "Watches begun", all.watches);
            registry.register("reflector_watch_duration_seconds", "How long a watch lasted", all.watch_duration);
            registry.register("reflector_items_per_watch", "Events that a watch brought", all.items_per_watch);
            let help = "Watches that ended at once and brought nothing";
            registry.register("reflector_short_watches", help, all.short_watches);
            registry.register("reflector_failures", "Requests and watches that failed", all.failures);
            let help = "Objects passed over since they are not of their type";
            registry.register("reflector_unreadable_objects", help, all.unreadable);
            let help = "The revision up to which everything is known";
            registry.register("reflector_last_resource_version", help, all.last_revision);
        });
        families
    }
}

impl Counts {
    pub(super) fn new(metrics: Option<WatchMetrics>, resource: &ApiResource) -> Self {
        let name = match resource.group.as_str() {
            "" => resource.plural.clone(),
            group => format!("{}.{group}", resource.plural),
        };
        let of = metrics.map(|metrics| (metrics, Name { name }));
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
