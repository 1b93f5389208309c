//! Why a reconcile failed.

use std::{error::Error as StdError, fmt};

/// What a reconcile fails with: any error, by `?`.
///
/// A failed reconcile is tried again, later each time, unless the error is [terminal](Error::terminal).
pub struct Error {
    inner: Box<dyn StdError + Send + Sync>,
    terminal: bool,
}

/// What a reconcile answers.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error with a message.
    pub fn new(message: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { inner: message.into(), terminal: false }
    }

    /// An error that trying again will not cure. The key is left alone until its object changes.
    pub fn terminal(message: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { inner: message.into(), terminal: true }
    }

    /// Whether trying again is of no use.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The error within.
    pub fn inner(&self) -> &(dyn StdError + Send + Sync + 'static) {
        self.inner.as_ref()
    }

    /// The error within, if it is of this type.
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.inner.downcast_ref()
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        Self { inner: Box::new(error), terminal: false }
    }
}

/// The whole chain, as in `could not create the volume: connection refused`.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut error: &dyn StdError = self.inner.as_ref();
        let mut text = error.to_string();
        f.write_str(&text)?;
        while let Some(source) = error.source() {
            let next = source.to_string();
            // Some errors show their source themselves.
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
