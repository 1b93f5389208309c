//! Builder of queues.

use std::{
    hash::{BuildHasher, Hash, RandomState},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::{Inner, Queue, QueueMetrics, RateLimit, Shared, state::State};

/// Builder of a [`Queue`].
#[derive(Clone, Debug)]
pub struct QueueBuilder {
    name: String,
    rate_limit: RateLimit,
    seed: Option<u64>,
    metrics: Option<QueueMetrics>,
}

impl QueueBuilder {
    pub(super) fn new(name: String) -> Self {
        Self { name, rate_limit: RateLimit::default(), seed: None, metrics: None }
    }

    /// Sets the backoff of failing keys.
    #[must_use]
    pub fn rate_limit(mut self, rate_limit: RateLimit) -> Self {
        self.rate_limit = rate_limit;
        self
    }

    /// Sets the seed of the jitter, for reproducible delays. Random by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Counts the queue in these metrics, under its name.
    #[must_use]
    pub fn metrics(mut self, metrics: &QueueMetrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// Returns the empty queue.
    pub fn build<T: Clone + Eq + Hash + Send + 'static>(self) -> Queue<T> {
        let seed = self.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        let state = State::new(self.rate_limit, seed, Instant::now());
        let inner = Mutex::new(Inner { state, idle: 0, clock: None });
        let shared = Arc::new(Shared { name: self.name, inner, wake: Notify::new(), rearm: Notify::new() });
        if let Some(metrics) = &self.metrics {
            let weak = Arc::downgrade(&shared);
            metrics.add(&shared.name, weak);
        }
        Queue { shared }
    }
}
