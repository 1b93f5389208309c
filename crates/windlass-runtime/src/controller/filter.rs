//! Filters of events, known as predicates in controller-runtime.
//!
//! A filter sees the states before and after an event. Filters for *changes* pass creations, deletions and resyncs: a
//! resync exists to correct what was missed, so only [`Filter::new`] can exclude it.
//!
//! ```
//! use k8s_openapi::api::apps::v1::Deployment;
//! use windlass_runtime::controller::filter::{self, Filter};
//!
//! // Changes of the spec or labels, outside of kube-system.
//! let filter: Filter<Deployment> = filter::generation_changed()
//!     .or(filter::labels_changed())
//!     .and(filter::object(|deployment: &Deployment| deployment.metadata.namespace.as_deref() != Some("kube-system")));
//! ```

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::{
    any_object::{AnyChange, AnyObject, typed_ref},
    cache::Event,
    object::Object,
    queue::Priority,
};

/// An event as a filter sees it.
#[derive(Debug)]
pub struct Change<'a, K: ?Sized> {
    /// State before the event; `None` if the object is new.
    pub old: Option<&'a K>,
    /// State after the event; `None` if the object was deleted.
    pub new: Option<&'a K>,
    /// The object existed before the watch began.
    pub initial: bool,
    /// Nothing has changed: this is a resync.
    pub resync: bool,
}

impl<'a, K: ?Sized> Change<'a, K> {
    /// Converts an event.
    pub fn of(event: &'a Event<K>) -> Self {
        match event {
            Event::Added { object, initial } => Self { old: None, new: Some(object), initial: *initial, resync: false },
            Event::Updated { old, new } => {
                Self { old: Some(old), new: Some(new), initial: false, resync: Arc::ptr_eq(old, new) }
            }
            Event::Deleted { object } => Self { old: Some(object), new: None, initial: false, resync: false },
        }
    }

    /// Returns the priority in the queue: initial objects and resyncs wait for new events.
    pub fn priority(&self) -> Priority {
        if self.initial || self.resync { Priority::LOW } else { Priority::NORMAL }
    }
}

impl<'a> AnyChange<'a> {
    /// Downcasts the objects.
    fn typed<K: Object>(&self) -> Change<'a, K> {
        let Self { old, new, initial, resync } = *self;
        Change { old: old.map(typed_ref), new: new.map(typed_ref), initial, resync }
    }

    /// Returns the latest state of the object.
    pub(crate) fn newest(&self) -> Option<&'a dyn AnyObject> {
        self.new.or(self.old)
    }
}

/// A type-erased [`Filter`].
#[derive(Clone)]
pub(crate) struct AnyFilter {
    passes: Arc<dyn Fn(&AnyChange<'_>) -> bool + Send + Sync>,
    /// Rust type of the objects, for logs.
    kind: &'static str,
}

impl AnyFilter {
    /// Erases the type of a filter.
    pub(crate) fn of<K: Object>(filter: Filter<K>) -> Self {
        Self { passes: Arc::new(move |change| filter.passes(&change.typed())), kind: std::any::type_name::<K>() }
    }

    /// Passes events that pass both filters.
    pub(crate) fn and(self, other: Self) -> Self {
        let (first, second) = (self.passes, other.passes);
        Self { passes: Arc::new(move |change| first(change) && second(change)), kind: self.kind }
    }

    /// Returns whether an event passes. If the filter panics, the event passes, as an extra reconcile is harmless.
    pub(crate) fn lets_pass(&self, change: &AnyChange<'_>) -> bool {
        catch_unwind(AssertUnwindSafe(|| (self.passes)(change))).unwrap_or_else(|_| {
            tracing::error!(kind = self.kind, "filter panicked; the event passes");
            true
        })
    }
}

type Test<K> = dyn for<'a> Fn(&Change<'a, K>) -> bool + Send + Sync;

/// Decides which events trigger reconciles. Clones share it.
pub struct Filter<K>(Arc<Test<K>>);

impl<K> Clone for Filter<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: 'static> Filter<K> {
    /// Passes the events for which the function returns true.
    pub fn new(passes: impl for<'a> Fn(&Change<'a, K>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(passes))
    }

    /// Returns whether an event passes.
    pub fn passes(&self, change: &Change<'_, K>) -> bool {
        (self.0)(change)
    }

    /// Passes events that pass both filters.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::new(move |change| self.passes(change) && other.passes(change))
    }

    /// Passes events that pass at least one of the two filters.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::new(move |change| self.passes(change) || other.passes(change))
    }

    /// Passes events that do not pass this filter.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "reads as `and` and `or` do")]
    pub fn not(self) -> Self {
        Self::new(move |change| !self.passes(change))
    }
}

/// Passes events of objects that satisfy a condition before or after the event, so that the event with which an object
/// stops matching passes, too.
pub fn object<K: 'static>(holds: impl Fn(&K) -> bool + Send + Sync + 'static) -> Filter<K> {
    Filter::new(move |change| change.new.is_some_and(&holds) || change.old.is_some_and(&holds))
}

/// Passes changes of the spec, and the start of deletion. Any change passes for kinds without a generation, such as
/// `ConfigMap`.
pub fn generation_changed<K: Resource + 'static>() -> Filter<K> {
    changed(|old, new| {
        if new.generation.unwrap_or(0) == 0 {
            old.resource_version != new.resource_version
        } else {
            old.generation != new.generation
        }
    })
}

/// Passes changes of labels.
pub fn labels_changed<K: Resource + 'static>() -> Filter<K> {
    changed(|old, new| old.labels != new.labels)
}

/// Passes changes of annotations.
pub fn annotations_changed<K: Resource + 'static>() -> Filter<K> {
    changed(|old, new| old.annotations != new.annotations)
}

/// Passes changes of finalizers.
pub fn finalizers_changed<K: Resource + 'static>() -> Filter<K> {
    changed(|old, new| old.finalizers != new.finalizers)
}

/// Passes all changes.
pub fn resource_version_changed<K: Resource + 'static>() -> Filter<K> {
    changed(|old, new| old.resource_version != new.resource_version)
}

/// Passes the start of deletion, when the deletion timestamp is set.
pub fn deletion_started<K: Resource + 'static>() -> Filter<K> {
    changed(|old, new| old.deletion_timestamp.is_none() && new.deletion_timestamp.is_some())
}

/// Passes everything but changes of the status alone: changes of the spec, labels, annotations, finalizers, owner
/// references, and the start of deletion.
///
/// For controllers that write a status but do not react to it: their own writes do not trigger them.
pub fn ignoring_status<K: Resource + 'static>() -> Filter<K> {
    generation_changed().or(changed(|old, new| {
        old.labels != new.labels
            || old.annotations != new.annotations
            || old.finalizers != new.finalizers
            || old.owner_references != new.owner_references
            || old.deletion_timestamp != new.deletion_timestamp
            // Deleted and recreated under the same name while the watch was interrupted.
            || old.uid != new.uid
    }))
}

fn changed<K: Resource + 'static>(differs: fn(&ObjectMeta, &ObjectMeta) -> bool) -> Filter<K> {
    Filter::new(move |change: &Change<'_, K>| match (change.old, change.new) {
        (Some(old), Some(new)) => change.resync || differs(old.meta(), new.meta()),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};

    use super::*;

    fn deployment(generation: i64, version: &str) -> Deployment {
        let mut deployment = Deployment::default();
        deployment.metadata.generation = Some(generation);
        deployment.metadata.resource_version = Some(version.into());
        deployment
    }

    fn update<'a, K>(old: &'a K, new: &'a K) -> Change<'a, K> {
        Change { old: Some(old), new: Some(new), initial: false, resync: false }
    }

    #[test]
    fn a_status_write_does_not_change_the_generation() {
        let (before, after) = (deployment(1, "1"), deployment(1, "2"));
        assert!(!generation_changed().passes(&update(&before, &after)));
        assert!(!ignoring_status().passes(&update(&before, &after)));
        assert!(resource_version_changed().passes(&update(&before, &after)));
        assert!(generation_changed().passes(&update(&before, &deployment(2, "3"))));
    }

    #[test]
    fn kinds_without_generation_pass_with_any_change() {
        let before = ConfigMap::default();
        let mut after = before.clone();
        after.metadata.resource_version = Some("2".into());
        assert!(generation_changed().passes(&update(&before, &after)));
        assert!(!labels_changed().passes(&update(&before, &after)));
    }

    #[test]
    fn arrivals_departures_and_resyncs_pass_filters_of_changes() {
        let object = Arc::new(deployment(1, "1"));
        for event in [
            Event::Added { object: object.clone(), initial: true },
            Event::Updated { old: object.clone(), new: object.clone() },
            Event::Deleted { object: object.clone() },
        ] {
            let change = Change::of(&event);
            assert!(generation_changed().passes(&change), "{event:?}");
            assert!(labels_changed().and(annotations_changed()).passes(&change), "{event:?}");
            assert!(!labels_changed().not().passes(&change), "{event:?}");
        }
    }

    #[test]
    fn deletion_and_metadata_are_changes_of_their_own() {
        let before = deployment(1, "1");
        let mut deleting = before.clone();
        deleting.metadata.deletion_timestamp = serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap();
        assert!(deletion_started().passes(&update(&before, &deleting)));
        assert!(!deletion_started().passes(&update(&deleting, &deleting.clone())));
        let mut finalized = before.clone();
        finalized.metadata.finalizers = Some(vec!["a/b".into()]);
        assert!(finalizers_changed().passes(&update(&before, &finalized)));
        assert!(!finalizers_changed().or(labels_changed()).passes(&update(&before, &deleting)));
    }

    #[test]
    fn an_object_filter_looks_at_both_states() {
        let wanted = object(|deployment: &Deployment| deployment.metadata.generation == Some(1));
        let (matching, other) = (deployment(1, "1"), deployment(2, "2"));
        assert!(wanted.passes(&update(&matching, &other)));
        assert!(wanted.passes(&update(&other, &matching)));
        assert!(!wanted.passes(&update(&other, &other.clone())));
    }

    #[test]
    fn a_filter_that_panics_passes_everything() {
        let filter = AnyFilter::of(Filter::<Deployment>::new(|_| panic!("of a test")).not());
        let event: Event<dyn AnyObject> = Event::Deleted { object: Arc::new(deployment(1, "1")) };
        assert!(filter.lets_pass(&AnyChange::of(&event)));
    }

    #[test]
    fn only_new_changes_are_urgent() {
        let object = Arc::new(deployment(1, "1"));
        let priority = |event: Event<Deployment>| Change::of(&event).priority();
        assert_eq!(priority(Event::Added { object: object.clone(), initial: true }), Priority::LOW);
        assert_eq!(priority(Event::Added { object: object.clone(), initial: false }), Priority::NORMAL);
        assert_eq!(priority(Event::Updated { old: object.clone(), new: object.clone() }), Priority::LOW);
        assert_eq!(
            priority(Event::Updated { old: object.clone(), new: Arc::new(deployment(1, "2")) }),
            Priority::NORMAL
        );
        assert_eq!(priority(Event::Deleted { object }), Priority::NORMAL);
    }
}
