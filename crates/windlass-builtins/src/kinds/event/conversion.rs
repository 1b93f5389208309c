//! Conversion between the two forms of an event. It is lossless: converting there and back yields the same object.

use serde_json::{Map, Value, json};

use crate::object::{integer, text};

/// The API version of the core form.
pub const CORE: &str = "v1";

/// The API version of the newer form.
pub const EVENTS: &str = "events.k8s.io/v1";

/// Serialization of an empty field.
#[derive(Clone, Copy)]
enum Empty {
    Omitted,
    Null,
    Object,
    Text,
}

/// A field of one form: its name, and how it is serialized if empty.
type Field = (&'static str, Empty);

/// Fields that differ in name or in how they are serialized if empty: core, events.k8s.io.
const FIELDS: [(Field, Field); 14] = [
    (("involvedObject", Empty::Object), ("regarding", Empty::Object)),
    (("reason", Empty::Omitted), ("reason", Empty::Omitted)),
    (("message", Empty::Omitted), ("note", Empty::Omitted)),
    (("source", Empty::Object), ("deprecatedSource", Empty::Object)),
    (("firstTimestamp", Empty::Null), ("deprecatedFirstTimestamp", Empty::Null)),
    (("lastTimestamp", Empty::Null), ("deprecatedLastTimestamp", Empty::Null)),
    (("count", Empty::Omitted), ("deprecatedCount", Empty::Omitted)),
    (("type", Empty::Omitted), ("type", Empty::Omitted)),
    (("eventTime", Empty::Null), ("eventTime", Empty::Null)),
    (("series", Empty::Omitted), ("series", Empty::Omitted)),
    (("action", Empty::Omitted), ("action", Empty::Omitted)),
    (("related", Empty::Omitted), ("related", Empty::Omitted)),
    (("reportingComponent", Empty::Text), ("reportingController", Empty::Omitted)),
    (("reportingInstance", Empty::Text), ("reportingInstance", Empty::Omitted)),
];

/// Converts an event to the core form; an event in that form is returned unchanged.
pub fn events_to_core(event: Value) -> Value {
    if text(&event, "/apiVersion") != EVENTS {
        return event;
    }
    let mut out = convert(event, CORE, FIELDS.iter().map(|(core, events)| (events.0, *core)));
    if let Some(series) = out.get_mut("series").and_then(Value::as_object_mut)
        && series.get("count").is_some_and(|count| *count == 0)
    {
        series.remove("count");
    }
    out
}

/// Converts an event to the events.k8s.io form; an event in that form is returned unchanged.
pub fn core_to_events(event: Value) -> Value {
    if text(&event, "/apiVersion") == EVENTS {
        return event;
    }
    let mut out = convert(event, EVENTS, FIELDS.iter().map(|(core, events)| (core.0, *events)));
    if let Some(series) = out.get_mut("series").and_then(Value::as_object_mut) {
        series.entry("count").or_insert(0.into());
    }
    out
}

fn convert(event: Value, api_version: &str, fields: impl Iterator<Item = (&'static str, Field)>) -> Value {
    let Value::Object(mut event) = event else { return event };
    let mut out = Map::new();
    out.insert("apiVersion".to_owned(), api_version.into());
    out.insert("kind".to_owned(), "Event".into());
    out.insert("metadata".to_owned(), event.remove("metadata").unwrap_or_else(|| json!({})));
    for (from, (to, when_empty)) in fields {
        // A pointer to an empty struct differs from a null pointer.
        let is_pointer = matches!(to, "series" | "related");
        let value = event.remove(from).filter(|value| !is_empty(value) || (is_pointer && value.is_object()));
        let value = match (value, when_empty) {
            (Some(value), _) => value,
            (None, Empty::Omitted) => continue,
            (None, Empty::Null) => Value::Null,
            (None, Empty::Object) => json!({}),
            (None, Empty::Text) => "".into(),
        };
        out.insert(to.to_owned(), value);
    }
    Value::Object(out)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Number(_) => integer(value, "") == Some(0),
        _ => false,
    }
}
