//! Parts of timestamps, in UTC or in a time zone, and of durations.

use windlass_schema::go_format::quote;

use super::{Call, Table};
use crate::value::{EvalError, Outcome, Timestamp, Value};

pub(crate) const FUNCTIONS: &Table = &[
    ("getFullYear", part),
    ("getMonth", part),
    ("getDayOfYear", part),
    ("getDayOfMonth", part),
    ("getDate", part),
    ("getDayOfWeek", part),
    ("getHours", part),
    ("getMinutes", part),
    ("getSeconds", part),
    ("getMilliseconds", part),
];

fn part<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::Timestamp(time)] => Ok(timestamp_part(call.function, *time, 0)),
        [Value::Timestamp(time), Value::String(zone)] => Ok(timestamp_part(call.function, *time, offset(*time, zone)?)),
        [Value::Duration(nanos)] => duration_part(call.function, *nanos).ok_or_else(|| call.mismatch()),
        _ => Err(call.mismatch()),
    }
}

fn timestamp_part<'a>(function: &str, time: Timestamp, offset: i64) -> Value<'a> {
    let civil = time.civil(offset);
    Value::Int(match function {
        "getFullYear" => civil.year,
        "getMonth" => civil.month - 1,
        "getDayOfYear" => civil.day_of_year,
        "getDayOfMonth" => civil.day - 1,
        "getDate" => civil.day,
        "getDayOfWeek" => civil.weekday,
        "getHours" => civil.hour,
        "getMinutes" => civil.minute,
        "getSeconds" => civil.second,
        _ => i64::from(time.nanos() / 1_000_000),
    })
}

fn duration_part<'a>(function: &str, nanos: i64) -> Option<Value<'a>> {
    Some(Value::Int(match function {
        "getHours" => nanos / 3_600_000_000_000,
        "getMinutes" => nanos / 60_000_000_000,
        "getSeconds" => nanos / 1_000_000_000,
        "getMilliseconds" => nanos / 1_000_000,
        _ => return None,
    }))
}

/// Returns the offset from UTC, in seconds, of a zone given by name or as `+02:00`.
fn offset(time: Timestamp, zone: &str) -> Result<i64, EvalError> {
    let Some((hours, minutes)) = zone.split_once(':') else {
        return named_offset(time, zone);
    };
    let number = |text: &str| {
        text.parse::<i64>()
            .map_err(|_| EvalError::new(format!("strconv.Atoi: parsing {}: invalid syntax", quote(text))))
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let total = if zone.starts_with('-') { hours * 60 - minutes } else { hours * 60 + minutes };
    Ok(total * 60)
}

fn named_offset(time: Timestamp, zone: &str) -> Result<i64, EvalError> {
    if matches!(zone, "" | "UTC" | "Local") {
        return Ok(0);
    }
    let unknown = || EvalError::new(format!("unknown time zone {zone}"));
    let zone = jiff::tz::TimeZone::get(zone).map_err(|_| unknown())?;
    let instant = jiff::Timestamp::new(time.unix_seconds(), 0).map_err(|_| unknown())?;
    Ok(i64::from(zone.to_offset(instant).seconds()))
}
