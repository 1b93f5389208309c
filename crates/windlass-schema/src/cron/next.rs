//! The next time that fits the fields of a schedule.
//!
//! The walk is that of robfig/cron, step by step, because at the edges of summer time its steps decide what is due.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::Fields;
use super::field::STAR;

/// How many years ahead a time is looked for.
const YEARS: i16 = 5;

/// The first time after `after` (in seconds since 1970) whose clock in `zone` shows what the fields allow.
pub(super) fn next(fields: &Fields, after: i64, zone: &TimeZone) -> Option<Timestamp> {
    // Lists such as `,` allow nothing; walking five years of minutes would find that out late.
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
    /// Whether the smaller fields are already at their beginning.
    reset: bool,
}

impl Walk<'_> {
    fn clock(&self) -> Option<DateTime> {
        Some(self.zone.to_datetime(Timestamp::from_second(self.second).ok()?))
    }

    /// Sets the clock. A time that does not exist, or that exists twice, is resolved as Go resolves it.
    fn set(&mut self, clock: DateTime) -> Option<()> {
        let as_utc = TimeZone::UTC.to_timestamp(clock).ok()?.as_second();
        let offset_at = |second| Some(i64::from(self.zone.to_offset(Timestamp::from_second(second).ok()?).seconds()));
        let guess = offset_at(as_utc)?;
        self.second = if guess == 0 { as_utc } else { as_utc - offset_at(as_utc - guess)? };
        Some(())
    }

    /// Goes to the beginning of what the clock's larger fields say, once.
    fn reset_to(&mut self, clock: DateTime) -> Option<()> {
        if !self.reset {
            self.reset = true;
            self.set(clock)?;
        }
        Some(())
    }

    /// One pass over the fields: true when all fit, false when a larger field has changed and must be looked at again.
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
            // Where clocks are put forward at midnight, the day has none.
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

/// The same day of the next month; days that it does not have run over into the month after.
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
