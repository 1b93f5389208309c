//! Backoff for replacing pods that fail repeatedly. Pure.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// Past attempts, and when the next ones are due.
#[derive(Default)]
pub(super) struct Backoff {
    tried: HashMap<String, (Instant, Duration)>,
}

impl Backoff {
    /// Records an attempt, or returns how long to wait before it.
    pub(super) fn attempt(&mut self, key: &str, now: Instant) -> Result<(), Duration> {
        // Entries without recent attempts have recovered or were deleted.
        self.tried.retain(|_, (last, _)| now.duration_since(*last) < 2 * LONGEST);
        let delay = match self.tried.get(key) {
            Some((last, delay)) if now.duration_since(*last) < *delay => return Err(*delay - now.duration_since(*last)),
            Some((_, delay)) => (2 * *delay).min(LONGEST),
            None => FIRST,
        };
        self.tried.insert(key.to_owned(), (now, delay));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_grows_until_there_are_no_failures() {
        let (mut backoff, start) = (Backoff::default(), Instant::now());
        for (after, key, expected) in [
            (Duration::ZERO, "a", Ok(())),
            (Duration::ZERO, "a", Err(FIRST)),
            (Duration::ZERO, "b", Ok(())),
            (FIRST, "a", Ok(())),
            (FIRST, "a", Err(2 * FIRST)),
            (FIRST + 2 * LONGEST, "a", Ok(())),
            (FIRST + 2 * LONGEST, "a", Err(FIRST)),
        ] {
            assert_eq!(backoff.attempt(key, start + after), expected, "{key} after {after:?}");
        }
    }
}
