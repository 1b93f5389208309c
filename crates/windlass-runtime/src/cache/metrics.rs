//! Metrics of informers.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use kube::core::ApiResource;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};

use super::Event;
use crate::{metrics::Metrics, scope::Scope};

/// Labels of an informer.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    group: String,
    version: String,
    resource: String,
    /// Namespace and selectors, if any.
    scope: String,
    /// `metadata` if only metadata is kept.
    form: String,
}

/// Metric families of all informers of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct CacheMetrics {
    revision: Family<Labels, Gauge>,
    objects: Family<Labels, Gauge>,
    unreadable: Family<Labels, Gauge>,
    added: Family<Labels, Counter>,
    updated: Family<Labels, Counter>,
    deleted: Family<Labels, Counter>,
}

/// Metrics of one informer. They are removed from the families when it is removed or dropped.
pub(super) struct InformerMetrics {
    families: Arc<CacheMetrics>,
    labels: Labels,
    revision: Gauge,
    objects: Gauge,
    unreadable: Gauge,
    added: Counter,
    updated: Counter,
    deleted: Counter,
    removed: AtomicBool,
}

impl CacheMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let families = Self::default();
        metrics.register(|registry| {
            registry.register(
                "informer_store_resource_version",
                "Revision up to which the informer's watch has delivered everything",
                families.revision.clone(),
            );
            registry.register(
                "informer_objects",
                "Number of objects in the informer's cache",
                families.objects.clone(),
            );
            registry.register(
                "informer_unreadable_objects",
                "Number of objects whose newest state failed to deserialize",
                families.unreadable.clone(),
            );
            for (name, family) in
                [("added", &families.added), ("updated", &families.updated), ("deleted", &families.deleted)]
            {
                let help = format!("Number of objects that the informer has seen {name}");
                registry.register(format!("informer_events_{name}"), help, family.clone());
            }
        });
        families
    }
}

impl InformerMetrics {
    pub(super) fn new(families: &Arc<CacheMetrics>, resource: &ApiResource, scope: &Scope, metadata: bool) -> Self {
        let scope: Vec<&str> =
            [&scope.namespace, &scope.labels, &scope.fields].into_iter().flatten().map(String::as_str).collect();
        let labels = Labels {
            group: resource.group.clone(),
            version: resource.version.clone(),
            resource: resource.plural.clone(),
            scope: scope.join(";"),
            form: if metadata { "metadata".into() } else { String::new() },
        };
        Self {
            revision: families.revision.get_or_create_owned(&labels),
            objects: families.objects.get_or_create_owned(&labels),
            unreadable: families.unreadable.get_or_create_owned(&labels),
            added: families.added.get_or_create_owned(&labels),
            updated: families.updated.get_or_create_owned(&labels),
            deleted: families.deleted.get_or_create_owned(&labels),
            families: families.clone(),
            labels,
            removed: AtomicBool::new(false),
        }
    }

    /// Removes the metrics from the families. Does nothing the second time, as they may be those of a successor.
    pub(super) fn remove(&self) {
        if !self.removed.swap(true, Ordering::Relaxed) {
            self.families.revision.remove(&self.labels);
            self.families.objects.remove(&self.labels);
            self.families.unreadable.remove(&self.labels);
            self.families.added.remove(&self.labels);
            self.families.updated.remove(&self.labels);
            self.families.deleted.remove(&self.labels);
        }
    }

    pub(super) fn count<K: ?Sized>(&self, event: &Event<K>) {
        match event {
            Event::Added { .. } => self.added.inc(),
            Event::Updated { .. } => self.updated.inc(),
            Event::Deleted { .. } => self.deleted.inc(),
        };
    }

    pub(super) fn set(&self, objects: usize, revision: u64, unreadable: usize) {
        self.unreadable.set(i64::try_from(unreadable).unwrap_or(i64::MAX));
        self.objects.set(i64::try_from(objects).unwrap_or(i64::MAX));
        self.revision.set(i64::try_from(revision).unwrap_or(i64::MAX));
    }
}

impl Drop for InformerMetrics {
    fn drop(&mut self) {
        self.remove();
    }
}
