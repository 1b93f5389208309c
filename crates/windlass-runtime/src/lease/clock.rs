//! The clock of leases: monotonic, and including the time of suspension where it is known.

use std::time::Duration;

use tokio::time::Instant;

/// Returns the current time. Must only be compared with other times of this clock: it is ahead of [`Instant::now`] by
/// the time that the machine was suspended.
pub(crate) fn now() -> Instant {
    Instant::now() + suspended()
}

/// Returns how long the machine has been suspended since the first call in this process, to a millisecond.
#[cfg(target_os = "linux")]
fn suspended() -> Duration {
    use std::sync::OnceLock;

    use rustix::time::{ClockId, clock_gettime};

    static AT_START: OnceLock<Duration> = OnceLock::new();

    let read = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    // The two clocks cannot be read at once. A pause in between would look like a suspension, so it is detected and the
    // reading repeated.
    let mut since_boot = Duration::ZERO;
    for _ in 0..8 {
        let before = read(ClockId::Monotonic);
        let total = read(ClockId::Boottime);
        let after = read(ClockId::Monotonic);
        since_boot = total.saturating_sub(before);
        if after.saturating_sub(before) < Duration::from_millis(1) {
            break;
        }
    }
    let suspended = since_boot.saturating_sub(*AT_START.get_or_init(|| since_boot));
    // The time between two readings is no suspension; otherwise, two times in paused time would differ.
    if suspended < Duration::from_millis(2) { Duration::ZERO } else { suspended }
}

/// Unknown on this platform: the clock is trusted.
#[cfg(not(target_os = "linux"))]
fn suspended() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_follows_paused_time() {
        let start = now();
        tokio::time::advance(Duration::from_secs(5)).await;
        let passed = now() - start;
        assert!(passed >= Duration::from_secs(5) && passed < Duration::from_secs(6), "{passed:?}");
    }
}
