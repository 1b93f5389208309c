//! Logs to standard error, or to a command that uses the whole terminal.

use std::io::{self, IsTerminal as _};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

use crate::output;

/// Maximum number of buffered lines. Further lines are dropped: logging must not block.
const WAITING: usize = 256;

/// The receiver of logs, instead of standard error.
static DIVERTED: Mutex<Option<mpsc::Sender<String>>> = Mutex::new(None);

/// Starts logging: warnings, and more of Windlass's own logs for each `-v`. `RUST_LOG` takes precedence.
pub(crate) fn start(verbose: u8) {
    let filter = match std::env::var("RUST_LOG") {
        Ok(directives) if !directives.is_empty() => EnvFilter::new(directives),
        _ => EnvFilter::new(match verbose {
            0 => "warn",
            1 => "warn,windlass=info",
            2 => "info,windlass=debug",
            _ => "debug",
        }),
    };
    let colour = io::stderr().is_terminal() && output::colour_allowed();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(Logs).with_ansi(colour).init();
}

/// Diverts the logs until the receiver is dropped.
pub(crate) fn divert() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(WAITING);
    *DIVERTED.lock() = Some(sender);
    receiver
}

struct Logs;

impl<'a> MakeWriter<'a> for Logs {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self
    }
}

impl io::Write for Logs {
    /// The formatter writes whole lines.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut diverted = DIVERTED.lock();
        if let Some(sender) = diverted.as_ref() {
            let line = String::from_utf8_lossy(bytes).trim_end().to_owned();
            match sender.try_send(line) {
                Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => return Ok(bytes.len()),
                Err(mpsc::error::TrySendError::Closed(_)) => *diverted = None,
            }
        }
        drop(diverted);
        io::stderr().write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
