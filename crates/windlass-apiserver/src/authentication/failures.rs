//! The log of rejected credentials.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::error;

/// Interval at which failures are logged: anyone can cause them.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// Time of the last log message, and the number of failures since.
#[derive(Default)]
pub(crate) struct Failures(Mutex<(Option<Instant>, u64)>);

impl Failures {
    /// Logs why credentials were rejected, which the client is not told. Causes never contain tokens.
    pub(crate) fn log(&self, cause: &str) {
        if let Some(unlogged) = self.admit() {
            error!(cause, unlogged, "failed to authenticate a request");
        }
    }

    /// Returns the number of failures that were not logged; `None` if this one is not logged either.
    fn admit(&self) -> Option<u64> {
        let (last, unlogged) = &mut *self.0.lock();
        if last.is_some_and(|last| last.elapsed() < LOG_EVERY) {
            *unlogged += 1;
            return None;
        }
        *last = Some(Instant::now());
        Some(std::mem::take(unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_failure_per_second_is_logged_and_the_others_are_counted() {
        let failures = Failures::default();
        assert_eq!([failures.admit(), failures.admit(), failures.admit()], [Some(0), None, None]);
        tokio::time::advance(LOG_EVERY - Duration::from_millis(1)).await;
        assert_eq!(failures.admit(), None);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!([failures.admit(), failures.admit()], [Some(3), None]);
    }
}
