use k8s_openapi::api::core::v1::ObjectReference;

use super::*;
use crate::events::EventType;

struct Bench {
    correlator: Correlator,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let now = Instant::now();
        Self { correlator: Correlator::new(now), now }
    }

    fn record(&mut self, object: &str, reason: &str) -> Result<(), Dropped> {
        let about = ObjectReference { name: Some(object.to_owned()), ..ObjectReference::default() };
        let occurrence = Occurrence {
            reporter: "foo-controller".into(),
            instance: "foo-0".into(),
            host: "".into(),
            style: EventStyle::Series,
            client: None,
            about,
            related: None,
            kind: EventType::Normal,
            reason: reason.to_owned(),
            action: "Sync".to_owned(),
            note: "done".to_owned(),
            at: Timestamp::UNIX_EPOCH,
        };
        self.correlator.observe(&occurrence, self.now)
    }

    /// Returns the next write, as `create 1` or `count 5`.
    fn next(&mut self) -> String {
        match self.correlator.next_write(self.now) {
            Next::Write(Write::Create(event)) => format!("create {}", event.series.map_or(1, |series| series.count)),
            Next::Write(Write::Count { series, .. }) => format!("count {}", series.count),
            Next::Write(Write::Counted { .. }) => panic!("this is a counted event"),
            Next::Wait(until) => format!("wait {}", until.duration_since(self.now).as_secs()),
            Next::Idle => "idle".to_owned(),
        }
    }

    fn came(&mut self, outcome: Outcome) -> Result<(), Dropped> {
        self.correlator.written(outcome, self.now, 0.0)
    }

    /// Makes the next write succeed.
    fn write(&mut self) -> String {
        let next = self.next();
        self.came(Outcome::Written).unwrap();
        next
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.correlator.tick(self.now);
    }
}

#[test]
fn repeated_events_are_counted_at_once_the_second_time_and_later_from_time_to_time() {
    let mut bench = Bench::new();
    bench.record("web", "Synced").unwrap();
    assert_eq!(bench.write(), "create 1");
    bench.record("web", "Synced").unwrap();
    assert_eq!(bench.write(), "count 2");
    for _ in 0..8 {
        bench.record("web", "Synced").unwrap();
    }
    assert_eq!(bench.next(), "idle");
    bench.pass(29);
    assert_eq!(bench.next(), "idle");
    bench.pass(1);
    assert_eq!(bench.write(), "count 10");
    assert_eq!(bench.next(), "idle");
}

#[test]
fn repeats_before_the_first_write_are_written_with_it() {
    let mut bench = Bench::new();
    for _ in 0..10 {
        bench.record("web", "Synced").unwrap();
    }
    assert_eq!(bench.write(), "create 10");
    assert_eq!(bench.next(), "idle");
}

#[test]
fn repeats_during_the_first_write_are_counted_after_it() {
    let mut bench = Bench::new();
    bench.record("web", "Synced").unwrap();
    assert_eq!(bench.next(), "create 1");
    bench.record("web", "Synced").unwrap();
    assert_eq!(bench.next(), "idle", "one write at a time");
    bench.came(Outcome::Written).unwrap();
    assert_eq!(bench.write(), "count 2");
    assert_eq!(bench.next(), "idle");
}

#[test]
fn a_series_ends_after_six_quiet_minutes_and_its_last_count_is_written() {
    let mut bench = Bench::new();
    bench.record("web", "Synced").unwrap();
    bench.write();
    bench.record("web", "Synced").unwrap();
    bench.write();
    bench.record("web", "Synced").unwrap();
    bench.pass(400);
    assert_eq!(bench.write(), "count 3");
    bench.pass(1);
    assert_eq!(bench.correlator.series.len(), 0);
    bench.record("web", "Synced").unwrap();
    assert_eq!(bench.write(), "create 1");
}

#[test]
fn a_flush_writes_every_count_and_knows_when_that_is_done() {
    let mut bench = Bench::new();
    for object in ["a", "b"] {
        bench.record(object, "Synced").unwrap();
        bench.write();
        bench.record(object, "Synced").unwrap();
        bench.write();
        bench.record(object, "Synced").unwrap();
    }
    let number = bench.correlator.hurry();
    bench.record("c", "Synced").unwrap();
    assert!(!bench.correlator.is_settled(number));
    assert_eq!(bench.write(), "count 3");
    assert_eq!(bench.next(), "count 3");
    assert!(!bench.correlator.is_settled(number), "it is still in flight");
    bench.came(Outcome::Written).unwrap();
    assert!(bench.correlator.is_settled(number), "later events do not delay it");
}

#[test]
fn an_event_that_has_expired_is_created_again_with_its_count() {
    let mut bench = Bench::new();
    bench.record("web", "Synced").unwrap();
    bench.write();
    bench.record("web", "Synced").unwrap();
    assert_eq!(bench.next(), "count 2");
    bench.came(Outcome::Missing).unwrap();
    assert_eq!(bench.write(), "create 2");
}

#[test]
fn an_earlier_attempt_that_had_arrived_is_treated_as_the_event() {
    let mut bench = Bench::new();
    bench.record("web", "Synced").unwrap();
    assert_eq!(bench.next(), "create 1");
    bench.came(Outcome::Failed).unwrap();
    assert_eq!(bench.next(), "wait 1");
    bench.record("web", "Synced").unwrap();
    bench.pass(1);
    assert_eq!(bench.next(), "create 2");
    bench.came(Outcome::Exists).unwrap();
    assert_eq!(bench.write(), "count 2");
}

#[test]
fn failures_are_retried_with_backoff_and_dropped_in_the_end() {
    let mut bench = Bench::new();
    bench.record("web", "Synced").unwrap();
    bench.record("other", "Synced").unwrap();
    let mut waits = Vec::new();
    loop {
        assert_eq!(bench.next(), "create 1");
        if bench.came(Outcome::Failed) == Err(Dropped::GivenUp) {
            break;
        }
        let wait = bench.next();
        let seconds: u64 = wait.strip_prefix("wait ").unwrap().parse().unwrap();
        waits.push(seconds);
        bench.pass(seconds);
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30, 30, 30, 30]);
    bench.pass(30);
    assert_eq!(bench.write(), "create 1", "the next one is tried");
}

#[test]
fn rejected_events_are_dropped_and_may_be_written_when_they_recur() {
    let mut bench = Bench::new();
    bench.record("web", "Synced").unwrap();
    bench.next();
    assert_eq!(bench.came(Outcome::Rejected), Err(Dropped::Rejected));
    assert_eq!(bench.next(), "idle");
    bench.record("web", "Synced").unwrap();
    assert_eq!(bench.next(), "create 1");
}

#[test]
fn new_events_about_one_object_are_limited_and_others_are_not() {
    let mut bench = Bench::new();
    let recorded = (0..100).filter(|number| bench.record("web", &format!("Reason{number}")).is_ok()).count();
    assert_eq!(recorded, 25);
    assert_eq!(bench.record("web", "Another"), Err(Dropped::RateLimited));
    assert_eq!(bench.record("web", "Reason3"), Ok(()), "a known series only counts");
    assert_eq!(bench.record("other", "Synced"), Ok(()));
    bench.pass(301);
    assert_eq!(bench.record("web", "Another"), Ok(()));
    assert_eq!(bench.record("web", "YetAnother"), Err(Dropped::RateLimited));
}

#[test]
fn writes_over_all_are_limited() {
    let mut bench = Bench::new();
    for number in 0..150 {
        bench.record(&format!("object-{number}"), "Synced").unwrap();
    }
    for _ in 0..100 {
        assert_eq!(bench.write(), "create 1");
    }
    assert_eq!(bench.next(), "wait 0");
    bench.pass(1);
    for _ in 0..10 {
        assert_eq!(bench.write(), "create 1");
    }
    assert_eq!(bench.next(), "wait 0");
}

#[test]
fn memory_is_bounded() {
    let mut bench = Bench::new();
    let results: Vec<_> = (0..10_000).map(|number| bench.record(&format!("object-{number}"), "Synced")).collect();
    assert_eq!(bench.correlator.series.len(), CAPACITY);
    assert_eq!(bench.correlator.allowances.len(), CAPACITY);
    assert_eq!(results.iter().filter(|result| **result == Err(Dropped::Evicted)).count(), 10_000 - CAPACITY);
    assert!(bench.correlator.queue.len() <= 2 * CAPACITY, "the queue stays bounded");
    assert_eq!(bench.write(), "create 1");
    assert!(bench.correlator.queue.len() < CAPACITY);
}

impl Bench {
    /// Records a counted event with a note.
    fn note(&mut self, object: &str, note: &str) -> Result<(), Dropped> {
        let about = ObjectReference { name: Some(object.to_owned()), ..ObjectReference::default() };
        let occurrence = Occurrence {
            reporter: "foo-controller".into(),
            instance: "foo-0".into(),
            host: "".into(),
            style: EventStyle::Counted,
            client: None,
            about,
            related: None,
            kind: EventType::Normal,
            reason: "Scaled".to_owned(),
            action: String::new(),
            note: note.to_owned(),
            at: Timestamp::UNIX_EPOCH,
        };
        self.correlator.observe(&occurrence, self.now)
    }

    /// Makes the next write of a counted event succeed, and returns it as `create 1 note` or `patch 2 note`.
    fn write_counted(&mut self) -> String {
        let Next::Write(Write::Counted { creates, body, .. }) = self.correlator.next_write(self.now) else {
            return "idle".to_owned();
        };
        self.came(Outcome::Written).unwrap();
        let verb = if creates { "create" } else { "patch" };
        format!("{verb} {} {}", body["count"], body["message"].as_str().unwrap())
    }
}

#[test]
fn every_note_is_a_counted_event_and_every_occurrence_is_written() {
    let mut bench = Bench::new();
    for (note, expected) in [
        ("up to 3", "create 1 up to 3"),
        ("up to 3", "patch 2 up to 3"),
        ("up to 20", "create 1 up to 20"),
        ("up to 3", "patch 3 up to 3"),
    ] {
        bench.note("web", note).unwrap();
        assert_eq!(bench.write_counted(), expected);
        assert_eq!(bench.write_counted(), "idle");
    }
    // Longer than a series lasts.
    bench.pass(1800);
    bench.note("web", "up to 3").unwrap();
    assert_eq!(bench.write_counted(), "patch 4 up to 3");
    bench.pass(3600);
    bench.note("web", "up to 3").unwrap();
    assert_eq!(bench.write_counted(), "create 1 up to 3");
}

#[test]
fn the_tenth_note_in_ten_minutes_is_combined_with_the_following_ones() {
    let mut bench = Bench::new();
    for number in 1..10 {
        bench.note("web", &number.to_string()).unwrap();
        assert_eq!(bench.write_counted(), format!("create 1 {number}"));
    }
    bench.note("web", "10").unwrap();
    assert_eq!(bench.write_counted(), "create 1 (combined from similar events): 10");
    bench.note("web", "11").unwrap();
    assert_eq!(bench.write_counted(), "patch 2 (combined from similar events): 11");
    bench.note("web", "5").unwrap();
    assert_eq!(bench.write_counted(), "patch 2 5");
    bench.pass(601);
    bench.note("web", "12").unwrap();
    assert_eq!(bench.write_counted(), "create 1 12");
}

#[test]
fn counted_events_beyond_the_limit_of_an_object_are_counted_but_not_written() {
    let mut bench = Bench::new();
    for number in 1..=25 {
        bench.note("web", "again").unwrap();
        assert!(bench.write_counted().ends_with(&format!(" {number} again")));
    }
    for _ in 0..3 {
        assert_eq!(bench.note("web", "again"), Err(Dropped::RateLimited));
    }
    bench.correlator.hurry();
    assert_eq!(bench.write_counted(), "idle");
    bench.note("db", "again").unwrap();
    assert_eq!(bench.write_counted(), "create 1 again");
    bench.pass(300);
    bench.note("web", "again").unwrap();
    assert_eq!(bench.write_counted(), "patch 29 again");
}

#[test]
fn a_counted_event_that_has_expired_is_created_again_with_its_count() {
    let mut bench = Bench::new();
    bench.note("web", "again").unwrap();
    bench.write_counted();
    bench.note("web", "again").unwrap();
    assert!(matches!(bench.correlator.next_write(bench.now), Next::Write(Write::Counted { creates: false, .. })));
    bench.came(Outcome::Missing).unwrap();
    assert_eq!(bench.write_counted(), "create 2 again");
}
