//! Backoff of failed keys.

use std::time::Duration;

use tokio::time::Instant;

use crate::token_bucket::TokenBucket;

/// Backoff of failing keys.
///
/// A key that fails for the nth time in a row waits `base * 2^(n-1)`, at most `max`, minus a random part of up to
/// `jitter` of it, and not before the bucket has a token for it. If the bucket has none within `max`, the key waits
/// that long, minus a random part, and takes none.
///
/// The defaults are 5 ms to 1000 s as in client-go and controller-runtime, a jitter of 0.1, and a bucket of 100 tokens
/// per second with a burst of 1000. client-go's bucket of 10 per second makes the last of 100,000 keys wait almost
/// three hours when a server comes back; controller-runtime's priority queue has none, so that 100,000 keys which fail
/// together are retried together. 100 per second is the rate of 100,000 keys that all wait for the longest backoff.
#[derive(Clone, Debug, PartialEq)]
pub struct RateLimit {
    /// Delay after the first failure.
    pub base: Duration,
    /// Longest delay, regardless of the number of failures and the bucket.
    pub max: Duration,
    /// Random part of a delay, from 0 (none) to 1 (all of it), so that keys that failed together are not retried
    /// together.
    pub jitter: f64,
    /// Limit of the retries of all keys together; `None` for no limit.
    pub overall: Option<Bucket>,
    /// Whether a failed key keeps waiting for its backoff when it is added again. Otherwise a new event makes it ready
    /// at once, as in controller-runtime, and its failures still count for the next delay.
    pub keep_backoff: bool,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(5),
            max: Duration::from_secs(1000),
            jitter: 0.1,
            overall: Some(Bucket { per_second: 100.0, burst: 1000 }),
            keep_backoff: false,
        }
    }
}

impl RateLimit {
    /// Returns the delay after the nth consecutive failure; `random` is from 0 to 1.
    pub(super) fn backoff(&self, failures: u32, random: f64) -> Duration {
        let factor = 2f64.powi(i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX));
        self.spread((self.base.as_secs_f64() * factor).min(self.max.as_secs_f64()), random)
    }

    /// Returns the longest delay; `random` is from 0 to 1.
    pub(super) fn longest(&self, random: f64) -> Duration {
        self.spread(self.max.as_secs_f64(), random)
    }

    /// Returns a delay that must not be shorter, plus a random part of it; `random` is from 0 to 1.
    pub(super) fn lengthened(&self, delay: Duration, random: f64) -> Duration {
        Duration::try_from_secs_f64(delay.as_secs_f64() * (1.0 + self.share() * random)).unwrap_or(delay)
    }

    fn share(&self) -> f64 {
        if self.jitter.is_finite() { self.jitter.clamp(0.0, 1.0) } else { 0.0 }
    }

    fn spread(&self, grown: f64, random: f64) -> Duration {
        let jitter = self.share();
        Duration::try_from_secs_f64(grown * (1.0 - jitter * random)).unwrap_or(self.max)
    }
}

/// A token bucket; each retry takes one token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// Tokens added per second.
    pub per_second: f64,
    /// Maximum number of tokens.
    pub burst: u32,
}

impl Bucket {
    pub(super) fn tokens(&self, now: Instant) -> TokenBucket {
        TokenBucket::new(self.per_second, self.burst, now)
    }
}

/// Random numbers for jitter: good enough to spread keys, and reproducible by seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// Returns a number from 0 to 1.
    pub(super) fn next(&mut self) -> f64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backoff_doubles_up_to_the_longest() {
        let limit = RateLimit { jitter: 0.0, ..RateLimit::default() };
        let seen: Vec<_> = [1, 2, 3, 10, 18, 19, 100, u32::MAX].map(|n| limit.backoff(n, 0.7).as_millis()).into();
        assert_eq!(seen, [5, 10, 20, 2_560, 655_360, 1_000_000, 1_000_000, 1_000_000]);
    }

    #[test]
    fn jitter_only_shortens() {
        let limit = RateLimit { jitter: 0.5, ..RateLimit::default() };
        let seen = [0.0, 0.5, 1.0].map(|random| limit.backoff(2, random).as_micros());
        assert_eq!(seen, [10_000, 7_500, 5_000]);
    }

    #[test]
    fn odd_settings_do_not_panic() {
        let limit = RateLimit { base: Duration::MAX, max: Duration::MAX, jitter: f64::NAN, ..RateLimit::default() };
        assert!(limit.backoff(3, 0.5) > Duration::from_secs(1));
    }

    #[test]
    fn a_million_keys_that_fail_leave_no_debt_beyond_the_longest_delay() {
        let limit = RateLimit::default();
        let now = Instant::now();
        let mut tokens = limit.overall.unwrap().tokens(now);
        let promised = (0..1_000_000).filter(|_| tokens.take(now, limit.max).is_some()).count();
        assert!((100_999..=101_001).contains(&promised), "{promised}");
        // After that time, everything is as before: a key that fails then no longer waits for the bucket.
        let later = now + limit.max;
        assert!(tokens.take(later, limit.max).is_some_and(|wait| wait <= Duration::from_millis(20)));
        // Keys without a token do not come back together.
        let mut random = Random(7);
        let delays: Vec<f64> = (0..1000).map(|_| limit.longest(random.next()).as_secs_f64()).collect();
        assert!(delays.iter().all(|delay| (900.0..=1000.0).contains(delay)));
        assert!(delays.iter().any(|delay| *delay < 920.0) && delays.iter().any(|delay| *delay > 980.0));
    }

    #[test]
    fn random_numbers_spread() {
        let mut random = Random(7);
        let numbers: Vec<f64> = (0..1000).map(|_| random.next()).collect();
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
        let mean = numbers.iter().sum::<f64>() / 1000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }
}
