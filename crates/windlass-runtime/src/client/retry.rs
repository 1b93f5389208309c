//! Retries of requests that an overloaded server rejected.

use http::{Method, Request, Response, StatusCode};
use kube::client::{Body, retry::RetryPolicy};
use tower::{BoxError, retry::Policy};

/// kube's policy, except for evictions: a 429 without `Retry-After` means that a disruption budget forbids the eviction,
/// which the caller has to know.
#[derive(Clone)]
pub(super) struct RetryOverloaded(RetryPolicy);

impl RetryOverloaded {
    pub(super) fn new() -> Self {
        Self(RetryPolicy::server_retry())
    }
}

impl<B> Policy<Request<Body>, Response<B>, BoxError> for RetryOverloaded {
    type Future = tokio::time::Sleep;

    fn retry(
        &mut self,
        request: &mut Request<Body>,
        result: &mut Result<Response<B>, BoxError>,
    ) -> Option<Self::Future> {
        match result {
            Ok(response) if is_eviction(request) && is_budget(response) => None,
            _ => self.0.retry(request, result),
        }
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        Policy::<_, Response<B>, BoxError>::clone_request(&mut self.0, request)
    }
}

fn is_eviction(request: &Request<Body>) -> bool {
    *request.method() == Method::POST && request.uri().path().ends_with("/eviction")
}

fn is_budget<B>(response: &Response<B>) -> bool {
    response.status() == StatusCode::TOO_MANY_REQUESTS && !response.headers().contains_key("retry-after")
}
