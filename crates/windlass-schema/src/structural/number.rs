//! Numbers as represented and printed in Go.

use serde_json::Number;

use crate::go_format;

/// A number as decoded by Go: an `int64` if it fits, otherwise a `float64`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Num {
    Int(i64),
    Float(f64),
}

impl Num {
    pub(super) fn of(number: &Number) -> Self {
        match number.as_i64() {
            Some(n) => Self::Int(n),
            None => Self::Float(number.as_f64().unwrap_or(f64::MAX)),
        }
    }

    pub(super) fn as_f64(self) -> f64 {
        match self {
            Self::Int(n) => n as f64,
            Self::Float(f) => f,
        }
    }

    /// Formats the number like `%v`.
    pub(super) fn show(self) -> String {
        match self {
            Self::Int(n) => n.to_string(),
            Self::Float(f) => go_format::float(f),
        }
    }
}

/// Converts a float to an `int64` like amd64: a value that does not fit becomes the minimum.
pub(super) fn to_i64(value: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&value) { value as i64 } else { i64::MIN }
}

/// Returns whether a float is accepted as an integer: whole, or off by less than a billionth.
pub(super) fn is_json_integer(value: f64) -> bool {
    const MAX: f64 = 9_007_199_254_740_991.0;
    if !value.is_finite() || value.abs() > MAX {
        return false;
    }
    if value == value.trunc() {
        return true;
    }
    let whole = value.trunc();
    value > 0.0 && whole != 0.0 && (value - whole) / (value + whole) < 1e-9
}
