//! Writes that change nothing but the times of managed fields are none.

use serde_json::{Map, Value};

/// Puts back the times of managed fields if they are all that differs between an object and what is to replace it, so
/// that the write is seen to change nothing. Answers whether it did.
///
/// To be called with the object as it would be stored, after the endpoint's strategy: only then are fields that the
/// server normalises the same again.
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

/// Whether two maps agree in all fields but one, which is judged apart where both have it.
fn same_but(old: &Value, new: &Value, field: &str, judge: impl Fn(&Value, &Value) -> bool) -> bool {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return old == new };
    let rest = |map: &'_ Map<String, Value>| map.len() - usize::from(map.contains_key(field));
    rest(old) == rest(new)
        && old.iter().all(|(key, value)| match new.get(key) {
            Some(other) if key == field => judge(value, other),
            Some(other) => value == other,
            None => key == field,
        })
}
