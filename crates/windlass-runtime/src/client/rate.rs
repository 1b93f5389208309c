//! Rate limit of requests.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::token_bucket::TokenBucket;

/// Rate limit of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Requests per second, on average.
    pub per_second: f32,
    /// Maximum burst of requests after a pause.
    pub burst: u32,
}

/// Grants turns, in the order of requests. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Limiter {
    tokens: Arc<Mutex<TokenBucket>>,
}

impl Limiter {
    pub(super) fn new(rate: Rate) -> Self {
        // Clamps invalid rates: at least one request per hour, and a burst of at least one.
        let per_second = f64::from(rate.per_second).max(f64::MIN_POSITIVE).clamp(1.0 / 3600.0, 1e9);
        Self { tokens: Arc::new(Mutex::new(TokenBucket::new(per_second, rate.burst.max(1), Instant::now()))) }
    }

    /// Takes a turn; returns how long to wait for it.
    fn take(&self, now: Instant) -> Duration {
        self.tokens.lock().take(now, Duration::MAX).unwrap_or(Duration::MAX)
    }

    /// Resolves when it is the caller's turn. A caller that stops waiting returns its turn to the next.
    pub(super) async fn turn(&self) {
        let wait = self.take(Instant::now());
        if !wait.is_zero() {
            let waiting = Waiting(self);
            tokio::time::sleep(wait).await;
            std::mem::forget(waiting);
        }
    }
}

/// A turn that is being waited for.
struct Waiting<'a>(&'a Limiter);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.tokens.lock().give_back();
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
    async fn an_abandoned_turn_goes_to_the_next_caller() {
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
