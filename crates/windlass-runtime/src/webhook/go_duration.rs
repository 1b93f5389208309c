//! Durations in Go's format: `10s`, `1m30s`, `1.5h`.

use std::time::Duration;

/// Parses a non-negative duration. Returns `None` for anything else, including overflows.
pub(super) fn parse(mut text: &str) -> Option<Duration> {
    if text.is_empty() {
        return None;
    }
    let mut total = Duration::ZERO;
    while !text.is_empty() {
        let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, rest) = text.split_at(number_end);
        let unit_end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let (unit, rest) = rest.split_at(unit_end);
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(part)?;
        text = rest;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, expected) in [
            ("10s", Some(Duration::from_secs(10))),
            ("1m30.5s", Some(Duration::from_millis(90_500))),
            ("500ms", Some(Duration::from_millis(500))),
            ("", None),
            ("10", None),
            ("-1s", None),
            ("99999999999999999999999999999999h", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "[0-9.smhnu\u{b5}-]{0,40}|.{0,10}") {
            let _ = parse(&text);
        }
    }
}
