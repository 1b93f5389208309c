use expect_test::expect;
use proptest::prelude::*;

use super::*;

#[test]
fn times_and_their_errors_match_go() {
    let mut out = String::new();
    for text in TIMES {
        let seconds = parse_rfc3339(text).map_or_else(|e| e, Time::to_rfc3339);
        let micro = parse_rfc3339_micro(text).map_or_else(|e| e, Time::to_rfc3339_micro);
        let _ = writeln!(out, "{text} | {seconds} | {micro}");
    }
    expect![[r#"
        2024-02-29T12:34:56Z | 2024-02-29T12:34:56Z | parsing time "2024-02-29T12:34:56Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"
        2023-02-29T12:34:56Z | parsing time "2023-02-29T12:34:56Z": day out of range | parsing time "2023-02-29T12:34:56Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"
        2024-01-01T01:00:00+01:00 | 2024-01-01T00:00:00Z | parsing time "2024-01-01T01:00:00+01:00" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "+01:00" as ".000000"
        2024-01-01T01:00:00.123456789-23:30 | 2024-01-02T00:30:00Z | parsing time "2024-01-01T01:00:00.123456789-23:30" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "789-23:30" as "Z07:00"
        2024-01-01T01:00:00.123456Z | 2024-01-01T01:00:00Z | 2024-01-01T01:00:00.123456Z
        2024-01-01T1:00:00Z | 2024-01-01T01:00:00Z | parsing time "2024-01-01T1:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"
        2024-01-01T01:00:00,5Z | 2024-01-01T01:00:00Z | parsing time "2024-01-01T01:00:00,5Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse ",5Z" as ".000000"
        2024-01-01T24:00:00Z | parsing time "2024-01-01T24:00:00Z": hour out of range | parsing time "2024-01-01T24:00:00Z": hour out of range
        2024-01-01T23:60:00Z | parsing time "2024-01-01T23:60:00Z": minute out of range | parsing time "2024-01-01T23:60:00Z": minute out of range
        2024-01-01T23:00:60Z | parsing time "2024-01-01T23:00:60Z": second out of range | parsing time "2024-01-01T23:00:60Z": second out of range
        2024-13-01T23:00:00Z | parsing time "2024-13-01T23:00:00Z": month out of range | parsing time "2024-13-01T23:00:00Z": month out of range
        2024-00-01T23:00:00Z | parsing time "2024-00-01T23:00:00Z": month out of range | parsing time "2024-00-01T23:00:00Z": month out of range
        2024-01-32T23:00:00Z | parsing time "2024-01-32T23:00:00Z": day out of range | parsing time "2024-01-32T23:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"
        2024-01-01T23:00:00+25:00 | parsing time "2024-01-01T23:00:00+25:00": time zone offset hour out of range | parsing time "2024-01-01T23:00:00+25:00" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "+25:00" as ".000000"
        2024-01-01T23:00:00+23:61 | parsing time "2024-01-01T23:00:00+23:61": time zone offset minute out of range | parsing time "2024-01-01T23:00:00+23:61" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "+23:61" as ".000000"
        2024-01-01T23:00:00+2x:00 | parsing time "2024-01-01T23:00:00+2x:00" as "2006-01-02T15:04:05Z07:00": cannot parse "+2x:00" as "Z07:00" | parsing time "2024-01-01T23:00:00+2x:00" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "+2x:00" as ".000000"
        2024-01-01T23:00:00 | parsing time "2024-01-01T23:00:00" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00" | parsing time "2024-01-01T23:00:00" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "" as ".000000"
        2024-01-01T23:00:00z | parsing time "2024-01-01T23:00:00z" as "2006-01-02T15:04:05Z07:00": cannot parse "z" as "Z07:00" | parsing time "2024-01-01T23:00:00z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "z" as ".000000"
        2024-01-01 23:00:00Z | parsing time "2024-01-01 23:00:00Z" as "2006-01-02T15:04:05Z07:00": cannot parse " 23:00:00Z" as "T" | parsing time "2024-01-01 23:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse " 23:00:00Z" as "T"
        2024-01-01T23:00:00Zjunk | parsing time "2024-01-01T23:00:00Zjunk": extra text: "junk" | parsing time "2024-01-01T23:00:00Zjunk" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Zjunk" as ".000000"
        2024-01-01T23:00:00.123456Zé | parsing time "2024-01-01T23:00:00.123456Z\xc3\xa9": extra text: "\xc3\xa9" | parsing time "2024-01-01T23:00:00.123456Z\xc3\xa9": extra text: "\xc3\xa9"
        2024-01-01 | parsing time "2024-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T" | parsing time "2024-01-01" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "" as "T"
        yesterday | parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006" | parsing time "yesterday" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "yesterday" as "2006"
        0001-01-01T00:00:00Z | 0001-01-01T00:00:00Z | parsing time "0001-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"
        0000-12-31T23:59:59Z | 0000-12-31T23:59:59Z | parsing time "0000-12-31T23:59:59Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"
        9999-12-31T23:59:59-24:00 | 10000-01-01T23:59:59Z | parsing time "9999-12-31T23:59:59-24:00" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "-24:00" as ".000000"
        1969-12-31T23:59:59Z | 1969-12-31T23:59:59Z | parsing time "1969-12-31T23:59:59Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"
         | parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006" | parsing time "" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "" as "2006"
    "#]].assert_eq(&out);
}

const TIMES: &[&str] = &[
    "2024-02-29T12:34:56Z",
    "2023-02-29T12:34:56Z",
    "2024-01-01T01:00:00+01:00",
    "2024-01-01T01:00:00.123456789-23:30",
    "2024-01-01T01:00:00.123456Z",
    "2024-01-01T1:00:00Z",
    "2024-01-01T01:00:00,5Z",
    "2024-01-01T24:00:00Z",
    "2024-01-01T23:60:00Z",
    "2024-01-01T23:00:60Z",
    "2024-13-01T23:00:00Z",
    "2024-00-01T23:00:00Z",
    "2024-01-32T23:00:00Z",
    "2024-01-01T23:00:00+25:00",
    "2024-01-01T23:00:00+23:61",
    "2024-01-01T23:00:00+2x:00",
    "2024-01-01T23:00:00",
    "2024-01-01T23:00:00z",
    "2024-01-01 23:00:00Z",
    "2024-01-01T23:00:00Zjunk",
    "2024-01-01T23:00:00.123456Zé",
    "2024-01-01",
    "yesterday",
    "0001-01-01T00:00:00Z",
    "0000-12-31T23:59:59Z",
    "9999-12-31T23:59:59-24:00",
    "1969-12-31T23:59:59Z",
    "",
];

#[test]
fn durations_are_parsed_and_formatted_as_in_go() {
    let mut out = String::new();
    for text in DURATIONS {
        let _ = writeln!(out, "{text} | {}", parse_duration(text).map_or_else(|e| e, format_duration));
    }
    expect![[r#"
        0 | 0s
        -0 | 0s
        1h | 1h0m0s
        1h30m | 1h30m0s
        90m | 1h30m0s
        1.5s | 1.5s
        250ms | 250ms
        1us | 1µs
        1500ns | 1.5µs
        -2m3.25s | -2m3.25s
        10 | time: missing unit in duration "10"
        1x | time: unknown unit "x" in duration "1x"
         | time: invalid duration ""
        - | time: invalid duration "-"
        .s | time: invalid duration ".s"
        .5h | 30m0s
        1d | time: unknown unit "d" in duration "1d"
        3000000h | time: invalid duration "3000000h"
        9223372036854775807ns | 2562047h47m16.854775807s
        -9223372036854775808ns | -2562047h47m16.854775808s
        9223372036854775808ns | time: invalid duration "9223372036854775808ns"
        1h 2m | time: unknown unit "h " in duration "1h 2m"
        0.1234567890123456789123h | 7m24.444440444s
        1µs | 1µs
        5é | time: unknown unit "\xc3\xa9" in duration "5\xc3\xa9"
    "#]]
    .assert_eq(&out);
}

const DURATIONS: &[&str] = &[
    "0",
    "-0",
    "1h",
    "1h30m",
    "90m",
    "1.5s",
    "250ms",
    "1us",
    "1500ns",
    "-2m3.25s",
    "10",
    "1x",
    "",
    "-",
    ".s",
    ".5h",
    "1d",
    "3000000h",
    "9223372036854775807ns",
    "-9223372036854775808ns",
    "9223372036854775808ns",
    "1h 2m",
    "0.1234567890123456789123h",
    "1µs",
    "5é",
];

#[test]
fn durations_may_have_words_for_units() {
    for (text, seconds) in [("1h", 3600), ("2 days", 172_800), ("1 week 1 sec", 604_801)] {
        assert_eq!(parse_loose_duration(text), Some(seconds * 1_000_000_000), "{text}");
    }
    assert_eq!(parse_loose_duration("soon"), None);
}

proptest! {
    #[test]
    fn any_text_parses_without_panic(text in "\\PC*") {
        let _ = parse_rfc3339(&text);
        let _ = parse_rfc3339_micro(&text);
        let _ = parse_duration(&text);
    }

    #[test]
    fn near_times_parse_without_panic(text in "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.,]?[0-9é]{0,8}[Z+-]?[0-9:é]{0,6}") {
        let _ = parse_rfc3339(&text);
        let _ = parse_rfc3339_micro(&text);
    }

    #[test]
    fn times_round_trip(seconds in -62_167_219_200_i64..253_402_300_800, micros in 0_u32..1_000_000) {
        let time = Time::from_unix(seconds, micros * 1000);
        prop_assert_eq!(parse_rfc3339_micro(&time.to_rfc3339_micro()), Ok(time));
        prop_assert_eq!(parse_rfc3339(&time.to_rfc3339()), Ok(Time::from_unix(seconds, 0)));
    }

    #[test]
    fn durations_round_trip(nanos in any::<i64>()) {
        let again = parse_duration(&format_duration(nanos));
        // Go converts fractions through a float, so the last digits may differ.
        prop_assert!(again.is_ok_and(|again| again.abs_diff(nanos) <= 1));
    }
}
