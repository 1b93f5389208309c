//! Errors of reconcilers.

use std::{error::Error as StdError, fmt, time::Duration};

/// Error of a reconcile: any error, with `?`.
///
/// A failed reconcile is retried with backoff, unless the error is [terminal](Error::terminal) or says [when to
/// retry](Error::retry_after).
pub struct Error {
    inner: Box<dyn StdError + Send + Sync>,
    retry: Retry,
}

/// Retry policy of a failed reconcile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Retry {
    WithBackoff,
    After(Duration),
    Never,
}

/// Result of a reconcile.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error with a message.
    pub fn new(message: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { inner: message.into(), retry: Retry::WithBackoff }
    }

    /// Creates an error that is not retried. The object is not reconciled until it changes.
    pub fn terminal(message: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { inner: message.into(), retry: Retry::Never }
    }

    /// Retries after this delay instead of the backoff, or earlier if something changes: for example when a service
    /// says how long it is overloaded. It still counts as a failure. The delay is stretched at random by up to the
    /// [jitter](crate::queue::RateLimit::jitter) of the controller.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_runtime::Error;
    ///
    /// let error = Error::new("the quota is used up").retry_after(Duration::from_secs(60));
    /// assert_eq!(error.retry_delay(), Some(Duration::from_secs(60)));
    /// ```
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.retry = Retry::After(delay);
        self
    }

    /// Returns the delay that was set with [`retry_after`](Self::retry_after).
    pub fn retry_delay(&self) -> Option<Duration> {
        match self.retry {
            Retry::After(delay) => Some(delay),
            Retry::WithBackoff | Retry::Never => None,
        }
    }

    /// Returns whether the error is terminal.
    pub fn is_terminal(&self) -> bool {
        self.retry == Retry::Never
    }

    /// Returns the inner error.
    pub fn inner(&self) -> &(dyn StdError + Send + Sync + 'static) {
        self.inner.as_ref()
    }

    /// Returns the inner error if it has this type.
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.inner.downcast_ref()
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        Self { inner: Box::new(error), retry: Retry::WithBackoff }
    }
}

/// Shows the whole chain, as in `failed to create the volume: connection refused`.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut error: &dyn StdError = self.inner.as_ref();
        let mut text = error.to_string();
        f.write_str(&text)?;
        while let Some(source) = error.source() {
            let next = source.to_string();
            // Some errors already include their source.
            if !text.contains(&next) {
                write!(f, ": {next}")?;
            }
            text = next;
            error = source;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_its_chain_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] std::io::Error);
        let error = Error::from(Outer(std::io::Error::other("inner")));
        assert_eq!(error.to_string(), "outer: inner");
        assert!(!error.is_terminal());
        assert!(error.downcast_ref::<Outer>().is_some() && error.downcast_ref::<fmt::Error>().is_none());
        assert!(Error::terminal("bad cidr").is_terminal());
        let later = Error::terminal("bad cidr").retry_after(Duration::from_secs(1));
        assert!(!later.is_terminal() && later.retry_delay().is_some());
    }
}
