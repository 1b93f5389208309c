//! Deadlines from durations in a pod's spec, which may be longer than a clock can express.

use std::time::Duration;

use tokio::time::Instant;

/// A duration longer than any process runs, but short enough to be added to any clock.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// Returns a number of seconds as a duration; zero if it is negative.
pub(super) fn seconds(number: i64) -> Duration {
    Duration::from_secs(u64::try_from(number).unwrap_or(0)).min(FOREVER)
}

/// Returns the time after a duration.
pub(super) fn after(duration: Duration) -> Instant {
    Instant::now() + duration.min(FOREVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_seconds_has_a_deadline() {
        for (number, expected) in [
            (i64::MIN, Duration::ZERO),
            (-1, Duration::ZERO),
            (0, Duration::ZERO),
            (30, Duration::from_secs(30)),
            (i64::from(i32::MAX), FOREVER),
            (i64::MAX, FOREVER),
        ] {
            assert_eq!(seconds(number), expected, "{number}");
            assert!(after(seconds(number)) <= Instant::now() + FOREVER, "{number}");
        }
        after(Duration::MAX);
    }
}
