//! Durations on the command line.

use std::time::Duration;

/// Parses `30d`, `1h30m`, `90s` or `45`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration such as 30s, 10m, 1h30m or 7d");
    let (mut seconds, mut number) = (0_u64, String::new());
    for letter in text.chars() {
        let factor = match letter {
            '0'..='9' => {
                number.push(letter);
                continue;
            }
            'd' => 24 * 3600,
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return Err(wrong()),
        };
        let count: u64 = std::mem::take(&mut number).parse().map_err(|_| wrong())?;
        seconds = count.checked_mul(factor).and_then(|more| seconds.checked_add(more)).ok_or_else(wrong)?;
    }
    if !number.is_empty() {
        seconds = number.parse::<u64>().ok().and_then(|more| seconds.checked_add(more)).ok_or_else(wrong)?;
    }
    if seconds == 0 { Err(wrong()) } else { Ok(Duration::from_secs(seconds)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed() {
        for (text, seconds) in [("30s", 30), ("10m", 600), ("1h30m", 5400), ("45", 45), ("7d", 604_800)] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)));
        }
        for text in ["", "0", "m", "1w", "-1s", "99999999999999999999h", "18446744073709551615h"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
