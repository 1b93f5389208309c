//! Container logs: one file per run, in the CRI log format.
//!
//! A line consists of the time, the stream, `F` for a full or `P` for a partial line, and the text. A file that has
//! grown too large is rotated; one older file is kept.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use jiff::{Timestamp, fmt::temporal::DateTimePrinter};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::{broadcast, watch},
};
use windlass_apiserver::{body::Chunks, pod_connections::LogOptions};

use super::{create_directory, create_file};

/// Size at which a log is rotated.
const ROTATE_AT: u64 = 10 << 20;
/// Longest line that is kept in one piece.
const LINE_MAX: usize = 16 << 10;
/// Size of a read from a file.
const PIECE: usize = 64 << 10;

/// The output stream of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// The progress of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Bytes in the current file.
    written: u64,
    /// Number of rotations.
    rotations: u64,
    /// Whether the log is complete.
    closed: bool,
}

/// A log that is being written.
pub(super) struct Log {
    path: PathBuf,
    file: Mutex<File>,
    progress: watch::Sender<Progress>,
    rotate_at: u64,
}

impl Log {
    /// Creates a log, replacing one with the same name.
    pub(super) fn create(path: &Path) -> io::Result<Arc<Self>> {
        Self::rotating(path, ROTATE_AT)
    }

    fn rotating(path: &Path, rotate_at: u64) -> io::Result<Arc<Self>> {
        if let Some(parent) = path.parent() {
            create_directory(parent)?;
        }
        let _ = fs::remove_file(older(path));
        let file = Mutex::new(create_file(path)?);
        Ok(Arc::new(Self { path: path.to_owned(), file, progress: watch::Sender::default(), rotate_at }))
    }

    fn append(&self, stream: Stream, text: &[u8], whole: bool) -> io::Result<()> {
        let name = if stream == Stream::Stdout { "stdout" } else { "stderr" };
        let time = DateTimePrinter::new().precision(Some(9)).timestamp_to_string(&windlass_clock::now());
        let mut line = format!("{time} {name} {} ", if whole { 'F' } else { 'P' }).into_bytes();
        line.extend_from_slice(text);
        line.push(b'\n');
        let mut file = self.file.lock();
        let Progress { written, rotations, closed } = *self.progress.borrow();
        let rotates = written > self.rotate_at;
        if rotates {
            fs::rename(&self.path, older(&self.path))?;
            *file = create_file(&self.path)?;
        }
        file.write_all(&line)?;
        let written = if rotates { 0 } else { written } + line.len() as u64;
        self.progress.send_replace(Progress { written, rotations: rotations + u64::from(rotates), closed });
        Ok(())
    }

    /// Marks the log as complete.
    pub(super) fn close(&self) {
        self.progress.send_modify(|progress| progress.closed = true);
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }
}

/// The rotated file of a log.
fn older(path: &Path) -> PathBuf {
    path.with_extension("log.1")
}

/// Copies the output of a process to its log and to attached clients, until the output ends.
pub(super) async fn pump(
    mut from: impl AsyncRead + Unpin,
    stream: Stream,
    log: Arc<Log>,
    attached: broadcast::Sender<(Stream, Bytes)>,
) {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(4096);
        let before = buffer.len();
        // Reading a terminal whose other side is closed is an error.
        let ended = matches!(from.read_buf(&mut buffer).await, Ok(0) | Err(_));
        if buffer.len() > before && attached.receiver_count() > 0 {
            let _ = attached.send((stream, Bytes::copy_from_slice(&buffer[before..])));
        }
        while let Some((text, whole)) = next_line(&mut buffer, ended) {
            if let Err(error) = log.append(stream, &text, whole) {
                tracing::warn!(%error, path = %log.path.display(), "failed to write a container log");
            }
        }
        if ended {
            return;
        }
    }
}

/// Takes a line off the buffer, or a part of one that is too long. An incomplete line is returned only at the end.
fn next_line(buffer: &mut BytesMut, ended: bool) -> Option<(BytesMut, bool)> {
    match buffer.iter().take(LINE_MAX).position(|byte| *byte == b'\n') {
        Some(at) => {
            let mut line = buffer.split_to(at + 1);
            line.truncate(at);
            Some((line, true))
        }
        None if buffer.len() >= LINE_MAX => Some((buffer.split_to(LINE_MAX), false)),
        None if ended && !buffer.is_empty() => Some((buffer.split(), false)),
        None => None,
    }
}

/// An entry of a log file.
#[derive(Debug, PartialEq, Eq)]
struct Entry<'a> {
    time: &'a str,
    whole: bool,
    text: &'a [u8],
}

fn parse(line: &[u8]) -> Option<Entry<'_>> {
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let time = std::str::from_utf8(parts.next()?).ok()?;
    parts.next()?;
    let whole = parts.next()? == b"F";
    Some(Entry { time, whole, text: parts.next()? })
}

/// Selects and formats the entries for a client.
struct Selection {
    options: LogOptions,
    left: u64,
    /// Whether the next entry starts a line.
    at_beginning: bool,
}

impl Selection {
    fn new(options: LogOptions) -> Self {
        Self { left: options.limit_bytes.unwrap_or(u64::MAX), options, at_beginning: true }
    }

    fn wants(&self, entry: &Entry<'_>) -> bool {
        let Some(since) = self.options.since else { return true };
        entry.time.parse::<Timestamp>().is_ok_and(|time| time >= since)
    }

    fn show(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        if self.options.timestamps && self.at_beginning {
            out.extend_from_slice(entry.time.as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(entry.text);
        if entry.whole {
            out.push(b'\n');
        }
        self.at_beginning = entry.whole;
        let added = (out.len() - start) as u64;
        let kept = added.min(self.left);
        out.truncate(start + kept as usize);
        self.left -= kept;
    }
}

/// Streams the requested part of a log. With `progress`, later output follows.
pub(super) fn read(path: PathBuf, options: LogOptions, progress: Option<watch::Receiver<Progress>>) -> Chunks {
    let follow = options.follow.then_some(progress).flatten();
    let state = Reading {
        path,
        selection: Selection::new(options),
        follow,
        file: None,
        rotations: 0,
        rest: Vec::new(),
        begun: false,
    };
    Box::pin(stream::unfold(state, async |mut reading| {
        let bytes = reading.next().await?;
        Some((Bytes::from(bytes), reading))
    }))
}

struct Reading {
    path: PathBuf,
    selection: Selection,
    follow: Option<watch::Receiver<Progress>>,
    file: Option<File>,
    rotations: u64,
    /// An entry that is not complete yet.
    rest: Vec<u8>,
    begun: bool,
}

impl Reading {
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if self.selection.left == 0 {
                return None;
            }
            let out = if self.begun { self.more().ok()? } else { self.beginning().ok()? };
            self.begun = true;
            if !out.is_empty() {
                return Some(out);
            }
            let follow = self.follow.as_mut()?;
            if follow.borrow().closed {
                // Output between the last read and the end.
                let rest = self.more().ok()?;
                self.follow = None;
                return (!rest.is_empty()).then_some(rest);
            }
            let _ = follow.changed().await;
        }
    }

    /// The contents when reading starts.
    fn beginning(&mut self) -> io::Result<Vec<u8>> {
        if let Some(follow) = &mut self.follow {
            self.rotations = follow.borrow_and_update().rotations;
        }
        let mut all = fs::read(older(&self.path)).unwrap_or_default();
        let mut file = File::open(&self.path)?;
        file.read_to_end(&mut all)?;
        self.file = Some(file);
        let end = all.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.rest = all.split_off(end);
        let entries = all.split(|byte| *byte == b'\n').filter_map(parse).filter(|entry| self.selection.wants(entry));
        let chosen: VecDeque<Entry<'_>> = match self.selection.options.tail_lines {
            None => entries.collect(),
            Some(most) => last_lines(entries, most),
        };
        let mut out = Vec::new();
        chosen.iter().for_each(|entry| self.selection.show(entry, &mut out));
        Ok(out)
    }

    /// The contents added since.
    fn more(&mut self) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let Some(file) = &mut self.file else { return Ok(out) };
        let now = self.follow.as_mut().map_or(self.rotations, |follow| follow.borrow_and_update().rotations);
        let start = self.rest.len();
        self.rest.reserve(PIECE);
        file.take(PIECE as u64).read_to_end(&mut self.rest)?;
        if self.rest.len() == start && now != self.rotations {
            // The rotated file is read to its end.
            self.rotations = now;
            self.file = Some(File::open(&self.path)?);
            return self.more();
        }
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let entries: Vec<u8> = self.rest.drain(..end).collect();
        for entry in entries.split(|byte| *byte == b'\n').filter_map(parse) {
            if self.selection.wants(&entry) {
                self.selection.show(&entry, &mut out);
            }
        }
        // Everything read so far may have been filtered out.
        if out.is_empty() && end > 0 { self.more() } else { Ok(out) }
    }
}

/// Returns the entries of the last lines. A partial line at the end counts as one.
fn last_lines<'a>(entries: impl Iterator<Item = Entry<'a>>, most: usize) -> VecDeque<Entry<'a>> {
    let mut kept = VecDeque::new();
    let (mut lines, mut open) = (0, false);
    for entry in entries {
        lines += usize::from(!open);
        open = !entry.whole;
        kept.push_back(entry);
        while lines > most {
            // Drop the entries of the first line.
            while kept.pop_front().is_some_and(|entry| !entry.whole) {}
            lines -= 1;
        }
    }
    kept
}

/// The end of a log, for use as a termination message.
pub(super) fn last_words(path: &Path) -> String {
    const BYTES: usize = 2048;
    const LINES: usize = 80;
    let mut text = Vec::new();
    if let Ok(mut file) = File::open(path) {
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        let _ = file.seek(SeekFrom::Start(length.saturating_sub(4 * BYTES as u64)));
        let _ = file.read_to_end(&mut text);
    }
    let mut selection = Selection::new(LogOptions::default());
    let mut out = Vec::new();
    for entry in last_lines(text.split(|byte| *byte == b'\n').filter_map(parse), LINES) {
        selection.show(&entry, &mut out);
    }
    let from = out.len().saturating_sub(BYTES);
    String::from_utf8_lossy(&out[from..]).into_owned()
}

#[cfg(test)]
mod tests;
