//! Times and durations, parsed and formatted like Go, with its error messages.
//!
//! This module has no clock: [`Time::from_unix`] converts a time of the caller's clock.

use std::fmt::Write;

mod duration;

pub use duration::{format_duration, human_duration, parse_duration, parse_loose_duration};

const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICROSECONDS: &str = "2006-01-02T15:04:05.000000Z07:00";
const DAY: i64 = 86_400;

/// A point in time with nanosecond precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    seconds: i64,
    nanos: u32,
}

impl Time {
    /// Returns a time from seconds since 1970 and the nanoseconds within that second.
    pub fn from_unix(seconds: i64, nanos: u32) -> Self {
        Self { seconds: seconds + i64::from(nanos / 1_000_000_000), nanos: nanos % 1_000_000_000 }
    }

    /// Returns the whole seconds since 1970.
    pub fn unix_seconds(self) -> i64 {
        self.seconds
    }

    /// Returns the nanoseconds within the second.
    pub fn nanos(self) -> u32 {
        self.nanos
    }

    /// Returns whether this is Go's zero time, the first moment of year one, which is written as null.
    pub fn is_zero(self) -> bool {
        self.seconds == -62_135_596_800 && self.nanos == 0
    }

    /// Formats the time like `metav1.Time`: `2006-01-02T15:04:05Z`.
    pub fn to_rfc3339(self) -> String {
        let mut out = self.date_time();
        out.push('Z');
        out
    }

    /// Formats the time like `metav1.MicroTime`: `2006-01-02T15:04:05.000000Z`.
    pub fn to_rfc3339_micro(self) -> String {
        let mut out = self.date_time();
        let _ = write!(out, ".{:06}Z", self.nanos / 1000);
        out
    }

    fn date_time(self) -> String {
        let (year, month, day) = civil_from_days(self.seconds.div_euclid(DAY));
        let second = self.seconds.rem_euclid(DAY);
        let mut out = String::with_capacity(28);
        let year_text = if year < 0 { format!("-{:04}", -year) } else { format!("{year:04}") };
        let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
        let _ = write!(out, "{year_text}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}");
        out
    }
}

/// Parses a `metav1.Time`.
///
/// # Errors
/// Returns Go's message if the string is not RFC 3339.
pub fn parse_rfc3339(text: &str) -> Result<Time, String> {
    Scan { text, layout: SECONDS, rest: text }.run(false)
}

/// Parses a `metav1.MicroTime`, which has exactly six digits after the point.
///
/// # Errors
/// Returns Go's message if the string does not have that form.
pub fn parse_rfc3339_micro(text: &str) -> Result<Time, String> {
    Scan { text, layout: MICROSECONDS, rest: text }.run(true)
}

/// Parses a string along a layout.
struct Scan<'a> {
    text: &'a str,
    layout: &'static str,
    rest: &'a str,
}

impl Scan<'_> {
    fn run(mut self, micro: bool) -> Result<Time, String> {
        let year = self.year()?;
        self.literal('-')?;
        let month = self.two_digits("01", true)?;
        if !(1..=12).contains(&month) {
            return Err(self.out_of_range("month"));
        }
        self.literal('-')?;
        let day = self.two_digits("02", true)?;
        self.literal('T')?;
        let hour = self.two_digits("15", false)?;
        if hour > 23 {
            return Err(self.out_of_range("hour"));
        }
        self.literal(':')?;
        let minute = self.two_digits("04", true)?;
        if minute > 59 {
            return Err(self.out_of_range("minute"));
        }
        self.literal(':')?;
        let second = self.two_digits("05", true)?;
        if second > 59 {
            return Err(self.out_of_range("second"));
        }
        let nanos = if micro { self.six_digits()? } else { self.optional_fraction() };
        let offset = self.zone()?;
        if !self.rest.is_empty() {
            return Err(format!("parsing time {}: extra text: {}", quote(self.text), quote(self.rest)));
        }
        if day < 1 || day > days_in(month, year) {
            return Err(self.out_of_range("day"));
        }
        let days = days_from_civil(year, month, day);
        Ok(Time { seconds: days * DAY + hour * 3600 + minute * 60 + second - offset, nanos })
    }

    fn cannot(&self, what: &str, element: &str) -> String {
        let (text, layout) = (quote(self.text), quote(self.layout));
        format!("parsing time {text} as {layout}: cannot parse {} as {}", quote(what), quote(element))
    }

    fn out_of_range(&self, what: &str) -> String {
        format!("parsing time {}: {what} out of range", quote(self.text))
    }

    fn literal(&mut self, c: char) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(c).ok_or_else(|| self.cannot(self.rest, c.encode_utf8(&mut [0; 4])))?;
        Ok(())
    }

    fn digit(&self, at: usize) -> Option<i64> {
        self.rest.as_bytes().get(at).filter(|b| b.is_ascii_digit()).map(|b| i64::from(b - b'0'))
    }

    fn year(&mut self) -> Result<i64, String> {
        let mut year = 0;
        for at in 0..4 {
            year = year * 10 + self.digit(at).ok_or_else(|| self.cannot(self.rest, "2006"))?;
        }
        self.rest = &self.rest[4..];
        Ok(year)
    }

    fn two_digits(&mut self, element: &str, fixed: bool) -> Result<i64, String> {
        let first = self.digit(0).ok_or_else(|| self.cannot(self.rest, element))?;
        let (value, length) = match self.digit(1) {
            Some(second) => (first * 10 + second, 2),
            None if fixed => return Err(self.cannot(self.rest, element)),
            None => (first, 1),
        };
        self.rest = &self.rest[length..];
        Ok(value)
    }

    /// Parses a fraction that is not in the layout; digits after the ninth are dropped.
    fn optional_fraction(&mut self) -> u32 {
        if !self.rest.starts_with(['.', ',']) || self.digit(1).is_none() {
            return 0;
        }
        let mut nanos = 0;
        let mut unit = 100_000_000;
        let mut at = 1;
        while let Some(digit) = self.digit(at) {
            nanos += digit as u32 * unit;
            unit /= 10;
            at += 1;
        }
        self.rest = &self.rest[at..];
        nanos
    }

    fn six_digits(&mut self) -> Result<u32, String> {
        let fits = self.rest.starts_with(['.', ',']) && (1..=6).all(|at| self.digit(at).is_some());
        if !fits {
            return Err(self.cannot(self.rest, ".000000"));
        }
        let micros: u32 = self.rest[1..7].parse().unwrap_or_default();
        self.rest = &self.rest[7..];
        Ok(micros * 1000)
    }

    fn zone(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bytes = self.rest.as_bytes();
        let number = |at: usize| Some(self.digit(at)? * 10 + self.digit(at + 1)?);
        let parts = if bytes.len() >= 6 && bytes[3] == b':' { Some((number(1), number(4))) } else { None };
        let Some((hours, minutes)) = parts else { return Err(self.cannot(self.rest, "Z07:00")) };
        if hours.is_some_and(|h| h > 24) && (minutes.is_none_or(|m| m <= 60)) {
            return Err(self.out_of_range("time zone offset hour"));
        }
        if minutes.is_some_and(|m| m > 60) {
            return Err(self.out_of_range("time zone offset minute"));
        }
        let (Some(hours), Some(minutes), b'+' | b'-') = (hours, minutes, bytes[0]) else {
            return Err(self.cannot(self.rest, "Z07:00"));
        };
        let offset = (hours * 60 + minutes) * 60;
        let offset = if bytes[0] == b'-' { -offset } else { offset };
        self.rest = &self.rest[6..];
        Ok(offset)
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(crate) fn days_in(month: i64, year: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days since 1970 of a date, counting years from March so that the leap day is the last.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Returns the date of a day since 1970: year, month and day.
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

/// Quotes a string like the errors of Go's time package.
fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(byte as char);
            }
            b' '..=0x7f => out.push(byte as char),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests;
