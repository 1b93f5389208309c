//! Backoff for replacing pods that fail repeatedly.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// Past attempts, and when the next ones are due.
#[derive(Default)]
pub(super) struct Backoff {
    tried: Mutex<HashMap<String, (Instant, Duration)>>,
}

impl Backoff {
    /// Records an attempt, or returns how long to wait before it.
    pub(super) fn attempt(&self, key: &str) -> Result<(), Duration> {
        let now = Instant::now();
        let mut tried = self.tried.lock();
        // Entries without recent attempts have recovered or were deleted.
        tried.retain(|_, (last, _)| now.duration_since(*last) < 2 * LONGEST);
        let delay = match tried.get(key) {
            Some((last, delay)) if now.duration_since(*last) < *delay => return Err(*delay - now.duration_since(*last)),
            Some((_, delay)) => (2 * *delay).min(LONGEST),
            None => FIRST,
        };
        tried.insert(key.to_owned(), (now, delay));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_backoff_grows_until_there_are_no_failures() {
        let backoff = Backoff::default();
        assert_eq!(backoff.attempt("a"), Ok(()));
        assert_eq!(backoff.attempt("a"), Err(FIRST));
        assert_eq!(backoff.attempt("b"), Ok(()));
        tokio::time::advance(FIRST).await;
        assert_eq!(backoff.attempt("a"), Ok(()));
        assert_eq!(backoff.attempt("a"), Err(2 * FIRST));
        tokio::time::advance(2 * LONGEST).await;
        assert_eq!(backoff.attempt("a"), Ok(()));
        assert_eq!(backoff.attempt("a"), Err(FIRST));
    }
}
