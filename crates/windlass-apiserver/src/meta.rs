//! Access to the `metadata` of an object held as JSON.

use std::sync::OnceLock;

use jiff::{Timestamp, Unit};
use serde_json::{Map, Value};
use windlass_schema::time::Time;

/// Returns the metadata of an object, which is created if it is missing.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    let object = object.as_object_mut().expect("an API object must be a JSON object");
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("metadata was just made an object")
}

/// Returns a string field of the metadata; empty if absent.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Sets a field of the metadata.
pub(crate) fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    metadata_mut(object).insert(field.to_owned(), value.into());
}

/// Copies a field of the metadata from an old object, or removes it if the old object has none.
pub(crate) fn carry(object: &mut Value, old: &Value, field: &str) {
    match &old["metadata"][field] {
        Value::Null => {
            metadata_mut(object).remove(field);
        }
        value => set(object, field, value.clone()),
    }
}

/// Returns the finalizers.
pub(crate) fn finalizers(object: &Value) -> Vec<String> {
    let list = object["metadata"]["finalizers"].as_array();
    list.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Replaces the finalizers; an empty list removes the field.
pub(crate) fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    if finalizers.is_empty() {
        metadata_mut(object).remove("finalizers");
    } else {
        set(object, "finalizers", finalizers);
    }
}

/// Returns whether the object is being deleted.
pub(crate) fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Returns the generation; 0 if the kind has none.
pub(crate) fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or(0)
}

/// Formats a time as in API objects: UTC, whole seconds.
pub(crate) fn format_time(time: Timestamp) -> String {
    let seconds = time.round(Unit::Second).unwrap_or(time);
    let seconds = if seconds > time { seconds - jiff::SignedDuration::from_secs(1) } else { seconds };
    seconds.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Formats a time as in leases: UTC, with microseconds.
pub(crate) fn format_micro_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// Converts a time to the type of the pure crates.
pub(crate) fn time(time: Timestamp) -> Time {
    Time::from_unix(time.as_second(), u32::try_from(time.subsec_nanosecond()).unwrap_or(0))
}

/// Returns five random characters for a generated name, from an alphabet without vowels.
pub(crate) fn name_suffix() -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let random = uuid::Uuid::new_v4().into_bytes();
    random[..5].iter().map(|byte| ALPHABET[*byte as usize % ALPHABET.len()] as char).collect()
}

/// Returns a new uid.
pub(crate) fn new_uid() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Returns an empty object, to read absent fields from.
pub(crate) fn nothing() -> &'static Value {
    static NOTHING: OnceLock<Value> = OnceLock::new();
    NOTHING.get_or_init(|| Value::Object(Map::new()))
}
