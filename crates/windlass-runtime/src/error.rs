//! Errors of reconcilers.

use std::{error::Error as StdError, fmt};

/// Error of a reconcile: any error, with `?`.
///
/// A failed reconcile is retried with backoff, unless the error is [terminal](Error::terminal).
pub struct Error {
    inner: Box<dyn StdError + Send + Sync>,
    terminal: bool,
}

/// Result of a reconcile.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error with a message.
    pub fn new(message: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { inner: message.into(), terminal: false }
    }

    /// Creates an error that is not retried. The object is not reconciled until it changes.
    pub fn terminal(message: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { inner: message.into(), terminal: true }
    }

    /// Returns whether the error is terminal.
    pub fn is_terminal(&self) -> bool {
        self.terminal
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
        Self { inner: Box::new(error), terminal: false }
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
    }
}
