//! A token bucket that limits the rate of batches.

use std::time::Duration;

use tokio::time::Instant;

/// A token bucket: a rate, and a burst after idle time.
pub(super) struct Throttle {
    per_second: f64,
    burst: f64,
    tokens: f64,
    at: Instant,
}

impl Throttle {
    pub(super) fn new(per_second: f64, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Self { per_second: per_second.max(0.001), burst, tokens: burst, at: Instant::now() }
    }

    /// Waits for the next token.
    pub(super) async fn wait(&mut self) {
        let now = Instant::now();
        let refilled = now.saturating_duration_since(self.at).as_secs_f64() * self.per_second;
        (self.tokens, self.at) = ((self.tokens + refilled).min(self.burst) - 1.0, now);
        if self.tokens < 0.0 {
            tokio::time::sleep(Duration::from_secs_f64(-self.tokens / self.per_second)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_free_and_then_the_rate_counts() {
        let mut throttle = Throttle::new(10.0, 3);
        let start = Instant::now();
        let mut waited = Vec::new();
        for _ in 0..5 {
            throttle.wait().await;
            waited.push(start.elapsed().as_millis());
        }
        assert_eq!(waited[..3], [0, 0, 0]);
        assert!((100..=102).contains(&waited[3]) && (200..=203).contains(&waited[4]), "{waited:?}");
    }
}
