//! The log backend: a thread that writes events to a file or to standard output.

mod rotation;
#[cfg(test)]
mod tests;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    sync::Arc,
    thread,
};

use tokio::sync::mpsc;

use self::rotation::RotatingFile;
use super::{
    Batching, Counters, Mode, Plugin, Truncation,
    event::{Event, OBJECT},
    queue::{Item, Queue, Queued},
};

/// The number of bytes that are written at once.
const WRITE: usize = 64 << 10;

/// Options of the audit log.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// The file; `None` for standard output.
    pub path: Option<PathBuf>,
    /// The size in bytes above which the file is rotated; 0 for never.
    pub max_size: u64,
    /// The number of days for which rotated files are kept; 0 for no limit.
    pub max_age: u32,
    /// The number of rotated files that are kept; 0 for all.
    pub max_backups: usize,
    /// Whether rotated files are compressed.
    pub compress: bool,
    /// The format of events.
    pub format: LogFormat,
    /// Whether requests wait for their events.
    pub mode: Mode,
    /// The bounds of the queue; batches are not used.
    pub batching: Batching,
    /// Treatment of large events; `None` leaves them unchanged.
    pub truncation: Option<Truncation>,
}

/// The format of logged events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// A line of text, with the most important fields.
    Legacy,
    /// One line of JSON per event.
    #[default]
    Json,
}

impl LogOptions {
    /// Events as JSON in a file, with the limits of kube-apiserver.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), ..Self::stdout() }
    }

    /// Events as JSON on standard output.
    pub fn stdout() -> Self {
        Self {
            path: None,
            max_size: 100 << 20,
            max_age: 366,
            max_backups: 100,
            compress: false,
            format: LogFormat::Json,
            mode: Mode::Batch,
            batching: Batching::default(),
            truncation: None,
        }
    }
}

/// Opens the log and starts its thread, which ends when the queue is dropped.
pub(super) fn start(options: &LogOptions, counters: Arc<Counters>) -> io::Result<Queue> {
    let output = match &options.path {
        Some(path) => Output::File(RotatingFile::open(rotation::Limits {
            path: path.clone(),
            max_size: options.max_size,
            max_age_days: options.max_age,
            max_backups: options.max_backups,
            compress: options.compress,
        })?),
        None => Output::Stdout,
    };
    let Batching { buffer_bytes, buffer_events, .. } = options.batching;
    let (queue, receiver) = Queue::new(options.mode, buffer_bytes, buffer_events, counters.clone());
    thread::Builder::new().name("audit-log".to_owned()).spawn(move || run(receiver, output, &counters))?;
    Ok(queue)
}

/// Returns the line of an event.
pub(super) fn line(format: LogFormat, event: &Event, fields: &[u8]) -> Vec<u8> {
    match format {
        LogFormat::Json => [OBJECT, fields, b"\n"].concat(),
        LogFormat::Legacy => (event.legacy_line() + "\n").into_bytes(),
    }
}

enum Output {
    File(RotatingFile),
    Stdout,
}

impl Output {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.write(lines),
            Self::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(lines)?;
                out.flush()
            }
        }
    }
}

/// Writes events until the queue is dropped.
fn run(mut receiver: mpsc::UnboundedReceiver<Item>, mut output: Output, counters: &Counters) {
    let mut next = receiver.blocking_recv();
    while let Some(item) = next.take() {
        let (mut lines, mut batch, mut flushed) = (Vec::new(), Vec::new(), None);
        let mut item = Some(item);
        while let Some(taken) = item.take() {
            match taken {
                Item::Event(event) => {
                    lines.extend_from_slice(&event.text);
                    batch.push(event);
                }
                Item::Flush(sender) => {
                    flushed = Some(sender);
                    break;
                }
            }
            if lines.len() < WRITE {
                item = receiver.try_recv().ok();
            }
        }
        write(&mut output, &lines, batch, counters);
        if let Some(flushed) = flushed {
            // The waiting side may be gone.
            let _ = flushed.send(());
        }
        next = receiver.blocking_recv();
    }
}

fn write(output: &mut Output, lines: &[u8], batch: Vec<Queued>, counters: &Counters) {
    if batch.is_empty() {
        return;
    }
    let result = output.write(lines);
    if let Err(error) = &result {
        counters.error(Plugin::Log, batch.len(), &error.to_string());
    }
    batch.into_iter().for_each(|event| event.finish(result.is_ok()));
}
