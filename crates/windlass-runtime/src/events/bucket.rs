//! How often something may happen.

use std::time::Duration;

use tokio::time::Instant;

/// Tokens that are used up and come back one by one.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    burst: f64,
    /// How long one token takes to come back.
    every: Duration,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(burst: u32, every: Duration, now: Instant) -> Self {
        Self { burst: burst.into(), every, tokens: burst.into(), at: now }
    }

    /// Takes a token, or says how long to wait for the next.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed / self.every.as_secs_f64()).min(self.burst);
        self.at = self.at.max(now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        // A little more than needed, so that rounding does not make the wait come up short.
        Err(self.every.mul_f64(1.0 - self.tokens) + Duration::from_millis(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_one_at_a_time() {
        let now = Instant::now();
        let every = Duration::from_secs(300);
        let mut bucket = Bucket::new(25, every, now);
        assert_eq!((0..100).filter(|_| bucket.take(now).is_ok()).count(), 25);
        let wait = bucket.take(now).unwrap_err();
        assert!(bucket.take(now + every / 2).is_err());
        assert!(bucket.take(now + wait).is_ok());
        assert!(bucket.take(now + wait).is_err());
        assert_eq!((0..100).filter(|_| bucket.take(now + every * 1000).is_ok()).count(), 25);
    }
}
