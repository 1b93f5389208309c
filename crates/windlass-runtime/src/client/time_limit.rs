//! Time limits of requests.

use std::{sync::Arc, time::Duration};

use http::{Extensions, Request};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Time limit of a request, with all its attempts. The time in which it waits for the rate limit of a
/// [client](super::connect) does not count. It must be [attached](Self::attach) to the request for that.
#[derive(Clone, Debug)]
pub(crate) struct TimeLimit {
    limit: Duration,
    waits: Waits,
}

/// Time for which a request has waited for the rate limit, in its extensions.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits(Arc<Mutex<Waited>>);

#[derive(Debug, Default)]
struct Waited {
    before: Duration,
    since: Option<Instant>,
}

/// A wait, until it is dropped.
pub(super) struct Waiting(Waits);

/// There was no response within the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no response within {0:?}")]
pub(crate) struct NoResponse(Duration);

impl TimeLimit {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, waits: Waits::default() }
    }

    /// Attaches the limit to a request.
    pub(crate) fn attach(&self, extensions: &mut Extensions) {
        extensions.insert(self.waits.clone());
    }

    /// Returns the output of the request's future, or drops it when the time is over.
    pub(crate) async fn run<T>(&self, sending: impl Future<Output = T>) -> Result<T, NoResponse> {
        let began = Instant::now();
        let mut sending = std::pin::pin!(sending);
        loop {
            let left = self.limit.saturating_add(self.waits.total()).saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(NoResponse(self.limit));
            }
            if let Ok(output) = tokio::time::timeout(left, &mut sending).await {
                return Ok(output);
            }
        }
    }
}

impl NoResponse {
    /// Returns whether a request failed because there was no response in time.
    pub(crate) fn is_cause(error: &kube::Error) -> bool {
        matches!(error, kube::Error::Service(error) if error.is::<Self>())
    }
}

impl From<NoResponse> for kube::Error {
    fn from(error: NoResponse) -> Self {
        Self::Service(error.into())
    }
}

impl Waits {
    pub(super) fn of<B>(request: &Request<B>) -> Option<Self> {
        request.extensions().get().cloned()
    }

    /// Begins a wait.
    pub(super) fn begin(&self) -> Waiting {
        self.0.lock().since = Some(Instant::now());
        Waiting(self.clone())
    }

    fn total(&self) -> Duration {
        let waited = self.0.lock();
        waited.before + waited.since.map(|since| since.elapsed()).unwrap_or_default()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut waited = self.0.0.lock();
        let wait = waited.since.take().map(|since| since.elapsed());
        waited.before += wait.unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_time_in_which_a_request_waits_for_the_rate_limit_does_not_count() {
        for (wait, takes, expected) in [(0, 9, true), (100, 9, true), (0, 11, false), (100, 11, false)] {
            let (began, limit) = (Instant::now(), TimeLimit::new(Duration::from_secs(10)));
            let waits = limit.waits.clone();
            let request = async {
                let waiting = waits.begin();
                tokio::time::sleep(Duration::from_secs(wait)).await;
                drop(waiting);
                tokio::time::sleep(Duration::from_secs(takes)).await;
            };
            assert_eq!(limit.run(request).await.is_ok(), expected, "{wait} {takes}");
            assert_eq!(began.elapsed().as_secs(), wait + takes.min(10));
        }
    }
}
