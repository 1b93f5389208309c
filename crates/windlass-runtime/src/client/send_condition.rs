//! Conditions under which a request may be sent.
//!
//! Before it is sent, a request may wait: for the rate limit, for a connection, or for a retry after the server was
//! overloaded. What permitted it may have ended by then.

use std::{fmt, sync::Arc};

use http::Request;

/// Condition of a request, stored in its extensions. A [client](super::connect) checks it right before each attempt,
/// and fails if it is no longer true. Other clients ignore it.
///
/// ```
/// use windlass_runtime::{client::SendCondition, lease::Leadership};
///
/// let leadership = Leadership::always();
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(SendCondition::new(move || leadership.leads()));
/// ```
#[derive(Clone)]
pub struct SendCondition(Arc<dyn Fn() -> bool + Send + Sync>);

/// The request was not sent, as its condition was no longer true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request was not sent: its condition is no longer true")]
pub(super) struct NotSent;

impl SendCondition {
    /// Permits a request as long as the function returns true.
    pub fn new(holds: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(holds))
    }

    /// Returns whether a request failed because its condition was no longer true. Such a request has changed nothing,
    /// unless an earlier attempt did.
    pub fn prevented(error: &kube::Error) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = match error {
            kube::Error::Service(error) => Some(error.as_ref()),
            _ => None,
        };
        while let Some(error) = cause {
            if error.is::<NotSent>() {
                return true;
            }
            cause = error.source();
        }
        false
    }

    pub(super) fn of<B>(request: &Request<B>) -> Option<Self> {
        request.extensions().get().cloned()
    }

    pub(super) fn check(condition: Option<&Self>) -> Result<(), NotSent> {
        match condition {
            Some(Self(holds)) if !holds() => Err(NotSent),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for SendCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SendCondition").finish_non_exhaustive()
    }
}
