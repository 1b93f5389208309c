//! Compact numbers and durations.

use std::time::Duration;

use super::super::rates::Took;
use crate::run::event::in_seconds;

/// Formats a duration like kubectl: `12s`, `3m12s`, `5h3m`, `2d4h`, `40d`.
pub(super) fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |first: u64, unit: &str, rest: u64, smaller: &str| match rest {
        0 => format!("{first}{unit}"),
        rest => format!("{first}{unit}{rest}{smaller}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..7200 => format!("{minutes}m"),
        7200..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        _ => format!("{days}d"),
    }
}

/// Formats a rate per second.
pub(super) fn rate(rate: f64) -> String {
    match rate {
        rate if rate < 9.95 => format!("{rate:.1}/s"),
        rate if rate < 999.5 => format!("{rate:.0}/s"),
        rate => format!("{:.1}k/s", rate / 1000.0),
    }
}

/// Formats a number that may be large.
pub(super) fn count(number: f64) -> String {
    match number {
        number if number < 9999.5 => format!("{number:.0}"),
        number if number < 999_950.0 => format!("{:.1}k", number / 1000.0),
        number => format!("{:.1}M", number / 1_000_000.0),
    }
}

/// Formats a count with its noun.
pub(super) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Formats the duration of reconciles.
pub(super) fn took(took: Option<Took>) -> String {
    match took {
        None => "–".to_owned(),
        Some(Took::Within(bound)) => format!("<{}", in_seconds(bound)),
        Some(Took::About(time)) => in_seconds(time),
        Some(Took::Beyond(bound)) => format!(">{}", in_seconds(bound)),
    }
}

/// Truncates a string that is too long.
pub(super) fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_formatted_like_kubectl() {
        for (seconds, expected) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (192, "3m12s"),
            (660, "11m"),
            (7200, "2h"),
            (18_180, "5h3m"),
            (30_000, "8h"),
            (187_200, "2d4h"),
            (3_456_000, "40d"),
        ] {
            assert_eq!(age(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 0.26, 9.96, 1234.0].map(rate), ["0.0/s", "0.3/s", "10/s", "1.2k/s"]);
        assert_eq!([0.0, 9999.0, 10_000.0, 2_500_000.0].map(count), ["0", "9999", "10.0k", "2.5M"]);
        let times = [None, Some(Took::Within(0.005)), Some(Took::About(0.0123)), Some(Took::About(1.25))];
        assert_eq!(times.map(took), ["–", "<5ms", "12ms", "1.2s"]);
        assert_eq!(took(Some(Took::Beyond(60.0))), ">60s");
        assert_eq!((fit("guestbook", 9), fit("guestbook", 5)), ("guestbook".into(), "gues…".into()));
    }
}
