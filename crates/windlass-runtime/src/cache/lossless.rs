//! Whether a type serializes everything that it reads.

use serde_json::{Map, Value};

use crate::{any_object::AnyObject, watch::Decoder};

/// Returns whether `serialized`, which is what the object of a received text serializes to, has every field of the text
/// that the type reads.
///
/// There is no other way to find out: a field may be missing from the type, or be skipped by `skip_serializing` while
/// the debug output hides it. The type is probed: missing fields get a value of another JSON type, and only a
/// type that reads one of them fails to parse the result.
pub(super) fn is_lossless<K: AnyObject + ?Sized>(text: &[u8], serialized: &[u8], decoder: &Decoder<K>) -> bool {
    let parsed = (serde_json::from_slice(text), serde_json::from_slice(serialized));
    let (Ok(Value::Object(mut received)), Ok(Value::Object(serialized))) = parsed else { return false };
    if !decoder.keeps_managed_fields()
        && let Some(Value::Object(metadata)) = received.get_mut("metadata")
    {
        metadata.remove("managedFields");
    }
    // The decoder sets these.
    for name in ["apiVersion", "kind"] {
        received.remove(name);
        received.extend(serialized.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    let mut masked = false;
    if !mask_fields(&mut received, &serialized, &mut masked) {
        return false;
    }
    !masked || serde_json::to_vec(&received).is_ok_and(|probe| decoder.read(&probe).is_ok())
}

/// Replaces the fields that are missing from `serialized`. Returns whether all others are equal.
fn mask_fields(received: &mut Map<String, Value>, serialized: &Map<String, Value>, masked: &mut bool) -> bool {
    received.iter_mut().all(|(name, value)| match serialized.get(name).filter(|kept| !kept.is_null()) {
        Some(kept) => is_empty(value) && is_empty(kept) || mask(value, kept, masked),
        None if is_empty(value) => true,
        None => {
            *value = strange(value);
            *masked = true;
            true
        }
    })
}

fn mask(received: &mut Value, serialized: &Value, masked: &mut bool) -> bool {
    match (received, serialized) {
        (Value::Object(received), Value::Object(serialized)) => mask_fields(received, serialized, masked),
        (Value::Array(received), Value::Array(serialized)) => {
            received.len() == serialized.len()
                && received.iter_mut().zip(serialized).all(|(received, serialized)| mask(received, serialized, masked))
        }
        (received, serialized) => *received == *serialized || is_same(received, serialized),
    }
}

/// Returns whether two different scalars mean the same number or time.
fn is_same(received: &Value, serialized: &Value) -> bool {
    match (received, serialized) {
        (Value::Number(a), Value::Number(b)) => (a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64(),
        (Value::String(a), Value::String(b)) => {
            let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
            time(a).is_some_and(|a| time(b) == Some(a))
        }
        _ => false,
    }
}

/// Returns whether a value is usually the same as none.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(value) => value.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// Returns a value that a field which has held `value` rejects.
fn strange(value: &Value) -> Value {
    match value {
        Value::Object(_) => Value::Bool(true),
        _ => Value::Object(Map::from_iter([("\u{1}".to_owned(), Value::Array(vec![Value::Null]))])),
    }
}
