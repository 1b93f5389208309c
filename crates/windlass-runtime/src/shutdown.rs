//! Graceful shutdown: the first signal drains, the second aborts.
//!
//! ```
//! # use windlass_runtime::shutdown::Shutdown;
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let workers = Shutdown::new();
//! let servers = workers.later();
//! workers.drain();
//! workers.draining().await;
//! assert!(!servers.is_draining(), "servers outlive the workers");
//! workers.abort();
//! servers.aborting().await;
//! # });
//! ```

use std::io;

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

/// Signals everything in a process to stop. Clones share the state.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    drain: CancellationToken,
    abort: CancellationToken,
}

impl Shutdown {
    /// Creates a shutdown that has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a shutdown that is controlled by signals: the first SIGTERM or SIGINT drains, the second aborts. Later
    /// ones have no effect.
    ///
    /// A task on the current tokio runtime handles the signals for the rest of the process.
    pub fn on_signals() -> io::Result<Self> {
        let shutdown = Self::new();
        let mut signals = Signals::listen()?;
        let told = shutdown.clone();
        let task = async move {
            let signal = signals.next().await;
            tracing::info!(signal, "shutting down: finishing work in flight; a second signal drops it");
            told.drain();
            let signal = signals.next().await;
            tracing::warn!(signal, "shutting down at once");
            told.abort();
        };
        tokio::spawn(task.boxed());
        Ok(shutdown)
    }

    /// Returns a shutdown for something that must outlive the users of this one: it is drained separately, later, and
    /// aborted with this one.
    #[must_use]
    pub fn later(&self) -> Self {
        Self { drain: CancellationToken::new(), abort: self.abort.clone() }
    }

    /// Asks everything to accept no new work and to finish the work in flight.
    pub fn drain(&self) {
        self.drain.cancel();
    }

    /// Signals all tasks to abort work in flight.
    pub fn abort(&self) {
        self.drain.cancel();
        self.abort.cancel();
    }

    /// Returns whether new work must be rejected.
    pub fn is_draining(&self) -> bool {
        self.drain.is_cancelled() || self.abort.is_cancelled()
    }

    /// Returns whether work must be dropped.
    pub fn is_aborting(&self) -> bool {
        self.abort.is_cancelled()
    }

    /// Resolves when draining begins.
    pub async fn draining(&self) {
        tokio::select! {
            () = self.drain.cancelled() => {}
            () = self.abort.cancelled() => {}
        }
    }

    /// Resolves when aborting begins.
    pub async fn aborting(&self) {
        self.abort.cancelled().await;
    }
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> &'static str {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        "Ctrl-C"
    }
}

#[cfg(test)]
mod tests {
    use std::{process::Command, time::Duration};

    use super::*;

    #[tokio::test]
    async fn the_first_signal_drains_and_the_second_aborts() {
        let signal = || {
            let process = std::process::id().to_string();
            assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
        };
        let soon = Duration::from_secs(30);
        let shutdown = Shutdown::on_signals().unwrap();
        assert!(!shutdown.is_draining());
        signal();
        tokio::time::timeout(soon, shutdown.draining()).await.unwrap();
        assert!(!shutdown.is_aborting());
        signal();
        tokio::time::timeout(soon, shutdown.aborting()).await.unwrap();
    }
}
