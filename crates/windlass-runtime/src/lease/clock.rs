//! The clock that leases are judged by: monotonic, and going on while the machine is suspended where that can be known.

use std::time::Duration;

use tokio::time::Instant;

/// Now. Only to be compared with other moments of this clock: it is ahead of [`Instant::now`] by the time the machine
/// was suspended.
pub(crate) fn now() -> Instant {
    Instant::now() + suspended()
}

/// How long the machine has been suspended since this process first asked, to a millisecond.
#[cfg(target_os = "linux")]
fn suspended() -> Duration {
    use std::sync::OnceLock;

    use rustix::time::{ClockId, clock_gettime};

    static AT_START: OnceLock<Duration> = OnceLock::new();

    let read = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    // The two clocks cannot be read at once. A pause between would look like suspension, so it is noticed and tried
    // again.
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
    // What reading one after the other costs is no suspension; without this, two moments in paused time would differ.
    if suspended < Duration::from_millis(2) { Duration::ZERO } else { suspended }
}

/// Not known here: the clock is believed.
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
