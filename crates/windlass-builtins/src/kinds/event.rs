//! Events, served by two API groups: core/v1 and events.k8s.io/v1 are two representations of one stored object.
//!
//! The core form is stored ([`conversion`]). Writes through events.k8s.io are validated more strictly; errors of both
//! groups use the field names of the core form.

pub mod conversion;
mod validation;

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::ErrorList;

use self::conversion::events_to_core;
use crate::columns::{Column, Printer, column, since, wide};
use crate::object::{integer, is_set, text};
use crate::strategy::Strategy;

/// Strategy of Events in core/v1.
#[derive(Debug, Clone, Copy)]
pub struct CoreEvent;

/// Strategy of Events in events.k8s.io/v1.
#[derive(Debug, Clone, Copy)]
pub struct EventsEvent;

/// Selectable fields: their names in both groups, and the JSON pointer in the core form.
const SELECTABLE: [(&str, &str, &str); 10] = [
    ("involvedObject.kind", "regarding.kind", "/involvedObject/kind"),
    ("involvedObject.namespace", "regarding.namespace", "/involvedObject/namespace"),
    ("involvedObject.name", "regarding.name", "/involvedObject/name"),
    ("involvedObject.uid", "regarding.uid", "/involvedObject/uid"),
    ("involvedObject.apiVersion", "regarding.apiVersion", "/involvedObject/apiVersion"),
    ("involvedObject.resourceVersion", "regarding.resourceVersion", "/involvedObject/resourceVersion"),
    ("involvedObject.fieldPath", "regarding.fieldPath", "/involvedObject/fieldPath"),
    ("reason", "reason", "/reason"),
    ("reportingComponent", "reportingController", "/reportingComponent"),
    ("type", "type", "/type"),
];

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for CoreEvent {
    fn validate(&self, object: &Value) -> ErrorList {
        validation::legacy(object, "reportingComponent")
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, String)> {
        let mut fields: Vec<_> =
            SELECTABLE.iter().map(|(name, _, pointer)| (*name, text(object, pointer).to_owned())).collect();
        let source = match text(object, "/source/component") {
            "" => text(object, "/reportingComponent"),
            component => component,
        };
        fields.push(("source", source.to_owned()));
        fields
    }
}

impl Strategy for EventsEvent {
    fn validate(&self, object: &Value) -> ErrorList {
        let event = core_form(object);
        let mut errors = validation::legacy(&event, "reportingController");
        errors.extend(validation::strict(&event));
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let (event, old) = (core_form(object), core_form(old));
        let mut errors = validation::legacy(&event, "reportingController");
        errors.extend(validation::strict_update(&event, &old));
        errors
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, String)> {
        let event = core_form(object);
        SELECTABLE.iter().map(|(_, name, pointer)| (*name, text(&event, pointer).to_owned())).collect()
    }
}

/// Converts an event of either form to the core form.
fn core_form(object: &Value) -> Cow<'_, Value> {
    if text(object, "/apiVersion") == conversion::EVENTS {
        Cow::Owned(events_to_core(object.clone()))
    } else {
        Cow::Borrowed(object)
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let event = &*core_form(object);
    let first = match is_set(event, "/firstTimestamp") {
        true => since(event, "/firstTimestamp", now),
        false => since(event, "/eventTime", now),
    };
    let mut last = match is_set(event, "/lastTimestamp") {
        true => since(event, "/lastTimestamp", now),
        false => first.clone(),
    };
    let mut count = match integer(event, "/count").unwrap_or_default() {
        // The newer API omits the count of a single occurrence.
        0 => 1,
        count => count,
    };
    if is_set(event, "/series") {
        last = since(event, "/series/lastObservedTime", now);
        count = integer(event, "/series/count").unwrap_or_default();
    }
    let mut target = text(event, "/involvedObject/kind").to_lowercase();
    if !text(event, "/involvedObject/name").is_empty() {
        target = format!("{target}/{}", text(event, "/involvedObject/name"));
    }
    vec![
        last.into(),
        text(event, "/type").into(),
        text(event, "/reason").into(),
        target.into(),
        text(event, "/involvedObject/fieldPath").into(),
        source(event).into(),
        text(event, "/message").trim().into(),
        first.into(),
        count.into(),
        text(event, "/metadata/name").into(),
    ]
}

/// Returns the component and host that reported the event.
fn source(event: &Value) -> String {
    let first = |old, new| match text(event, old) {
        "" => text(event, new),
        text => text,
    };
    let (component, instance) =
        (first("/source/component", "/reportingComponent"), first("/source/host", "/reportingInstance"));
    if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") }
}

const COLUMNS: &[Column] = &[
    column("Last Seen", "string", "The time at which the most recent occurrence of this event was recorded."),
    column("Type", "string", "Type of this event (Normal, Warning), new types could be added in the future"),
    column(
        "Reason",
        "string",
        "This should be a short, machine understandable string that gives the reason for the transition into the object's current status.",
    ),
    column("Object", "string", "The object that this event is about."),
    wide(
        "Subobject",
        "string",
        "If referring to a piece of an object instead of an entire object, this string should contain a valid JSON/Go field access statement, such as desiredState.manifest.containers[2]. For example, if the object reference is to a container within a pod, this would take on a value like: \"spec.containers{name}\" (where \"name\" refers to the name of the container that triggered the event) or if no container name is specified \"spec.containers[2]\" (container with index 2 in this pod). This syntax is chosen only to have some well-defined way of referencing a part of an object.",
    ),
    wide("Source", "string", "The component reporting this event. Should be a short machine understandable string."),
    column("Message", "string", "A human-readable description of the status of this operation."),
    wide(
        "First Seen",
        "string",
        "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)",
    ),
    wide("Count", "string", "The number of times this event has occurred."),
    Column {
        name: "Name",
        kind: "string",
        format: "name",
        description: "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
        priority: 1,
    },
];

#[cfg(test)]
mod tests;
