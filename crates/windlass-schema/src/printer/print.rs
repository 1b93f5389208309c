//! Formats values as text.

use serde_json::{Number, Value};

use crate::go_format;
use crate::json::format_float;
use crate::json_path::Item;
use crate::time::{self, Time};

/// Formats a value like Go: strings unchanged, objects and lists as JSON.
pub(super) fn text(item: &Item<'_>) -> String {
    match item {
        Item::Json(Value::Null) => "<no value>".to_owned(),
        Item::Json(value @ (Value::Array(_) | Value::Object(_))) => go_format::marshal(value),
        Item::Json(scalar) => go_format::plain(scalar),
        Item::Bool(value) => value.to_string(),
        Item::Text(text) => (*text).to_owned(),
        Item::Int(int) => int.to_string(),
        Item::Float(value) => go_format::float(*value),
        Item::Byte(byte) => byte.to_string(),
    }
}

/// Truncates a number to an integer.
pub(super) fn integer(number: &Number) -> i64 {
    number.as_i64().unwrap_or_else(|| truncate(number.as_f64().unwrap_or(f64::NAN)))
}

/// Truncates a float to an integer.
pub(super) fn truncate(float: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    // Like the processor's conversion, a float that does not fit becomes the smallest integer.
    if (-LIMIT..LIMIT).contains(&float) { float as i64 } else { i64::MIN }
}

/// Converts a float to a JSON number; whole numbers are written without a point.
pub(super) fn number(float: f64) -> Value {
    match format_float(float).parse::<i64>() {
        Ok(int) => int.into(),
        Err(_) => Number::from_f64(float).map_or(Value::Null, Value::Number),
    }
}

/// Formats the time between two points with two or three significant figures: `90s`, `5m3s`, `47h`, `3d2h`, `2y16d`;
/// `<invalid>` if `then` is after `now`.
pub fn human_duration(now: Time, then: Time) -> String {
    // Go's durations are limited to 292 years.
    const LIMIT: i64 = i64::MAX / 1_000_000_000;
    let nanos = i128::from(now.unix_seconds()) * 1_000_000_000 + i128::from(now.nanos())
        - i128::from(then.unix_seconds()) * 1_000_000_000
        - i128::from(then.nanos());
    let seconds = i64::try_from(nanos / 1_000_000_000).unwrap_or(if nanos < 0 { -LIMIT } else { LIMIT });
    let seconds = seconds.clamp(-LIMIT, LIMIT);
    time::human_duration(seconds)
}
