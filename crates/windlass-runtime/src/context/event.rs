//! Events about an object.

use k8s_openapi::api::core::v1::ObjectReference;

use super::Context;
use crate::{
    events::{EventType, Recorder},
    object::Object,
    objects::AsObject,
};

/// Records events about an object. Recording never waits and never fails.
#[must_use = "nothing is recorded before `normal` or `warning`"]
pub struct EventBuilder<'a> {
    /// `None` if the event is dropped.
    recorder: Option<&'a Recorder>,
    about: ObjectReference,
    action: &'a str,
}

impl Context {
    /// Starts an event about an object, as shown by `kubectl describe`.
    pub fn event<'a, K: Object<DynamicType: Default>>(&'a self, about: &impl AsObject<K>) -> EventBuilder<'a> {
        self.event_with(about, &K::DynamicType::default())
    }

    /// Starts an event about an object of a kind that is known at run time.
    pub fn event_with<'a, K: Object>(&'a self, about: &impl AsObject<K>, dynamic: &K::DynamicType) -> EventBuilder<'a> {
        let object = about.object();
        let about =
            ObjectReference { resource_version: object.meta().resource_version.clone(), ..object.object_ref(dynamic) };
        let recorder = (!self.is_dry_run()).then_some(&self.handles.events);
        EventBuilder { recorder, about, action: "Reconcile" }
    }
}

impl<'a> EventBuilder<'a> {
    /// Sets the action in one word; `Reconcile` by default.
    pub fn action(mut self, action: &'a str) -> Self {
        self.action = action;
        self
    }

    /// Records a normal event. `reason` is one word for machines, `note` a sentence for people.
    pub fn normal(self, reason: &str, note: &str) {
        self.record(EventType::Normal, reason, note);
    }

    /// Records a warning.
    pub fn warning(self, reason: &str, note: &str) {
        self.record(EventType::Warning, reason, note);
    }

    fn record(self, event_type: EventType, reason: &str, note: &str) {
        if let Some(recorder) = self.recorder {
            recorder.record(&self.about, event_type, reason, self.action, note);
        }
    }
}
