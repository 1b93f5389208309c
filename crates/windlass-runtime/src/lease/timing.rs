//! Durations of leases.

use std::time::Duration;

/// Durations of a lease: how long it lasts, how long its holder relies on it, and how often it is renewed.
///
/// The same three values, rules and defaults as in client-go, so that replicas in both languages can share a lease.
///
/// ```
/// use windlass_runtime::lease::Timing;
/// let timing = Timing::default();
/// assert_eq!(timing.lease_duration.as_secs(), 15);
/// assert!(timing.validate().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time that others wait without seeing a renewal before they take over the lease. Written in whole seconds,
    /// rounded up. 15 s by default.
    pub lease_duration: Duration,
    /// Time that the holder relies on a renewal. 10 s by default.
    pub renew_deadline: Duration,
    /// Interval at which the holder renews. Candidates retry at random intervals of 1 to 2.2 times this value. 2 s by
    /// default.
    pub retry_period: Duration,
}

/// Durations with which two processes could hold one lease, or none could keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTiming {
    /// Others might take over the lease while its holder relies on it.
    #[error("the lease duration must be greater than the renew deadline")]
    LeaseDuration,
    /// The holder could not renew in time.
    #[error("the renew deadline must be greater than 1.2 times the retry period")]
    RenewDeadline,
    /// The holder would renew without a pause.
    #[error("the retry period must be greater than zero")]
    RetryPeriod,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// Checks that these durations are safe: `lease_duration > renew_deadline > 1.2 * retry_period > 0`.
    pub fn validate(&self) -> Result<(), InvalidTiming> {
        if self.retry_period.is_zero() {
            return Err(InvalidTiming::RetryPeriod);
        }
        if self.renew_deadline <= self.retry_period.saturating_mul(6) / 5 {
            return Err(InvalidTiming::RenewDeadline);
        }
        if self.lease_duration <= self.renew_deadline {
            return Err(InvalidTiming::LeaseDuration);
        }
        Ok(())
    }

    /// Returns the duration in a Lease. Rounded up, because rounding down could make it shorter than the renew
    /// deadline.
    pub(crate) fn lease_seconds(&self) -> u32 {
        let seconds = self.lease_duration.as_secs() + u64::from(self.lease_duration.subsec_nanos() > 0);
        u32::try_from(seconds).unwrap_or(i32::MAX as u32).clamp(1, i32::MAX as u32)
    }

    /// Returns when a waiting candidate checks again; `chance` is between 0 and 1.
    pub(crate) fn jittered(&self, chance: f64) -> Duration {
        self.retry_period.mul_f64(1.0 + 1.2 * chance.clamp(0.0, 1.0))
    }

    /// Returns the timeout of a request: two fit before the deadline.
    pub(crate) fn request(&self) -> Duration {
        self.renew_deadline / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(lease: u64, renew: u64, retry: u64) -> Timing {
        let [lease_duration, renew_deadline, retry_period] = [lease, renew, retry].map(Duration::from_millis);
        Timing { lease_duration, renew_deadline, retry_period }
    }

    #[test]
    fn timings_that_allow_two_leaders_are_rejected() {
        assert_eq!(Timing::default().validate(), Ok(()));
        assert_eq!(timing(10_000, 10_000, 2_000).validate(), Err(InvalidTiming::LeaseDuration));
        assert_eq!(timing(15_000, 2_400, 2_000).validate(), Err(InvalidTiming::RenewDeadline));
        assert_eq!(timing(15_000, 10_000, 0).validate(), Err(InvalidTiming::RetryPeriod));
        assert_eq!(timing(15_000, 2_401, 2_000).validate(), Ok(()));
        let huge = Timing { retry_period: Duration::MAX, ..Timing::default() };
        assert_eq!(huge.validate(), Err(InvalidTiming::RenewDeadline));
    }

    #[test]
    fn a_lease_is_never_written_shorter_than_it_is() {
        assert_eq!(timing(15_000, 10_000, 2_000).lease_seconds(), 15);
        assert_eq!(timing(1_500, 1_200, 100).lease_seconds(), 2);
        assert_eq!(timing(500, 400, 100).lease_seconds(), 1);
    }
}
