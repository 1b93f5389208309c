//! How deep a value may be nested.

use serde_json::Value;

/// The deepest nesting that a patch may have or produce. No object comes near it, serde_json reads it back (it stops at
/// 128) even inside a list or a watch event, and walks over it need little stack.
pub const MAX_DEPTH: usize = 120;

/// Whether a value is nested deeper than `limit`; a scalar has depth 0. Never recurses past `limit`.
pub(crate) fn exceeds(value: &Value, limit: usize) -> bool {
    exceeds_counting(value, limit, &mut 0)
}

/// As [`exceeds`]; adds the number of values looked at to `visited`.
pub(crate) fn exceeds_counting(value: &Value, limit: usize, visited: &mut usize) -> bool {
    *visited += 1;
    let Some(below) = limit.checked_sub(1) else {
        return matches!(value, Value::Array(_) | Value::Object(_));
    };
    match value {
        Value::Array(items) => items.iter().any(|item| exceeds_counting(item, below, visited)),
        Value::Object(map) => map.values().any(|item| exceeds_counting(item, below, visited)),
        _ => false,
    }
}
