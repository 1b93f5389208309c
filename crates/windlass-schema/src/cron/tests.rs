//! Tables of the Go parser's results, and properties.

use jiff::Timestamp;
use proptest::prelude::*;

use super::{Schedule, time_zone};

/// Returns the error for a string, or the next times after a time in a zone.
fn answer(text: &str, zone: &str, after: &str, count: usize) -> String {
    let schedule = match Schedule::parse(text) {
        Ok(schedule) => schedule,
        Err(error) => return error.to_string(),
    };
    let after: Timestamp = after.parse().expect("a time");
    let mut time = after.to_zoned(time_zone(zone).expect("a zone"));
    let mut times = Vec::new();
    for _ in 0..count {
        let Some(next) = schedule.next_after(&time) else {
            times.push("none".to_owned());
            break;
        };
        times.push(next.timestamp().to_string());
        time = next;
    }
    times.join(" ")
}

fn error_of(text: &str) -> String {
    Schedule::parse(text).expect_err(text).to_string()
}

#[test]
fn invalid_schedules_are_rejected_with_the_errors_of_the_go_parser() {
    let table = [
        ("", "empty spec string"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"),
        (" @daily", "expected exactly 5 fields, found 1: [@daily]"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("a * * * *", r#"failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax"#),
        ("1_0 * * * *", r#"failed to parse int from 1_0: strconv.Atoi: parsing "1_0": invalid syntax"#),
        ("-1 * * * *", r#"failed to parse int from : strconv.Atoi: parsing "": invalid syntax"#),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("*/-5 * * * *", "negative number (-5) not allowed: -5"),
        (
            "99999999999999999999 * * * *",
            "failed to parse int from 99999999999999999999: \
             strconv.Atoi: parsing \"99999999999999999999\": value out of range",
        ),
        ("* * * jan-xyz *", r#"failed to parse int from xyz: strconv.Atoi: parsing "xyz": invalid syntax"#),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("@every x", r#"failed to parse duration @every x: time: invalid duration "x""#),
        ("@every", "unrecognized descriptor: @every"),
        ("@daily ", "unrecognized descriptor: @daily "),
        ("TZ=UTC", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
        ("TZ=Foo * * * * *", "provided bad location Foo: unknown time zone Foo"),
        ("TZ=europe/berlin * * * * *", "provided bad location europe/berlin: unknown time zone europe/berlin"),
        ("CRON_TZ=/x * * * * *", "provided bad location /x: time: invalid location name"),
    ];
    for (text, expected) in table {
        assert_eq!(error_of(text), expected, "{text}");
    }
}

#[test]
fn fields_determine_the_next_times() {
    let table = [
        ("+5 * * * *", "2023-03-24T05:05:00Z 2023-03-24T06:05:00Z"),
        ("\t5\t* * * *", "2023-03-24T05:05:00Z 2023-03-24T06:05:00Z"),
        ("*/15 9-10 * * mon,WED", "2023-03-27T09:00:00Z 2023-03-27T09:15:00Z"),
        ("? */12 * * *", "2023-03-24T12:00:00Z 2023-03-24T12:01:00Z"),
        ("*-5 * * * *", "2023-03-24T04:41:00Z 2023-03-24T04:42:00Z"),
        ("50/5 4 * * *", "2023-03-24T04:50:00Z 2023-03-24T04:55:00Z"),
        ("0 0 1 Jan-feb *", "2024-01-01T00:00:00Z 2024-02-01T00:00:00Z"),
        ("0 0 29 2 *", "2024-02-29T00:00:00Z 2028-02-29T00:00:00Z"),
        ("@hourly", "2023-03-24T05:00:00Z 2023-03-24T06:00:00Z"),
        ("@midnight", "2023-03-25T00:00:00Z 2023-03-26T00:00:00Z"),
        ("@weekly", "2023-03-26T00:00:00Z 2023-04-02T00:00:00Z"),
        ("@monthly", "2023-04-01T00:00:00Z 2023-05-01T00:00:00Z"),
        ("@annually", "2024-01-01T00:00:00Z 2025-01-01T00:00:00Z"),
        ("@every 1h30m", "2023-03-24T06:10:57Z 2023-03-24T07:40:57Z"),
        ("@every 1.5s", "2023-03-24T04:40:58Z 2023-03-24T04:40:59Z"),
        ("@every -1h", "2023-03-24T04:40:58Z 2023-03-24T04:40:59Z"),
        ("CRON_TZ=Asia/Tokyo 0 6 * * *", "2023-03-24T21:00:00Z 2023-03-25T21:00:00Z"),
        ("TZ= @daily", "2023-03-25T00:00:00Z 2023-03-26T00:00:00Z"),
        ("* * 31 2 *", "none"),
        (", * * * *", "none"),
        ("* * , * *", "none"),
    ];
    for (text, expected) in table {
        assert_eq!(answer(text, "UTC", "2023-03-24T04:40:57.5Z", 2), expected, "{text}");
    }
}

#[test]
fn either_day_field_matches_unless_one_is_a_star() {
    let days = |text| answer(text, "UTC", "2026-01-01T00:00:00Z", 3);
    assert_eq!(days("0 0 13 * 5"), "2026-01-02T00:00:00Z 2026-01-09T00:00:00Z 2026-01-13T00:00:00Z");
    assert_eq!(days("0 0 13 * */1"), "2026-01-13T00:00:00Z 2026-02-13T00:00:00Z 2026-03-13T00:00:00Z");
    assert_eq!(days("0 0 */10 * 5"), "2026-01-02T00:00:00Z 2026-01-09T00:00:00Z 2026-01-11T00:00:00Z");
}

#[test]
fn daylight_saving_time_is_handled_as_by_the_go_parser() {
    let table = [
        // The skipped hour has no run on that day; the repeated hour has two.
        ("30 2 * * *", "Europe/Berlin", "2024-03-30T00:00:00Z", "2024-03-30T01:30:00Z 2024-04-01T00:30:00Z"),
        ("30 2 * * *", "Europe/Berlin", "2024-10-26T12:00:00Z", "2024-10-27T00:30:00Z 2024-10-27T01:30:00Z"),
        // Clocks are set back by half an hour.
        ("0 * * * *", "Australia/Lord_Howe", "2024-04-06T13:30:00Z", "2024-04-06T14:00:00Z 2024-04-06T15:30:00Z"),
        // These days have no midnight.
        ("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", "2018-11-05T02:00:00Z 2018-11-06T02:00:00Z"),
        ("0 12 * * *", "Asia/Beirut", "2024-03-30T12:00:00Z", "2024-03-31T09:00:00Z 2024-04-01T09:00:00Z"),
    ];
    for (text, zone, after, expected) in table {
        assert_eq!(answer(text, zone, after, 2), expected, "{text} in {zone}");
    }
}

#[test]
fn zone_names_are_case_sensitive() {
    assert!(time_zone("Europe/Berlin").is_ok() && time_zone("").is_ok());
    assert_eq!(time_zone("Europe/berlin").expect_err("wrong case"), "unknown time zone Europe/berlin");
    assert_eq!(time_zone("Local").expect_err("no zone"), "unknown time zone Local");
    assert_eq!(time_zone("../etc").expect_err("no zone"), "time: invalid location name");
}

#[test]
fn a_schedule_at_the_end_of_time_has_no_next() {
    assert_eq!(answer("@every 2000000h", "UTC", "9999-12-30T00:00:00Z", 1), "none");
    assert_eq!(answer("0 0 1 1 *", "UTC", "9999-12-30T00:00:00Z", 1), "none");
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,24}", zone in prop::bool::ANY) {
        let text = if zone { format!("TZ={text}") } else { text };
        let _ = Schedule::parse(&text);
    }

    #[test]
    fn the_next_time_is_later_and_matches(minute in 0_i8..60, hour in 0_i8..24, second in 0_i64..4_000_000_000) {
        let schedule = Schedule::parse(&format!("{minute} {hour} * * *")).expect("a schedule");
        let after = Timestamp::from_second(second).expect("a time").to_zoned(time_zone("UTC").expect("UTC"));
        let next = schedule.next_after(&after).expect("there is a next");
        prop_assert!(next > after);
        prop_assert!(next.timestamp().as_second() - second <= 86_400);
        prop_assert_eq!((next.minute(), next.hour(), next.second()), (minute, hour, 0));
    }

    #[test]
    fn no_earlier_time_would_match(text in "[*]/[1-9] [*]/[1-9] [*]/[1-9] [*] [0-6]", second in 0_i64..4_000_000_000) {
        let schedule = Schedule::parse(&text).expect("a schedule");
        let zone = time_zone("Europe/Berlin").expect("a zone");
        let at = |second| Timestamp::from_second(second).expect("a time").to_zoned(zone.clone());
        let next = schedule.next_after(&at(second)).expect("there is a next");
        // The result is the same for any time before it.
        let middle = i64::midpoint(second, next.timestamp().as_second());
        prop_assert_eq!(schedule.next_after(&at(middle)).filter(|_| middle < next.timestamp().as_second()), Some(next));
    }
}
