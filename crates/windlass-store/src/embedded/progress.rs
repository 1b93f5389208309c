//! Progress of opening a file, in the log once per second: after a crash redb reads the whole file, twice.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Instant,
};

/// Progress of opening a file.
#[derive(Debug)]
pub(super) struct Opening {
    file: String,
    start: Instant,
    /// Number of bytes read so far.
    read: AtomicU64,
    /// Number of whole seconds after the start at which progress was last reported.
    reported: AtomicU64,
    after_crash: AtomicBool,
}

impl Opening {
    pub(super) fn new(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            start: Instant::now(),
            read: AtomicU64::new(0),
            reported: AtomicU64::new(0),
            after_crash: AtomicBool::new(false),
        }
    }

    /// Records that redb checks the file because it was not closed.
    pub(super) fn checks(&self) {
        if !self.after_crash.swap(true, Ordering::Relaxed) {
            tracing::info!(file = self.file, "checking the store file after a crash");
        }
    }

    /// Counts bytes that were read.
    pub(super) fn read(&self, bytes: usize) {
        let read = self.read.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        let elapsed = self.start.elapsed();
        if self.reported.fetch_max(elapsed.as_secs(), Ordering::Relaxed) < elapsed.as_secs() {
            let after_crash = self.after_crash.load(Ordering::Relaxed);
            tracing::info!(file = self.file, read_bytes = read, after_crash, ?elapsed, "opening the store file");
        }
    }

    /// Reports how long it took, if it took more than a second or followed a crash.
    pub(super) fn done(&self) {
        let (read, after_crash) = (self.read.load(Ordering::Relaxed), self.after_crash.load(Ordering::Relaxed));
        if after_crash || self.reported.load(Ordering::Relaxed) > 0 {
            let elapsed = self.start.elapsed();
            tracing::info!(file = self.file, read_bytes = read, after_crash, ?elapsed, "opened the store file");
        }
    }
}
