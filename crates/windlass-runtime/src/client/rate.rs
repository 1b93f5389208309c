//! How many requests may be sent: a token bucket.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// A limit on requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Requests in a second, over time.
    pub per_second: f32,
    /// Requests that may be sent at once after a pause.
    pub burst: u32,
}

/// Hands out turns, in the order in which they are asked for. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Limiter {
    interval: Duration,
    tolerance: Duration,
    /// When the bucket would be full again if nothing more came.
    full_at: Arc<Mutex<Instant>>,
}

impl Limiter {
    pub(super) fn new(rate: Rate) -> Self {
        // Rates that make no sense are no division by zero: at least one request in an hour.
        let interval = Duration::from_secs_f32((1.0 / rate.per_second.max(f32::MIN_POSITIVE)).clamp(1e-9, 3600.0));
        let tolerance = interval.saturating_mul(rate.burst.max(1) - 1);
        Self { interval, tolerance, full_at: Arc::new(Mutex::new(Instant::now())) }
    }

    /// Takes a turn: how long to wait for it.
    fn take(&self, now: Instant) -> Duration {
        let mut full_at = self.full_at.lock();
        let base = (*full_at).max(now);
        *full_at = base + self.interval;
        base.duration_since(now).saturating_sub(self.tolerance)
    }

    /// Resolves when it is the caller's turn. A caller that does not wait for it gives it back: to whoever asks next.
    pub(super) async fn turn(&self) {
        let wait = self.take(Instant::now());
        if !wait.is_zero() {
            let waiting = Waiting(self);
            tokio::time::sleep(wait).await;
            std::mem::forget(waiting);
        }
    }
}

/// A turn that is not there yet.
struct Waiting<'a>(&'a Limiter);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut full_at = self.0.full_at.lock();
        *full_at = full_at.checked_sub(self.0.interval).unwrap_or(*full_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_free_and_the_rest_is_spread() {
        let limiter = Limiter::new(Rate { per_second: 10.0, burst: 3 });
        let now = Instant::now();
        let waits: Vec<u64> = (0..5).map(|_| limiter.take(now).as_millis() as u64).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        let later = now + Duration::from_secs(60);
        assert_eq!((0..4).map(|_| limiter.take(later).as_millis() as u64).collect::<Vec<_>>(), [0, 0, 0, 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_is_given_up_is_for_the_next() {
        let limiter = Limiter::new(Rate { per_second: 1.0, burst: 1 });
        limiter.turn().await;
        for _ in 0..10 {
            assert!(tokio::time::timeout(Duration::from_millis(10), limiter.turn()).await.is_err());
        }
        let begin = Instant::now();
        limiter.turn().await;
        assert!(begin.elapsed() <= Duration::from_secs(1), "{:?}", begin.elapsed());
        limiter.turn().await;
        assert!(begin.elapsed() >= Duration::from_millis(1800), "{:?}", begin.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn odd_rates_do_no_harm() {
        for (per_second, burst) in [(0.0, 0), (-1.0, 1), (f32::INFINITY, 1), (f32::NAN, u32::MAX), (1e-30, u32::MAX)] {
            let limiter = Limiter::new(Rate { per_second, burst });
            assert_eq!(limiter.take(Instant::now()), Duration::ZERO);
            let _ = limiter.take(Instant::now());
        }
    }
}
