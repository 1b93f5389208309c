//! Writes that change only the timestamps of managed fields are no-ops.

use serde_json::{Map, Value};

/// Restores the timestamps of managed fields if nothing else differs between an object and its replacement, so that the
/// write is recognized as a no-op. Returns whether it did.
///
/// Call this with the object to store, after the endpoint's strategy: only then are fields that the server normalizes
/// equal again.
pub fn keep_times_if_unchanged(old: &Value, new: &mut Value) -> bool {
    let (Some(old_entries), Some(new_entries)) = (entries(old), entries(new)) else { return false };
    let unchanged = old_entries.len() == new_entries.len()
        && old_entries != new_entries
        && old_entries.iter().zip(new_entries).all(|(old, new)| same_but(old, new, "time", |_, _| true))
        && same_but(old, new, "metadata", |old, new| same_but(old, new, "managedFields", |_, _| true));
    if unchanged {
        let old_entries = old_entries.clone();
        if let Some(new_entries) = new.pointer_mut("/metadata/managedFields") {
            *new_entries = Value::Array(old_entries);
        }
    }
    unchanged
}

fn entries(object: &Value) -> Option<&Vec<Value>> {
    object.get("metadata")?.get("managedFields")?.as_array()
}

/// Returns whether two maps agree in all fields except one, for which `is_equal` decides if both have it.
fn same_but(old: &Value, new: &Value, field: &str, is_equal: impl Fn(&Value, &Value) -> bool) -> bool {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return old == new };
    let rest = |map: &'_ Map<String, Value>| map.len() - usize::from(map.contains_key(field));
    rest(old) == rest(new)
        && old.iter().all(|(key, value)| match new.get(key) {
            Some(other) if key == field => is_equal(value, other),
            Some(other) => value == other,
            None => key == field,
        })
}
