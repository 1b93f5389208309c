//! Timestamps, and the formats from which they and durations are parsed.

use std::cmp::Ordering;
use std::fmt::Write;

use windlass_schema::time::{civil_from_days, days_from_civil, parse_rfc3339};

use super::EvalError;

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400;
const MINIMUM: i64 = -62_135_596_800;
const MAXIMUM: i64 = 253_402_300_799;

/// A point in time, and its original offset from UTC.
#[derive(Debug, Clone, Copy)]
pub struct Timestamp {
    seconds: i64,
    nanos: u32,
    offset: i32,
}

/// A point in time in the calendar of a time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
    pub(crate) day_of_year: i64,
    pub(crate) weekday: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
}

impl Timestamp {
    /// Returns a timestamp from seconds since 1970.
    ///
    /// # Errors
    /// Returns an error if it is outside the years 1 to 9999.
    pub fn from_unix(seconds: i64) -> Result<Timestamp, EvalError> {
        Timestamp { seconds, nanos: 0, offset: 0 }.in_range()
    }

    fn in_range(self) -> Result<Timestamp, EvalError> {
        if (MINIMUM..=MAXIMUM).contains(&self.seconds) { Ok(self) } else { Err(EvalError::new("timestamp overflow")) }
    }

    /// Parses RFC 3339.
    ///
    /// # Errors
    /// Returns the reason why it cannot be parsed.
    pub fn parse(text: &str) -> Result<Timestamp, String> {
        let time = parse_rfc3339(text)?;
        let zone = text.len().checked_sub(6).and_then(|at| text.get(at..)).filter(|_| !text.ends_with('Z'));
        let offset = zone.map_or(0, |zone| {
            let hours: i32 = zone[1..3].parse().unwrap_or_default();
            let minutes: i32 = zone[4..6].parse().unwrap_or_default();
            let offset = hours * 3600 + minutes * 60;
            if zone.starts_with('-') { -offset } else { offset }
        });
        Ok(Timestamp { seconds: time.unix_seconds(), nanos: time.nanos(), offset })
    }

    /// Parses RFC 3339 within the years 1 to 9999; the outer `None` means that the string is not RFC 3339.
    pub fn parse_in_range(text: &str) -> Option<Result<Timestamp, EvalError>> {
        Timestamp::parse(text).ok().map(Timestamp::in_range)
    }

    /// Parses `2006-01-02`.
    pub fn parse_date(text: &str) -> Option<Timestamp> {
        (text.len() == 10).then(|| Timestamp::parse(&format!("{text}T00:00:00Z")).ok()).flatten()
    }

    /// Parses the format `date-time`: RFC 3339 with or without a zone; the empty string is the beginning of 1970.
    ///
    /// # Errors
    /// Returns the reason why it cannot be parsed.
    pub fn parse_date_time(text: &str) -> Result<Timestamp, String> {
        if text.is_empty() {
            return Ok(Timestamp { seconds: 0, nanos: 0, offset: 0 });
        }
        Timestamp::parse(text).or_else(|reason| Timestamp::parse(&format!("{text}Z")).map_err(|_| reason))
    }

    /// Returns the whole seconds since 1970.
    pub fn unix_seconds(self) -> i64 {
        self.seconds
    }

    /// Returns the nanoseconds within the second.
    pub fn nanos(self) -> u32 {
        self.nanos
    }

    /// Returns whether it is the first moment of year one.
    pub fn is_zero(self) -> bool {
        self.seconds == MINIMUM && self.nanos == 0
    }

    /// Returns the same point in time in UTC.
    pub fn utc(self) -> Timestamp {
        Timestamp { offset: 0, ..self }
    }

    pub(super) fn add(self, nanos: i64) -> Result<Timestamp, EvalError> {
        let total = i64::from(self.nanos) + nanos % SECOND;
        let seconds = (self.seconds + nanos / SECOND).checked_add(total.div_euclid(SECOND));
        let seconds = seconds.ok_or_else(|| EvalError::new("timestamp overflow"))?;
        Timestamp { seconds, nanos: total.rem_euclid(SECOND) as u32, ..self }.in_range()
    }

    pub(super) fn since(self, other: Timestamp) -> Result<i64, EvalError> {
        (self.seconds - other.seconds)
            .checked_mul(SECOND)
            .and_then(|nanos| nanos.checked_add(i64::from(self.nanos) - i64::from(other.nanos)))
            .ok_or_else(|| EvalError::new("integer overflow"))
    }

    /// Returns the date and time of day at an offset from UTC.
    pub(crate) fn civil(self, offset: i64) -> Civil {
        let local = self.seconds + offset;
        let (days, second) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let (year, month, day) = civil_from_days(days);
        Civil {
            year,
            month,
            day,
            day_of_year: days - days_from_civil(year, 1, 1),
            weekday: (days + 4).rem_euclid(7),
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
        }
    }

    /// Formats as RFC 3339 with as many fractional digits as needed.
    pub fn to_rfc3339_nano(self) -> String {
        let civil = self.civil(i64::from(self.offset));
        let mut out = String::with_capacity(35);
        let _ = write!(out, "{:04}-{:02}-{:02}", civil.year, civil.month, civil.day);
        let _ = write!(out, "T{:02}:{:02}:{:02}", civil.hour, civil.minute, civil.second);
        if self.nanos > 0 {
            let digits = format!("{:09}", self.nanos);
            let _ = write!(out, ".{}", digits.trim_end_matches('0'));
        }
        if self.offset == 0 {
            out.push('Z');
        } else {
            let (sign, minutes) = (if self.offset < 0 { '-' } else { '+' }, self.offset.abs() / 60);
            let _ = write!(out, "{sign}{:02}:{:02}", minutes / 60, minutes % 60);
        }
        out
    }
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }
}

/// Returns the seconds of a duration as a float.
pub(crate) fn duration_seconds(nanos: i64) -> f64 {
    (nanos / SECOND) as f64 + (nanos % SECOND) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    #[test]
    fn timestamps_keep_their_original_offset() {
        for text in ["2023-01-01T00:00:00Z", "2023-07-14T10:30:45.123+02:00", "1969-12-31T23:59:59.5-11:30"] {
            assert_eq!(Timestamp::parse(text).map(Timestamp::to_rfc3339_nano).as_deref(), Ok(text));
        }
    }
}
