//! Limits of the memory that all reviews together may use.
//!
//! A request acquires a share of a budget, of the size of its body, before the body is read, and waits for it within
//! its timeout. Shares are granted in the order of requests, so that a large request does not starve. Conversions have
//! their own budget, so that admission never waits for a long list.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum size of an admission review: two objects of the largest size that the API server accepts, and some more.
pub(super) const MAX_ADMISSION: usize = 7 << 20;
/// Maximum size of a conversion review, which holds all objects of a list.
pub(super) const MAX_CONVERSION: usize = 64 << 20;

/// Budget of all admission reviews: four of the largest, or two thousand of the usual size.
const ADMISSIONS: usize = 32 << 20;
/// Budget of all conversion reviews: one of the largest at a time, or many of the usual size.
const CONVERSIONS: usize = MAX_CONVERSION;

/// Unit of budgets, and the smallest share: a request needs some memory regardless of its body.
const UNIT: usize = 16 << 10;

/// The budgets of a server. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    pub(super) admissions: Budget,
    pub(super) conversions: Budget,
}

/// Bytes that may be in use at a time.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    units: Arc<Semaphore>,
}

/// Bytes in use, until this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    _units: Option<OwnedSemaphorePermit>,
}

impl Default for Memory {
    fn default() -> Self {
        Self { admissions: Budget::new(ADMISSIONS), conversions: Budget::new(CONVERSIONS) }
    }
}

impl Budget {
    fn new(bytes: usize) -> Self {
        Self { units: Arc::new(Semaphore::new(bytes / UNIT)) }
    }

    /// Waits until this many bytes, at most the whole budget, are free.
    pub(super) async fn take(&self, bytes: usize) -> Share {
        let units = u32::try_from(bytes.div_ceil(UNIT).max(1)).unwrap_or(u32::MAX);
        // Never closed, so there is always a permit.
        Share { _units: self.units.clone().acquire_many_owned(units).await.ok() }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_request_beyond_the_budget_waits_until_enough_is_free() {
        let budget = Budget::new(4 * UNIT);
        let first = budget.take(2 * UNIT + 1).await;
        let small = budget.take(0).await;
        assert!(budget.take(1).now_or_never().is_none());
        drop(small);
        assert!(budget.take(UNIT + 1).now_or_never().is_none());
        drop(first);
        assert!(budget.take(4 * UNIT).now_or_never().is_some());
    }

    #[tokio::test]
    async fn the_largest_review_fits() {
        let memory = Memory::default();
        assert!(memory.admissions.take(MAX_ADMISSION).now_or_never().is_some());
        assert!(memory.conversions.take(MAX_CONVERSION).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_large_request_is_not_overtaken() {
        let budget = Budget::new(2 * UNIT);
        let first = budget.take(1).await;
        let mut large = Box::pin(budget.take(2 * UNIT));
        assert!(large.as_mut().now_or_never().is_none());
        assert!(budget.take(1).now_or_never().is_none());
        drop(first);
        assert!(large.now_or_never().is_some());
    }
}
