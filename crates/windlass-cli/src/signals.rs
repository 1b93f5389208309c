//! Termination signals: the first one drains, the second one aborts.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Interrupted;

/// Exit code after a second signal.
const ABORTED: i32 = 130;

/// Ctrl-C and SIGTERM, caught as long as this exists.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    // Without a handler it would end the process when a file reaches its maximum size: the write must fail instead.
    _file_size_limit: Signal,
}

impl Signals {
    /// Must be called within a runtime.
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            _file_size_limit: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
        })
    }

    /// Waits for a signal.
    pub(crate) async fn first(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Does some work, which a signal interrupts.
    pub(crate) async fn interrupt<T>(&mut self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        tokio::select! {
            result = work => result,
            () = self.first() => Err(Interrupted.into()),
        }
    }

    /// Exits the process at the next signal.
    pub(crate) async fn abort_on_next(mut self) {
        self.first().await;
        eprintln!("aborted");
        std::process::exit(ABORTED);
    }
}
