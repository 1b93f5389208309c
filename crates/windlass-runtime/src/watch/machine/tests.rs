use super::*;
use crate::watch::decode::Status;

fn machine(streaming_list: bool) -> StateMachine {
    StateMachine::new(Settings { page_size: 500, streaming_list, short_watch: Duration::from_secs(1), random: || 0.0 })
}

fn list(revision: &str, limit: Option<u32>) -> Request {
    Request::List { revision: revision.into(), token: None, limit }
}

fn page(token: &str) -> Request {
    Request::List { revision: String::new(), token: Some(token.into()), limit: Some(500) }
}

fn watch(revision: &str) -> Request {
    Request::Watch { revision: revision.into() }
}

fn streamed(revision: &str) -> Request {
    Request::StreamedList { revision: revision.into() }
}

fn meta(revision: &str, token: &str) -> ListMeta {
    ListMeta { resource_version: revision.into(), r#continue: token.into() }
}

fn rejected(code: u16) -> Failure {
    Failure::of_status(Status { code, ..Status::default() })
}

fn broken() -> Failure {
    Failure::Connection("reset".into())
}

/// A machine that watches from revision 10.
fn watching(streaming_list: bool) -> StateMachine {
    let mut machine = machine(streaming_list);
    if streaming_list {
        machine.streamed("10");
    } else {
        assert_eq!(machine.listed(meta("10", "")), Listed::Complete("10".into()));
    }
    assert_eq!(machine.request(), watch("10"));
    machine
}

#[test]
fn the_first_list_takes_any_state_and_a_later_one_none_older_than_the_last() {
    let mut machine = machine(false);
    assert_eq!(machine.request(), list("0", Some(500)));
    assert_eq!(machine.listed(meta("10", "")), Listed::Complete("10".into()));
    assert!(machine.seen("12"));
    assert!(!machine.seen("12"));
    let verdict = machine.failed(&Failure::Expired, Instant::now());
    assert_eq!(verdict.wait, Duration::ZERO);
    assert_eq!(machine.request(), list("12", None));
}

#[test]
fn pages_follow_each_other_and_the_revision_is_that_of_the_first() {
    let mut machine = machine(false);
    assert_eq!(machine.listed(meta("10", "one")), Listed::More);
    assert_eq!(machine.request(), page("one"));
    assert_eq!(machine.listed(meta("10", "two")), Listed::More);
    machine.failed(&broken(), Instant::now());
    assert_eq!(machine.request(), page("two"), "the page is requested again");
    assert_eq!(machine.listed(meta("11", "")), Listed::Complete("10".into()));
    assert_eq!(machine.request(), watch("10"));
}

#[test]
fn an_expired_page_restarts_the_whole_list() {
    let mut machine = machine(false);
    machine.listed(meta("10", "one"));
    assert_eq!(machine.failed(&Failure::Expired, Instant::now()).wait, Duration::ZERO);
    assert_eq!(machine.request(), list("", None));
}

#[test]
fn a_revision_that_cannot_be_listed_is_abandoned_at_once_but_only_once() {
    for failure in [Failure::Expired, Failure::TooLarge] {
        let now = Instant::now();
        let mut machine = watching(false);
        machine.failed(&Failure::Expired, now);
        assert_eq!(machine.request(), list("10", None));
        assert_eq!(machine.failed(&failure, now).wait, Duration::ZERO);
        assert_eq!(machine.request(), list("", Some(500)));
        assert!(machine.failed(&failure, now).wait > Duration::ZERO);
    }
}

#[test]
fn a_watch_that_always_expires_does_not_list_all_the_time() {
    let mut machine = watching(false);
    let mut now = Instant::now();
    let mut waits = Vec::new();
    for _ in 0..4 {
        let wait = machine.failed(&Failure::Expired, now).wait;
        waits.push(wait.as_millis());
        now += wait;
        machine.listed(meta("10", ""));
    }
    assert_eq!(waits, [0, 1600, 3200, 6400]);
}

#[test]
fn a_watch_that_expires_after_an_outage_is_followed_by_a_list_at_once() {
    let mut machine = watching(false);
    let now = Instant::now();
    for _ in 0..10 {
        machine.failed(&broken(), now);
    }
    assert_eq!(machine.failed(&Failure::Expired, now).wait, Duration::ZERO);
}

#[test]
fn a_watch_continues_from_the_last_revision_after_any_failure() {
    let mut machine = watching(false);
    machine.seen("15");
    assert_eq!(machine.ended(Duration::from_secs(300), false, Instant::now()), Ok(()));
    assert_eq!(machine.request(), watch("15"));
    machine.failed(&rejected(500), Instant::now());
    machine.failed(&broken(), Instant::now());
    assert_eq!(machine.request(), watch("15"));
}

#[test]
fn a_watch_that_ends_at_once_is_a_failure_unless_it_delivered_events() {
    let mut machine = watching(false);
    let (short, now) = (Duration::from_millis(10), Instant::now());
    assert_eq!(machine.ended(short, true, now), Ok(()));
    assert_eq!(machine.ended(short, false, now), Err(Duration::from_millis(800)));
    assert_eq!(machine.ended(short, false, now), Err(Duration::from_millis(1600)));
}

#[test]
fn a_watch_that_is_rejected_repeatedly_fetches_the_state_again() {
    let mut machine = watching(false);
    for _ in 0..WATCH_TRIES {
        assert_eq!(machine.request(), watch("10"));
        machine.failed(&rejected(500), Instant::now());
    }
    assert_eq!(machine.request(), list("10", None));
    let mut machine = watching(false);
    for _ in 0..50 {
        machine.failed(&broken(), Instant::now());
    }
    assert_eq!(machine.request(), watch("10"), "an unreachable server is no reason");
}

#[test]
fn retry_after_is_respected_after_a_failed_watch() {
    let mut machine = watching(false);
    let mut headers = http::HeaderMap::new();
    headers.insert(http::header::RETRY_AFTER, 17.into());
    for code in [http::StatusCode::TOO_MANY_REQUESTS, http::StatusCode::SERVICE_UNAVAILABLE] {
        let failure = Failure::of_response(code, &headers, b"busy");
        assert_eq!(machine.failed(&failure, Instant::now()).wait, Duration::from_secs(17));
    }
}

#[test]
fn a_server_that_rejects_streaming_lists_is_not_asked_again() {
    for failure in [rejected(400), rejected(422), Failure::Endless { sure: true }] {
        let mut machine = machine(true);
        assert_eq!(machine.request(), streamed(""));
        assert_eq!(machine.failed(&failure, Instant::now()).wait, Duration::ZERO);
        assert_eq!(machine.request(), list("0", Some(500)));
        machine.listed(meta("10", ""));
        machine.failed(&Failure::Expired, Instant::now());
        assert_eq!(machine.request(), list("10", None));
    }
}

#[test]
fn a_stream_of_the_state_that_breaks_thrice_is_replaced_by_a_list_for_once() {
    let mut machine = machine(true);
    let now = Instant::now();
    machine.failed(&rejected(500), now);
    machine.failed(&broken(), now);
    assert_eq!(machine.request(), streamed(""));
    assert!(machine.ended(Duration::from_secs(9), true, now).is_err());
    assert_eq!(machine.request(), list("0", Some(500)));
    machine.listed(meta("10", ""));
    machine.failed(&Failure::Expired, now);
    assert_eq!(machine.request(), streamed("10"));
    machine.failed(&Failure::Expired, now);
    assert_eq!(machine.request(), streamed(""));
}

#[test]
fn a_resource_that_is_not_served_is_reported_once_and_then_polled() {
    let mut machine = machine(false);
    let now = Instant::now();
    let verdicts: Vec<_> = (0..6).map(|_| machine.failed(&Failure::NotServed, now)).collect();
    assert_eq!(
        verdicts.iter().map(|verdict| verdict.became_absent).collect::<Vec<_>>(),
        [true, false, false, false, false, false]
    );
    assert_eq!(
        verdicts.iter().map(|verdict| verdict.wait.as_millis()).collect::<Vec<_>>(),
        [225, 450, 900, 1800, 1800, 1800]
    );
    assert_eq!(machine.request(), list("", Some(500)), "cached state is not trusted");
    machine.listed(meta("20", ""));
    assert_eq!(machine.request(), watch("20"));
}

#[test]
fn a_served_resource_becomes_absent_after_two_consecutive_failures() {
    let mut machine = watching(false);
    let now = Instant::now();
    let verdict = machine.failed(&Failure::NotServed, now);
    assert_eq!(verdict, Verdict { wait: ABSENT_POLL.0, became_absent: false });
    assert_eq!(machine.request(), list("", Some(500)), "the newest state is listed");
    machine.failed(&broken(), now);
    assert!(!machine.failed(&Failure::NotServed, now).became_absent);
    machine.listed(meta("20", ""));
    assert!(!machine.failed(&Failure::NotServed, now).became_absent);
    assert!(machine.failed(&Failure::NotServed, now).became_absent);
    assert!(!machine.failed(&Failure::NotServed, now).became_absent);
}

#[test]
fn a_stream_of_the_state_that_falls_silent_is_tried_once_more_at_the_next_desync() {
    let mut machine = machine(true);
    let now = Instant::now();
    for (revision, list_at) in [("", "0"), ("10", "10")] {
        assert_eq!(machine.request(), streamed(revision));
        assert_eq!(machine.failed(&Failure::Endless { sure: false }, now).wait, Duration::ZERO);
        assert!(matches!(machine.request(), Request::List { revision, .. } if revision == list_at));
        machine.listed(meta("10", ""));
        machine.failed(&Failure::Expired, now);
    }
    assert_eq!(machine.request(), list("10", None));
}

#[test]
fn statuses_are_distinguished() {
    let status = |text: &str| Failure::of_status(serde_json::from_str(text).unwrap());
    assert!(matches!(status(r#"{"code":410}"#), Failure::Expired));
    assert!(matches!(status(r#"{"code":500,"reason":"Expired"}"#), Failure::Expired));
    assert!(matches!(status(r#"{"code":404,"reason":"NotFound"}"#), Failure::NotServed));
    let text = r#"{"code":504,"reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#;
    assert!(matches!(status(text), Failure::TooLarge));
    assert!(matches!(status(r#"{"code":504,"reason":"Timeout"}"#), Failure::Rejected { code: 504, .. }));
}
