//! Limit on the nesting depth of values.

use serde_json::Value;

/// Maximum nesting depth that a patch may have or produce. No real object comes near it, serde_json (whose limit is
/// 128) can parse it even inside a list or a watch event, and walking over it needs little stack.
pub const MAX_DEPTH: usize = 120;

/// Returns whether a value is nested deeper than `limit`; a scalar has depth 0. Never recurses past `limit`.
pub(crate) fn exceeds(value: &Value, limit: usize) -> bool {
    exceeds_counting(value, limit, &mut 0)
}

/// Like [`exceeds`]; adds the number of values visited to `visited`.
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
