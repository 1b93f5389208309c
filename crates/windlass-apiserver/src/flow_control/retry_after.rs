//! The `Retry-After` of rejected requests: it doubles while requests are rejected and decreases when they are not.

use std::collections::VecDeque;

/// Maximum value of `Retry-After`, in seconds.
const LONGEST: u64 = 32;

/// The rejected requests of a priority level.
#[derive(Debug, Default)]
pub(super) struct RetryAfter {
    /// Seconds with rejected requests, and their number.
    history: VecDeque<(u64, u64)>,
    current: (u64, u64),
    /// Minus one, so that the default is one second.
    seconds: u64,
    raised: Option<u64>,
}

impl RetryAfter {
    /// Records a rejected request at a time in seconds.
    pub(super) fn rejected(&mut self, now: u64) {
        if self.current.1 > 0 && self.current.0 == now {
            self.current.1 += 1;
            return;
        }
        if self.current.1 > 0 {
            self.history.push_back(self.current);
        }
        self.current = (now, 1);
        let kept = (2 * self.seconds()).min(LONGEST);
        while self.history.front().is_some_and(|(second, _)| now.saturating_sub(*second) > kept) {
            self.history.pop_front();
        }
        self.adjust(now);
    }

    /// The seconds that clients should wait.
    pub(super) fn seconds(&self) -> u64 {
        self.seconds + 1
    }

    fn adjust(&mut self, now: u64) {
        let seconds = self.seconds();
        let recent = self.history.iter().filter(|(second, _)| now.saturating_sub(*second) <= seconds);
        let rejected: u64 = recent.map(|(_, count)| count).sum();
        let settled = self.raised.is_none_or(|raised| now.saturating_sub(raised) >= seconds);
        if settled && rejected >= 3 * seconds {
            self.seconds = (seconds * 2).min(LONGEST) - 1;
            self.raised = Some(now);
        } else if rejected < seconds && seconds > 1 {
            self.seconds -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reject(retry: &mut RetryAfter, second: u64, count: usize) -> u64 {
        (0..count).for_each(|_| retry.rejected(second));
        retry.seconds()
    }

    #[test]
    fn clients_wait_longer_while_many_requests_are_rejected() {
        let mut retry = RetryAfter::default();
        assert_eq!(retry.seconds(), 1);
        let waits: Vec<u64> = (10..90).map(|second| reject(&mut retry, second, 100)).collect();
        assert_eq!(waits[..4], [1, 2, 2, 4]);
        assert_eq!(waits.last(), Some(&LONGEST));
    }

    #[test]
    fn clients_wait_less_when_few_requests_are_rejected() {
        let mut retry = RetryAfter::default();
        assert_eq!((10..14).map(|second| reject(&mut retry, second, 100)).last(), Some(4));
        let later: Vec<u64> = [100, 200, 300, 400].map(|second| reject(&mut retry, second, 1)).into();
        assert_eq!(later, [3, 2, 1, 1]);
    }
}
