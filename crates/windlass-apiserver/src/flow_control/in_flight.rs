//! The limits on requests without API Priority and Fairness: one for reading requests, one for all others.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::schema::{Digest, Target};
use crate::{
    limits::Limits,
    status::{ApiError, Result},
    verb::Verb,
};

/// The number of requests that may still begin; `None` without a limit.
pub(super) struct InFlight {
    reading: Option<Arc<Semaphore>>,
    mutating: Option<Arc<Semaphore>>,
}

impl InFlight {
    pub(super) fn new(limits: &Limits) -> Self {
        let semaphore =
            |permits: usize| (permits > 0).then(|| Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))));
        Self {
            reading: semaphore(limits.max_requests_inflight),
            mutating: semaphore(limits.max_mutating_requests_inflight),
        }
    }

    /// Lets a request begin, or rejects it at once. Members of `system:masters` are never rejected.
    pub(super) fn admit(&self, request: &Digest<'_>) -> Result<Option<OwnedSemaphorePermit>> {
        let (Target::Path { verb, .. } | Target::Resource { verb, .. }) = request.target;
        let reads = Verb::from_name(verb).is_some_and(Verb::is_read);
        let Some(limit) = (if reads { &self.reading } else { &self.mutating }) else { return Ok(None) };
        match limit.clone().try_acquire_owned() {
            Ok(permit) => Ok(Some(permit)),
            Err(_) if request.user.is_master() => Ok(None),
            Err(_) => Err(ApiError::too_many_requests(1)),
        }
    }
}
