//! Backoff of lists and watches.

use std::time::Duration;

use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(800);
const LONGEST: Duration = Duration::from_secs(30);
/// Time without a failure that resets the delays.
const HEALTHY: Duration = Duration::from_secs(120);

/// Delays that double with each failure, from 0.8 s to 30 s, each stretched at random by up to 100 %.
///
/// A success does not reset them: only two minutes without a failure do. A source that fails right after each success
/// is as bad as one that always fails.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
    failed: Option<Instant>,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST, failed: None }
    }
}

impl Backoff {
    /// Returns the delay after a failure. `share` is random, between 0 and 1.
    pub(super) fn failed(&mut self, now: Instant, share: f64) -> Duration {
        if self.is_fresh(now) {
            self.next = FIRST;
        }
        let base = self.next;
        self.next = (base * 2).min(LONGEST);
        let wait = base.mul_f64(1.0 + share.clamp(0.0, 1.0));
        // Health is measured from the next attempt.
        self.failed = Some(now + wait);
        wait
    }

    /// Returns whether there was no recent failure.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        self.failed.is_none_or(|failed| now.saturating_duration_since(failed) >= HEALTHY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_maximum_and_reset_after_two_good_minutes() {
        let mut backoff = Backoff::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..8 {
            let wait = backoff.failed(now, 0.0);
            waits.push(wait.as_millis());
            now += wait + Duration::from_secs(60);
        }
        assert_eq!(waits, [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
        now += Duration::from_secs(60);
        assert_eq!(backoff.failed(now, 0.5), Duration::from_millis(1200));
    }
}
