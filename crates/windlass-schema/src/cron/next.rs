//! Finds the next time that matches the fields of a schedule.
//!
//! The search follows robfig/cron step by step, because its steps determine the result at daylight saving transitions.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::Fields;
use super::field::STAR;

/// Number of years to search ahead.
const YEARS: i16 = 5;

/// Returns the first time after `after` (in seconds since 1970) whose wall clock in `zone` matches the fields.
pub(super) fn next(fields: &Fields, after: i64, zone: &TimeZone) -> Option<Timestamp> {
    // Lists such as `,` allow no value, which walking through five years of minutes would only find out late.
    if [fields.minute, fields.hour, fields.month].contains(&0) || fields.day_of_month | fields.day_of_week == 0 {
        return None;
    }
    let mut walk = Walk { second: after.checked_add(1)?, zone, reset: false };
    let last_year = walk.clock()?.year().checked_add(YEARS)?;
    while walk.clock()?.year() <= last_year {
        if walk.step(fields)? {
            return Timestamp::from_second(walk.second).ok();
        }
    }
    None
}

struct Walk<'a> {
    second: i64,
    zone: &'a TimeZone,
    /// Whether the smaller fields are already at their minimum.
    reset: bool,
}

impl Walk<'_> {
    fn clock(&self) -> Option<DateTime> {
        Some(self.zone.to_datetime(Timestamp::from_second(self.second).ok()?))
    }

    /// Sets the wall clock. A time that does not exist, or exists twice, is resolved as in Go.
    fn set(&mut self, clock: DateTime) -> Option<()> {
        let as_utc = TimeZone::UTC.to_timestamp(clock).ok()?.as_second();
        let offset_at = |second| Some(i64::from(self.zone.to_offset(Timestamp::from_second(second).ok()?).seconds()));
        let guess = offset_at(as_utc)?;
        self.second = if guess == 0 { as_utc } else { as_utc - offset_at(as_utc - guess)? };
        Some(())
    }

    /// Resets the smaller fields to their minimum, once.
    fn reset_to(&mut self, clock: DateTime) -> Option<()> {
        if !self.reset {
            self.reset = true;
            self.set(clock)?;
        }
        Some(())
    }

    /// Makes one pass over the fields. Returns true if all match, and false if a larger field has changed and must be
    /// checked again.
    fn step(&mut self, fields: &Fields) -> Option<bool> {
        loop {
            let clock = self.clock()?;
            if has(fields.month, clock.month()) {
                break;
            }
            self.reset_to(clock.date().first_of_month().at(0, 0, 0, 0))?;
            let clock = self.clock()?;
            self.set(month_later(clock)?)?;
            if self.clock()?.month() == 1 {
                return Some(false);
            }
        }
        loop {
            let clock = self.clock()?;
            if fields.match_day(clock.date()) {
                break;
            }
            self.reset_to(clock.date().at(0, 0, 0, 0))?;
            let clock = self.clock()?;
            self.set(clock.checked_add(1.day()).ok()?)?;
            // If clocks are set forward at midnight, the day has no midnight.
            let hour = i64::from(self.clock()?.hour());
            self.second += if hour > 12 { 24 - hour } else { -hour } * 3600;
            if self.clock()?.day() == 1 {
                return Some(false);
            }
        }
        loop {
            let clock = self.clock()?;
            if has(fields.hour, clock.hour()) {
                break;
            }
            self.reset_to(clock.date().at(clock.hour(), 0, 0, 0))?;
            self.second += 3600;
            if self.clock()?.hour() == 0 {
                return Some(false);
            }
        }
        self.minute(fields)
    }

    fn minute(&mut self, fields: &Fields) -> Option<bool> {
        while !has(fields.minute, self.clock()?.minute()) {
            if !self.reset {
                self.reset = true;
                self.second -= self.second.rem_euclid(60);
            }
            self.second += 60;
            if self.clock()?.minute() == 0 {
                return Some(false);
            }
        }
        while self.clock()?.second() != 0 {
            self.reset = true;
            self.second += 1;
            if self.clock()?.second() == 0 {
                return Some(false);
            }
        }
        Some(true)
    }
}

/// Returns the same day of the next month; a day that it does not have carries over into the month after.
fn month_later(clock: DateTime) -> Option<DateTime> {
    let first = clock.date().first_of_month().checked_add(1.month()).ok()?;
    let date = first.checked_add(i64::from(clock.day() - 1).days()).ok()?;
    Some(date.to_datetime(clock.time()))
}

impl Fields {
    fn match_day(&self, date: Date) -> bool {
        let day = has(self.day_of_month, date.day());
        let weekday = has(self.day_of_week, date.weekday().to_sunday_zero_offset());
        if (self.day_of_month | self.day_of_week) & STAR != 0 { day && weekday } else { day || weekday }
    }
}

fn has(bits: u64, value: i8) -> bool {
    bits >> value & 1 == 1
}
