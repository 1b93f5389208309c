//! Cron schedules, parsed and evaluated like robfig/cron's standard parser, with its error messages.
//!
//! ```
//! use windlass_schema::cron::{Schedule, time_zone};
//!
//! let schedule = Schedule::parse("30 4 * * mon-fri").expect("a schedule");
//! let zone = time_zone("Europe/Berlin").expect("a zone");
//! let friday: jiff::Timestamp = "2026-11-13T12:00:00Z".parse().expect("a time");
//! let next = schedule.next_after(&friday.to_zoned(zone)).expect("there is a Monday");
//! assert_eq!(next.timestamp().to_string(), "2026-11-16T03:30:00Z");
//! ```
//!
//! Five fields: minute, hour, day of month, month, day of week. A field is a list of `n`, `n-m`, `*` or `?`, each with
//! an optional `/step`; months and days of the week have names. A day matches if both of its fields match, or, if
//! neither is a star, if one of them does. `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`,
//! `@annually` and `@every 1h30m` replace the whole schedule. A prefix `TZ=zone ` or `CRON_TZ=zone ` sets the time
//! zone.

mod field;
mod next;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Zoned};

use crate::time::parse_duration;
use field::{DAY_OF_MONTH, DAY_OF_WEEK, HOUR, MINUTE, MONTH};

/// A schedule, such as a CronJob's `spec.schedule`.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    rule: Rule,
    zone: Option<TimeZone>,
}

#[derive(Debug, Clone, PartialEq)]
enum Rule {
    Fields(Fields),
    /// Interval in whole seconds.
    Every(i64),
}

/// The allowed values of each field as bit sets.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Fields {
    minute: u64,
    hour: u64,
    day_of_month: u64,
    month: u64,
    day_of_week: u64,
}

/// Reason why a string is not a schedule, worded as in the parser that Kubernetes uses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

impl Schedule {
    /// Parses a schedule.
    ///
    /// # Errors
    /// Returns an error for the first invalid part.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        if text.is_empty() {
            return Err(ParseError("empty spec string".to_owned()));
        }
        let (zone, rest) = zone_and_rest(text)?;
        let rule = if rest.starts_with('@') { named(rest)? } else { Rule::Fields(fields(rest)?) };
        Ok(Self { rule, zone })
    }

    /// Returns the first scheduled time after `time`, in the zone of `time`; `None` if there is none in the next five
    /// years.
    ///
    /// The fields refer to the schedule's own zone if it has one, otherwise to the zone of `time`. When clocks are set
    /// forward, times within the skipped hour do not occur on that day; when they are set back, times within the
    /// repeated hour occur twice.
    pub fn next_after(&self, time: &Zoned) -> Option<Zoned> {
        let next = match &self.rule {
            Rule::Every(seconds) => {
                let whole = jiff::Timestamp::from_second(whole_seconds(time)).ok()?;
                whole.checked_add(SignedDuration::from_secs(*seconds)).ok()?
            }
            Rule::Fields(fields) => {
                let zone = self.zone.as_ref().unwrap_or_else(|| time.time_zone());
                next::next(fields, whole_seconds(time), zone)?
            }
        };
        Some(next.to_zoned(time.time_zone().clone()))
    }

    /// Returns the zone that the schedule sets with `TZ=` or `CRON_TZ=`.
    pub fn time_zone(&self) -> Option<&TimeZone> {
        self.zone.as_ref()
    }
}

impl std::str::FromStr for Schedule {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

/// Returns the zone with an IANA name, or Go's error for an unknown one.
///
/// # Errors
/// Returns `unknown time zone X`; also for a name in the wrong case, and for `Local`, which no server should depend on.
pub fn time_zone(name: &str) -> Result<TimeZone, String> {
    if name.is_empty() || name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    if name.contains("..") || name.starts_with(['/', '\\']) {
        return Err("time: invalid location name".to_owned());
    }
    // The database ignores case; file names do not.
    let zone = TimeZone::get(name).ok().filter(|zone| zone.iana_name() == Some(name));
    zone.ok_or_else(|| format!("unknown time zone {name}"))
}

/// Returns the seconds since 1970, rounded down.
fn whole_seconds(time: &Zoned) -> i64 {
    let stamp = time.timestamp();
    stamp.as_second() - i64::from(stamp.subsec_nanosecond() < 0)
}

/// Parses a leading `TZ=zone `.
fn zone_and_rest(text: &str) -> Result<(Option<TimeZone>, &str), ParseError> {
    let Some(after) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) else {
        return Ok((None, text));
    };
    let Some((name, rest)) = after.split_once(' ') else {
        // The Go parser panics here, and the error contains the message of the panic.
        let panic = "runtime error: slice bounds out of range [:-1]";
        return Err(ParseError(format!("invalid schedule format: {panic}")));
    };
    if name == "Local" {
        return Ok((None, rest.trim()));
    }
    let bad = |reason| ParseError(format!("provided bad location {name}: {reason}"));
    Ok((Some(time_zone(name).map_err(bad)?), rest.trim()))
}

fn fields(text: &str) -> Result<Fields, ParseError> {
    let parts: Vec<&str> = text.split_whitespace().collect();
    let &[minute, hour, day_of_month, month, day_of_week] = parts.as_slice() else {
        let (count, list) = (parts.len(), parts.join(" "));
        return Err(ParseError(format!("expected exactly 5 fields, found {count}: [{list}]")));
    };
    Ok(Fields {
        minute: MINUTE.parse(minute)?,
        hour: HOUR.parse(hour)?,
        day_of_month: DAY_OF_MONTH.parse(day_of_month)?,
        month: MONTH.parse(month)?,
        day_of_week: DAY_OF_WEEK.parse(day_of_week)?,
    })
}

/// Parses a named schedule such as `@daily`.
fn named(text: &str) -> Result<Rule, ParseError> {
    let same = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let Some(duration) = text.strip_prefix("@every ") else {
                return Err(ParseError(format!("unrecognized descriptor: {text}")));
            };
            let bad = |reason| ParseError(format!("failed to parse duration {text}: {reason}"));
            let nanos = parse_duration(duration).map_err(bad)?;
            return Ok(Rule::Every((nanos / 1_000_000_000).max(1)));
        }
    };
    Ok(Rule::Fields(fields(same)?))
}

#[cfg(test)]
mod tests;
