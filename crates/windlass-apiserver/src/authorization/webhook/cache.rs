//! Cached decisions.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::authorization::Decision;

/// Maximum number of cached decisions; the oldest is dropped first.
const CAPACITY: usize = 8192;

/// Decisions by request.
#[derive(Default)]
pub(super) struct DecisionCache(Mutex<Decisions>);

#[derive(Default)]
struct Decisions {
    by_key: HashMap<String, (Decision, Instant)>,
    /// The keys in the order of their insertion.
    order: VecDeque<String>,
}

impl DecisionCache {
    /// Returns a decision that has not expired.
    pub(super) fn get(&self, key: &str) -> Option<Decision> {
        let decisions = self.0.lock();
        let (decision, expiry) = decisions.by_key.get(key)?;
        (Instant::now() < *expiry).then(|| decision.clone())
    }

    /// Remembers a decision.
    pub(super) fn insert(&self, key: String, decision: Decision, lifetime: Duration) {
        // A lifetime that no clock can express lasts for as long as the process.
        let Some(expiry) = Instant::now().checked_add(lifetime) else { return };
        if lifetime.is_zero() {
            return;
        }
        let mut decisions = self.0.lock();
        if decisions.by_key.insert(key.clone(), (decision, expiry)).is_some() {
            return;
        }
        decisions.order.push_back(key);
        if decisions.order.len() > CAPACITY
            && let Some(oldest) = decisions.order.pop_front()
        {
            decisions.by_key.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn decisions_are_remembered_for_their_lifetime() {
        let cache = DecisionCache::default();
        cache.insert("a".to_owned(), Decision::allow("yes"), Duration::from_secs(5));
        cache.insert("b".to_owned(), Decision::allow("never"), Duration::ZERO);
        assert_eq!(cache.get("b"), None);
        tokio::time::advance(Duration::from_millis(4999)).await;
        assert_eq!(cache.get("a"), Some(Decision::allow("yes")));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(cache.get("a"), None);
        cache.insert("a".to_owned(), Decision::deny("no"), Duration::from_secs(5));
        assert_eq!(cache.get("a"), Some(Decision::deny("no")));
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_decision_is_forgotten_first() {
        let cache = DecisionCache::default();
        for index in 0..=CAPACITY {
            cache.insert(index.to_string(), Decision::allow(""), Duration::from_secs(5));
        }
        assert_eq!(cache.get("0"), None);
        assert!(cache.get("1").is_some());
        assert!(cache.get(&CAPACITY.to_string()).is_some());
    }
}
