//! Requests that may leave only as long as something holds.
//!
//! Between the moment a request is made and the moment it leaves, it may wait: for its turn, for a connection, for a
//! server that was too busy the first time. What allowed it may have ended by then.

use std::{fmt, sync::Arc};

use http::Request;

/// A condition of a request, put into its extensions. A [client](super::connect) looks at it right before each try is
/// sent, and answers with an error instead if it does not hold any more. Other clients do not look.
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

/// The request was not sent: its condition did not hold any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request was not sent: what allowed it has ended")]
pub(super) struct NotSent;

impl SendCondition {
    /// A request may leave as long as this is true.
    pub fn new(holds: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(holds))
    }

    /// Whether a request failed because its condition did not hold any more. Such a request has changed nothing, unless
    /// an earlier try of it did.
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
        f.debug_tuple("OnlyWhile").finish_non_exhaustive()
    }
}
