//! Decides which run is due, and when the next one is.

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use windlass_schema::cron::{Schedule, time_zone};

use crate::api::cron_tab::CronTabSpec;

/// Missed runs are counted up to this number.
const COUNTED: usize = 100;

/// A schedule in its time zone.
pub struct Timetable {
    schedule: Schedule,
    zone: TimeZone,
    deadline: Option<SignedDuration>,
}

/// The state of a timetable at a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Scheduled time of the latest run that is due, if any.
    pub run: Option<Timestamp>,
    /// Number of runs that are due; all but the latest are skipped. At most a hundred are counted.
    pub missed: usize,
    /// Time of the next run.
    pub next: Option<Timestamp>,
}

impl Timetable {
    /// Parses the schedule of a CronTab. The error explains why it is invalid.
    pub fn new(spec: &CronTabSpec) -> Result<Self, String> {
        let schedule = Schedule::parse(&spec.cron_spec).map_err(|error| error.to_string())?;
        let zone = time_zone(spec.time_zone.as_deref().unwrap_or_default())?;
        Ok(Self { schedule, zone, deadline: spec.starting_deadline_seconds.map(SignedDuration::from_secs) })
    }

    /// Returns the due run, the number of missed runs and the next run, given that the last one started at `since`.
    pub fn due(&self, since: Timestamp, now: Timestamp) -> Due {
        let earliest = self.deadline.and_then(|deadline| now.checked_sub(deadline).ok());
        let since = earliest.map_or(since, |earliest| since.max(earliest));
        let next = |after: Timestamp| Some(self.schedule.next_after(&after.to_zoned(self.zone.clone()))?.timestamp());
        let mut due = Due { run: None, missed: 0, next: next(now) };
        let mut time = since;
        while let Some(following) = next(time).filter(|following| *following <= now) {
            (due.run, time) = (Some(following), following);
            due.missed += 1;
            if due.missed == COUNTED {
                due.run = self.last_before(now, following);
                break;
            }
        }
        due
    }

    /// Returns the last run at or before `now` by binary search, given a run `known` that is not after it.
    fn last_before(&self, now: Timestamp, known: Timestamp) -> Option<Timestamp> {
        let next = |after: i64| {
            let after = Timestamp::from_second(after).ok()?.to_zoned(self.zone.clone());
            Some(self.schedule.next_after(&after)?.timestamp()).filter(|next| *next <= now)
        };
        // There is a run after the lower bound, and none after the upper bound.
        let (mut lower, mut upper) = (known.as_second() - 1, now.as_second());
        while upper - lower > 1 {
            let middle = lower + (upper - lower) / 2;
            if next(middle).is_some() { lower = middle } else { upper = middle }
        }
        next(lower)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn timetable(spec: serde_json::Value) -> Result<Timetable, String> {
        let mut full = json!({"image": "app"});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        Timetable::new(&serde_json::from_value(full).unwrap())
    }

    fn at(text: &str) -> Timestamp {
        format!("2026-03-{text}Z").parse().unwrap()
    }

    #[test]
    fn the_latest_run_is_due_and_the_others_are_missed() {
        let hourly = timetable(json!({"cronSpec": "0 * * * *"})).unwrap();
        for (since, now, run, missed, next) in [
            ("01T10:30:00", "01T10:59:59", None, 0, "01T11:00:00"),
            ("01T10:30:00", "01T11:00:00", Some("01T11:00:00"), 1, "01T12:00:00"),
            ("01T10:30:00", "01T13:10:00", Some("01T13:00:00"), 3, "01T14:00:00"),
            ("01T10:30:00", "30T13:10:00", Some("30T13:00:00"), 100, "30T14:00:00"),
        ] {
            let expected = Due { run: run.map(at), missed, next: Some(at(next)) };
            assert_eq!(hourly.due(at(since), at(now)), expected, "from {since} to {now}");
        }
    }

    #[test]
    fn runs_past_the_deadline_are_skipped() {
        let hourly = timetable(json!({"cronSpec": "0 * * * *", "startingDeadlineSeconds": 600})).unwrap();
        assert_eq!(hourly.due(at("01T08:30:00"), at("01T13:09:00")).run, Some(at("01T13:00:00")));
        assert_eq!(
            hourly.due(at("01T08:30:00"), at("01T13:11:00")),
            Due { run: None, missed: 0, next: Some(at("01T14:00:00")) }
        );
    }

    #[test]
    fn schedules_follow_their_time_zone() {
        let berlin = timetable(json!({"cronSpec": "0 9 * * *", "timeZone": "Europe/Berlin"})).unwrap();
        // Clocks are put forward on the 29th.
        assert_eq!(berlin.due(at("27T00:00:00"), at("27T00:00:00")).next, Some(at("27T08:00:00")));
        assert_eq!(berlin.due(at("30T00:00:00"), at("30T00:00:00")).next, Some(at("30T07:00:00")));
    }

    #[test]
    fn invalid_schedules_are_reported() {
        for (spec, expected) in [
            (json!({"cronSpec": "61 * * * *"}), "end of range (61) above maximum (59): 61"),
            (json!({"cronSpec": "* * * * *", "timeZone": "Mars/Base"}), "unknown time zone Mars/Base"),
        ] {
            assert_eq!(timetable(spec).err().as_deref(), Some(expected));
        }
        let never = timetable(json!({"cronSpec": "0 0 31 2 *"})).unwrap();
        assert_eq!(never.due(at("01T00:00:00"), at("02T00:00:00")), Due { run: None, missed: 0, next: None });
    }
}
