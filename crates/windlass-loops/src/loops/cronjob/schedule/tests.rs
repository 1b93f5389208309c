//! Table tests of schedules.

use serde_json::json;

use super::*;

fn times(schedule: &str, last: Option<&str>, deadline: Option<i64>, zone: Option<&str>) -> Times {
    let job: CronJob = serde_json::from_value(json!({
        "metadata": {"name": "c", "creationTimestamp": "2026-03-01T00:00:30Z"},
        "spec": {"schedule": schedule, "timeZone": zone, "startingDeadlineSeconds": deadline,
            "jobTemplate": {}},
        "status": {"lastScheduleTime": last},
    }))
    .unwrap();
    Times::of(&job).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn the_latest_due_run_is_found() {
    for (schedule, last, now, expected, many) in [
        ("*/10 * * * *", None, "2026-03-01T00:05:00Z", None, false),
        ("*/10 * * * *", None, "2026-03-01T00:10:00Z", Some("2026-03-01T00:10:00Z"), false),
        ("*/10 * * * *", None, "2026-03-01T00:19:59Z", Some("2026-03-01T00:10:00Z"), false),
        ("*/10 * * * *", None, "2026-03-01T00:59:00Z", Some("2026-03-01T00:50:00Z"), false),
        ("*/10 * * * *", Some("2026-03-01T00:50:00Z"), "2026-03-01T00:59:00Z", None, false),
        // A hundred missed runs are not many, a hundred and one are.
        ("* * * * *", Some("2026-03-01T00:00:00Z"), "2026-03-01T01:40:30Z", Some("2026-03-01T01:40:00Z"), false),
        ("* * * * *", Some("2026-03-01T00:00:00Z"), "2026-03-01T01:41:30Z", Some("2026-03-01T01:41:00Z"), true),
        // An irregular schedule: found within a day. Overnight the estimate is too late and the run is lost, as on a
        // cluster.
        ("30 6-16/4 * * 1-5", None, "2026-03-02T15:00:00Z", Some("2026-03-02T14:30:00Z"), false),
        ("30 6-16/4 * * 1-5", None, "2026-03-03T05:00:00Z", None, false),
        ("@every 5m", None, "2026-03-01T00:21:00Z", Some("2026-03-01T00:20:30Z"), false),
    ] {
        let due = times(schedule, last, None, None).due(at(now)).unwrap();
        assert_eq!(due.as_ref().map(|due| due.at), expected.map(at), "{schedule} {now}");
        assert_eq!(due.is_some_and(|due| due.many_missed), many, "{schedule} {now}");
    }
}

#[test]
fn runs_before_the_deadline_are_ignored() {
    for (deadline, now, expected) in [
        (60, "2026-03-01T02:00:30Z", Some(("2026-03-01T02:00:00Z", false))),
        (60, "2026-03-01T02:01:30Z", None),
        // Many runs were missed, but those before the deadline do not count.
        (7200, "2026-03-03T00:10:00Z", Some(("2026-03-03T00:00:00Z", false))),
    ] {
        let due = times("0 * * * *", None, Some(deadline), None).due(at(now)).unwrap();
        let expected = expected.map(|(time, too_late)| Due { at: at(time), many_missed: false, too_late });
        assert_eq!(due, expected, "{deadline} {now}");
    }
}

#[test]
fn the_next_run_is_a_little_after_its_time() {
    for (schedule, last, now, expected) in [
        ("0 * * * *", None, "2026-03-01T00:30:00Z", Some(1800.1)),
        ("0 * * * *", Some("2026-03-01T01:00:00Z"), "2026-03-01T01:00:00.2Z", Some(3599.9)),
        // A run that is due counts as started.
        ("0 * * * *", None, "2026-03-01T01:10:00Z", Some(3000.1)),
        ("0 0 30 2 *", None, "2026-03-01T01:10:00Z", None),
    ] {
        let next = times(schedule, last, None, None).next(at(now)).map(|next| next.as_secs_f64());
        assert_eq!(next, expected, "{schedule} {now}");
    }
}

#[test]
fn times_use_the_specified_time_zone() {
    let berlin = times("30 2 * * *", None, None, Some("Europe/Berlin"));
    let due = berlin.due(at("2026-03-02T02:00:00Z")).unwrap().unwrap();
    assert_eq!(due.at, at("2026-03-02T01:30:00Z"));
    assert_eq!(berlin.written(due.at), "2026-03-02T02:30:00+01:00");
    assert_eq!(times("0 0 * * *", None, None, None).written(at("2026-03-02T00:00:00Z")), "2026-03-02T00:00:00Z");
    let london = times("0 0 * * *", None, None, Some("Europe/London"));
    assert_eq!(london.written(at("2026-03-02T00:00:00Z")), "2026-03-02T00:00:00Z");
    // The skipped hour in spring has no run; the repeated one in autumn has two.
    let skipped = times("30 2 * * *", Some("2026-03-28T01:30:00Z"), None, Some("Europe/Berlin"));
    assert_eq!(skipped.due(at("2026-03-29T20:00:00Z")).unwrap(), None);
    // A time zone in the schedule takes precedence.
    let tokyo = times("TZ=Asia/Tokyo 0 9 * * *", None, None, None);
    assert_eq!(tokyo.due(at("2026-03-02T00:10:00Z")).unwrap().unwrap().at, at("2026-03-02T00:00:00Z"));
}

#[test]
fn an_invalid_schedule_is_reported() {
    let unusable = |schedule: &str, zone: Option<&str>| {
        let spec = json!({"schedule": schedule, "timeZone": zone, "jobTemplate": {}});
        Times::of(&serde_json::from_value(json!({"spec": spec})).unwrap()).unwrap_err()
    };
    let Unusable(reason, message) = unusable("* *", None);
    assert_eq!(reason, "UnparseableSchedule");
    assert!(message.starts_with("unparseable schedule: \"* *\" : expected exactly 5 fields"), "{message}");
    let expected = "invalid timeZone: \"Moon/Sea\": unknown time zone Moon/Sea";
    assert_eq!(unusable("* * * * *", Some("Moon/Sea")), Unusable("UnknownTimeZone", expected.to_owned()));
    let never = times("0 0 30 2 *", None, None, None).due(at("2026-03-02T00:00:00Z")).unwrap_err();
    assert_eq!(never.0, "InvalidSchedule");
}
