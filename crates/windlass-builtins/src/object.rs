//! Access to the fields of objects held as JSON values, by JSON pointer (`/spec/replicas`).
//!
//! Reads are as lenient as Go's zero values: a field that is absent, null or of another type reads as empty.

use serde_json::{Map, Value};

/// Returns the text of a field; empty if it is absent.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the items of a list; empty if it is absent.
pub fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the items of a list for modification; empty if there is no list.
pub fn list_mut<'a>(value: &'a mut Value, field: &str) -> &'a mut [Value] {
    match value.get_mut(field) {
        Some(Value::Array(items)) => items,
        _ => &mut [],
    }
}

/// Returns the entries of an object or map, sorted by key; empty if it is absent.
pub fn entries<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let mut all: Vec<_> = map(value, pointer).into_iter().flatten().map(|(key, value)| (key.as_str(), value)).collect();
    all.sort_unstable_by_key(|(key, _)| *key);
    all.into_iter()
}

/// Returns the object or map in a field, if there is one.
pub fn map<'a>(value: &'a Value, pointer: &str) -> Option<&'a Map<String, Value>> {
    value.pointer(pointer).and_then(Value::as_object)
}

/// Returns the integer in a field, if there is one.
pub fn integer(value: &Value, pointer: &str) -> Option<i64> {
    value.pointer(pointer).and_then(Value::as_i64)
}

/// Returns the boolean in a field, if there is one.
pub fn boolean(value: &Value, pointer: &str) -> Option<bool> {
    value.pointer(pointer).and_then(Value::as_bool)
}

/// Returns whether a field is present and not null.
pub fn is_set(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).is_some_and(|field| !field.is_null())
}

/// Returns a copy of a field; null if it is absent.
pub fn copy(value: &Value, pointer: &str) -> Value {
    value.pointer(pointer).cloned().unwrap_or(Value::Null)
}

/// Sets a field and creates the objects on the path to it. Does nothing if the path leads through something that is not
/// an object; existing list items are followed by index.
pub fn set(value: &mut Value, pointer: &str, new: impl Into<Value>) {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    if let Some(parent) = make(value, parent) {
        parent.insert(key.to_owned(), new.into());
    }
}

/// Sets a field that is absent or null, and creates the objects on the path to it.
pub fn set_default(value: &mut Value, pointer: &str, new: impl Into<Value>) {
    if !is_set(value, pointer) {
        set(value, pointer, new);
    }
}

/// Sets a string field that is absent, null or empty.
pub fn set_default_text(value: &mut Value, pointer: &str, new: &str) {
    if text(value, pointer).is_empty() {
        set(value, pointer, new);
    }
}

/// Removes a field and returns it.
pub fn remove(value: &mut Value, pointer: &str) -> Option<Value> {
    let (parent, key) = pointer.rsplit_once('/')?;
    value.pointer_mut(parent)?.as_object_mut()?.remove(key)
}

/// Copies a field from `from`; removes it if `from` does not have it.
pub fn carry_over(value: &mut Value, from: &Value, pointer: &str) {
    match from.pointer(pointer) {
        Some(old) => set(value, pointer, old.clone()),
        None => {
            remove(value, pointer);
        }
    }
}

fn make<'a>(value: &'a mut Value, pointer: &str) -> Option<&'a mut Map<String, Value>> {
    let mut at = value;
    for step in pointer.split('/').skip(1) {
        at = match at {
            Value::Array(list) => list.get_mut(step.parse::<usize>().ok()?)?,
            Value::Object(fields) => {
                let next = fields.entry(step).or_insert_with(|| Value::Object(Map::new()));
                if next.is_null() {
                    *next = Value::Object(Map::new());
                }
                next
            }
            _ => return None,
        };
    }
    at.as_object_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn setting_a_field_creates_its_parents() {
        let mut object = json!({"a": null, "list": [{"x": 1}]});
        set(&mut object, "/a/b/c", 1);
        set(&mut object, "/list/0/y", "z");
        set(&mut object, "/list/7/y", "z");
        set(&mut object, "/list/0/x/deep", true);
        assert_eq!(object, json!({"a": {"b": {"c": 1}}, "list": [{"x": 1, "y": "z"}]}));
        set_default(&mut object, "/a/b/c", 2);
        assert_eq!(integer(&object, "/a/b/c"), Some(1));
        assert_eq!(remove(&mut object, "/a/b/c"), Some(json!(1)));
        carry_over(&mut object, &json!({"a": {"n": 3}}), "/a/n");
        carry_over(&mut object, &json!({}), "/list");
        assert_eq!(object, json!({"a": {"b": {}, "n": 3}}));
    }

    #[test]
    fn absent_fields_read_as_empty() {
        let object = json!({"n": null, "number": 7});
        assert_eq!(text(&object, "/number"), "");
        assert!(items(&object, "/number").is_empty());
        assert_eq!(entries(&object, "/n").count(), 0);
        assert!(!is_set(&object, "/n"));
    }
}
