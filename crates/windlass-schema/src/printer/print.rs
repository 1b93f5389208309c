//! Values as text.

use serde_json::{Number, Value};

use crate::json::{encode, format_float};
use crate::json_path::Item;
use crate::time::Time;

/// What Go's printing makes of a value: text as it is, objects and lists as JSON.
pub(super) fn text(item: &Item<'_>) -> String {
    match item {
        Item::Json(Value::Null) => "<no value>".to_owned(),
        Item::Json(Value::String(text)) => text.clone(),
        Item::Json(Value::Bool(value)) | Item::Bool(value) => value.to_string(),
        Item::Json(Value::Number(number)) => match number.as_i64() {
            Some(int) => int.to_string(),
            None => float(number.as_f64().unwrap_or(0.0)),
        },
        Item::Json(value) => escape_html(encode(value)),
        Item::Text(text) => (*text).to_owned(),
        Item::Int(int) => int.to_string(),
        Item::Float(value) => float(*value),
        Item::Byte(byte) => byte.to_string(),
    }
}

/// `%v` of a float: an exponent beyond 21 digits, or below a ten-thousandth.
fn float(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-4..1e21).contains(&magnitude) {
        return value.to_string();
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => match exponent.strip_prefix('-') {
            Some(exponent) => format!("{mantissa}e-{exponent:0>2}"),
            None => format!("{mantissa}e+{exponent:0>2}"),
        },
        None => text,
    }
}

/// JSON with the escapes that Go adds so that it may stand in a page.
fn escape_html(json: Vec<u8>) -> String {
    let json = String::from_utf8_lossy(&json);
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// A number without what is behind the point.
pub(super) fn integer(number: &Number) -> i64 {
    number.as_i64().unwrap_or_else(|| truncate(number.as_f64().unwrap_or(f64::NAN)))
}

/// The same of a float.
pub(super) fn truncate(float: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    // The processor's answer when a float does not fit is the smallest number.
    if (-LIMIT..LIMIT).contains(&float) { float as i64 } else { i64::MIN }
}

/// A float; whole ones are written without a point.
pub(super) fn number(float: f64) -> Value {
    match format_float(float).parse::<i64>() {
        Ok(int) => int.into(),
        Err(_) => Number::from_f64(float).map_or(Value::Null, Value::Number),
    }
}

/// The time between two points in two or three significant figures: `90s`, `5m3s`, `47h`, `3d2h`, `2y16d`;
/// `<invalid>` if the later one is the other.
pub fn human_duration(now: Time, then: Time) -> String {
    // Go's durations end at 292 years.
    const LIMIT: i64 = i64::MAX / 1_000_000_000;
    let nanos = i128::from(now.unix_seconds()) * 1_000_000_000 + i128::from(now.nanos())
        - i128::from(then.unix_seconds()) * 1_000_000_000
        - i128::from(then.nanos());
    let seconds = i64::try_from(nanos / 1_000_000_000).unwrap_or(if nanos < 0 { -LIMIT } else { LIMIT });
    let seconds = seconds.clamp(-LIMIT, LIMIT);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let two = |big: i64, big_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{big}{big_unit}"),
        _ => format!("{big}{big_unit}{small}{small_unit}"),
    };
    match () {
        // Clocks may disagree by a little.
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => two(hours / 24, "d", hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{}d", hours / 24),
        () if hours < 24 * 365 * 8 => two(hours / 24 / 365, "y", hours / 24 % 365, "d"),
        () => format!("{}y", hours / 24 / 365),
    }
}
