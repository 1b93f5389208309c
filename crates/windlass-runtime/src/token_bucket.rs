//! Token bucket.

use std::time::Duration;

use tokio::time::Instant;

/// A token bucket. Tokens of the future can be reserved.
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    per_second: f64,
    burst: f64,
    /// Negative if tokens of the future are reserved.
    tokens: f64,
    counted: Instant,
}

impl TokenBucket {
    /// Creates a full bucket. Invalid rates are replaced by the slowest possible.
    pub(crate) fn new(per_second: f64, burst: u32, now: Instant) -> Self {
        let burst = f64::from(burst);
        Self { per_second: per_second.max(f64::MIN_POSITIVE), burst, tokens: burst, counted: now }
    }

    /// Creates a full bucket to which one token is added per period.
    pub(crate) fn every(period: Duration, burst: u32, now: Instant) -> Self {
        Self::new(1.0 / period.as_secs_f64(), burst, now)
    }

    /// Takes a token; returns how long to wait for it. Returns `None` and takes nothing if that is longer than `most`,
    /// so that no more tokens are reserved than will be added within that time.
    pub(crate) fn take(&mut self, now: Instant, most: Duration) -> Option<Duration> {
        let wait = self.missing(now);
        if wait > most {
            return None;
        }
        self.tokens -= 1.0;
        Some(wait)
    }

    /// Takes an available token, or returns when to retry.
    pub(crate) fn take_now(&mut self, now: Instant) -> Result<(), Duration> {
        match self.take(now, Duration::ZERO) {
            Some(_) => Ok(()),
            // Slightly more than needed, so that rounding does not make the wait too short.
            None => Err(self.missing(now).saturating_add(Duration::from_millis(1))),
        }
    }

    /// Returns a token whose wait was cancelled.
    pub(crate) fn give_back(&mut self) {
        self.tokens = (self.tokens + 1.0).min(self.burst);
    }

    /// Returns the time until the next token.
    fn missing(&mut self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.counted).as_secs_f64();
        self.counted = self.counted.max(now);
        self.tokens = (self.tokens + passed * self.per_second).min(self.burst);
        Duration::try_from_secs_f64((1.0 - self.tokens).max(0.0) / self.per_second).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let now = Instant::now();
        let mut tokens = TokenBucket::new(10.0, 2, now);
        let most = Duration::from_millis(200);
        let take = |tokens: &mut TokenBucket, now| tokens.take(now, most).map(|wait| wait.as_millis());
        let waits = [0; 6].map(|_| take(&mut tokens, now));
        assert_eq!(waits, [Some(0), Some(0), Some(100), Some(200), None, None]);
        tokens.give_back();
        assert_eq!(take(&mut tokens, now), Some(200));
        let later = now + Duration::from_secs(60);
        assert_eq!([0; 3].map(|_| take(&mut tokens, later)), [Some(0), Some(0), Some(100)]);
    }

    #[test]
    fn a_caller_that_does_not_wait_learns_when_to_try_again() {
        let now = Instant::now();
        let period = Duration::from_secs(300);
        let mut tokens = TokenBucket::every(period, 25, now);
        assert_eq!((0..100).filter(|_| tokens.take_now(now).is_ok()).count(), 25);
        let wait = tokens.take_now(now).unwrap_err();
        assert!(tokens.take_now(now + period / 2).is_err());
        assert!(tokens.take_now(now + wait).is_ok());
        assert!(tokens.take_now(now + wait).is_err());
        assert_eq!((0..100).filter(|_| tokens.take_now(now + period * 1000).is_ok()).count(), 25);
    }

    #[test]
    fn odd_rates_and_clocks_do_not_panic() {
        let now = Instant::now();
        for per_second in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let mut tokens = TokenBucket::new(per_second, 0, now);
            tokens.take(now, Duration::MAX);
            tokens.take(now + Duration::from_secs(1), Duration::ZERO);
            let _ = tokens.take_now(now);
            tokens.give_back();
        }
        let _ = TokenBucket::every(Duration::ZERO, 1, now).take_now(now);
    }

    #[test]
    fn a_clock_that_goes_back_adds_no_tokens_twice() {
        let now = Instant::now();
        let mut tokens = TokenBucket::new(1.0, 10, now);
        (0..10).for_each(|_| assert!(tokens.take_now(now).is_ok()));
        let later = now + Duration::from_secs(2);
        assert!(tokens.take_now(later).is_ok());
        assert!(tokens.take_now(now).is_ok());
        assert!(tokens.take_now(later).is_err());
    }
}
