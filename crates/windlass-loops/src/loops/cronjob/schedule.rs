//! Due and missed runs of a cron job.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec};
use windlass_schema::cron::{Schedule, time_zone};

/// Delay after the scheduled time, so that a clock that is slightly behind has reached it.
const LATER: SignedDuration = SignedDuration::from_millis(100);
/// With more missed runs than this, the clock is probably wrong.
const MANY: i64 = 100;

/// Reasons why a cron job cannot run until it is changed: reason and message of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unusable(pub(super) &'static str, pub(super) String);

/// The schedule of a cron job.
#[derive(Debug)]
pub(super) struct Times {
    schedule: Schedule,
    /// The schedule as written.
    text: String,
    zone: TimeZone,
    created: Timestamp,
    last: Option<Timestamp>,
    deadline: Option<SignedDuration>,
}

/// A run that is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) at: Timestamp,
    /// Whether so many runs were missed that the clock may be wrong.
    pub(super) many_missed: bool,
    /// Whether its starting deadline has passed.
    pub(super) too_late: bool,
}

/// A schedule without any time, such as the 30th of February.
#[derive(Debug, PartialEq, Eq)]
struct NeverDue;

/// The latest time at which a run was due.
struct Recent {
    /// The earliest time to consider.
    earliest: Timestamp,
    at: Option<Timestamp>,
    missed: i64,
}

impl Times {
    /// Parses the schedule of a cron job.
    pub(super) fn of(job: &CronJob) -> Result<Self, Unusable> {
        let spec = &job.spec;
        let zone = zone(spec)?;
        let schedule = Schedule::parse(&spec.schedule).map_err(|error| {
            Unusable("UnparseableSchedule", format!("unparseable schedule: {:?} : {error}", spec.schedule))
        })?;
        let last = job.status.as_ref().and_then(|status| status.last_schedule_time.as_ref());
        let created = job.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let deadline = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
        Ok(Self { schedule, text: spec.schedule.clone(), zone, created, last: last.map(|time| time.0), deadline })
    }

    /// The schedule after a run.
    pub(super) fn after(mut self, run: Timestamp) -> Self {
        self.last = Some(run);
        self
    }

    /// The latest run that is due and has not been started.
    pub(super) fn due(&self, now: Timestamp) -> Result<Option<Due>, Unusable> {
        let invalid = |_| {
            let message = "time difference between two schedules is less than 1 second";
            Unusable("InvalidSchedule", format!("invalid schedule: {} : {message}", self.text))
        };
        let recent = self.recent(now, self.deadline).map_err(invalid)?;
        let late = |at: Timestamp| {
            self.deadline.is_some_and(|deadline| at.saturating_add(deadline).is_ok_and(|end| end < now))
        };
        let due = |at| Due { at, many_missed: recent.missed > MANY, too_late: late(at) };
        Ok(recent.at.filter(|at| *at <= now).map(due))
    }

    /// The time until the next run, if there is one.
    pub(super) fn next(&self, now: Timestamp) -> Option<Duration> {
        let since = match self.recent(now, None) {
            Err(NeverDue) => now,
            Ok(Recent { at: Some(at), .. }) => at,
            Ok(Recent { earliest, missed: 0, .. }) => earliest,
            Ok(_) => now,
        };
        let next = self.next_after(since)?.saturating_add(LATER).ok()?;
        Some(Duration::try_from(next.duration_since(now)).unwrap_or_default())
    }

    /// Formats a time for a job's annotation.
    pub(super) fn written(&self, time: Timestamp) -> String {
        if self.zone == TimeZone::UTC {
            return time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        }
        let zoned = time.to_zoned(self.zone.clone());
        let offset = if zoned.offset().seconds() == 0 { "Z".to_owned() } else { zoned.strftime("%:z").to_string() };
        format!("{}{offset}", zoned.strftime("%Y-%m-%dT%H:%M:%S"))
    }

    fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        self.schedule.next_after(&time.to_zoned(self.zone.clone())).map(|next| next.timestamp())
    }

    fn recent(&self, now: Timestamp, deadline: Option<SignedDuration>) -> Result<Recent, NeverDue> {
        let mut earliest = self.last.unwrap_or(self.created);
        if let Some(limit) = deadline.and_then(|deadline| now.checked_sub(deadline).ok()) {
            earliest = earliest.max(limit);
        }
        let first = self.next_after(earliest).ok_or(NeverDue)?;
        if now < first {
            return Ok(Recent { earliest, at: None, missed: 0 });
        }
        let second = self.next_after(first).ok_or(NeverDue)?;
        if now < second {
            return Ok(Recent { earliest, at: Some(first), missed: 0 });
        }
        let between = second.duration_since(first).as_secs();
        if between < 1 {
            return Err(NeverDue);
        }
        // An estimate, because schedules may be irregular. It is good enough to detect many missed runs, and one step
        // back from it is early enough to find the latest.
        let missed = now.duration_since(first).as_secs() / between + 1;
        let before = SignedDuration::from_secs((missed - 2).saturating_mul(between));
        let mut at = None;
        let mut time = first.checked_add(before).unwrap_or(first);
        while let Some(next) = self.next_after(time).filter(|next| *next <= now) {
            (at, time) = (Some(next), next);
        }
        Ok(Recent { earliest, at, missed })
    }
}

/// The time zone of a cron job. A time zone in the schedule itself takes precedence.
fn zone(spec: &CronJobSpec) -> Result<TimeZone, Unusable> {
    let Some(name) = &spec.time_zone else { return Ok(TimeZone::UTC) };
    time_zone(name).map_err(|error| Unusable("UnknownTimeZone", format!("invalid timeZone: {name:?}: {error}")))
}

#[cfg(test)]
mod tests;
