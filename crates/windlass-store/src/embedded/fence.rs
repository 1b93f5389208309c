//! Fence around the storage: after the first failed write, nothing more reaches the storage.
//!
//! Once its storage has failed, redb answers everything with an error, including reads of intact pages. The store
//! promises more: reads continue. So the fence records the failure for the writer thread to find after its commit,
//! holds back this write and all later ones, and reports success to redb. The storage stays in the state it had at the
//! failure, which is equivalent to a crash at that moment and is recovered in the same way. Data that redb then
//! considers committed is never visible: the writer thread opens no further transaction, and reads stay on the last
//! durable snapshot, whose pages redb cannot reuse while the snapshot is held.
//!
//! # Going back to the last durable commit
//!
//! redb changes only its header in place, and writes everything else to pages that the last durable commit does not use.
//! [`Health::restore`] therefore undoes the failed transaction by writing the header of the last successful `fsync`
//! again. This also makes a failed `fsync` harmless: afterwards the operating system may take pages for written that
//! never reached the disk, but none of these belongs to the restored commit, and later ones write them again.
//!
//! Before that, it attempts the held-back writes. They land in unused pages, and show that there is space again.
//!
//! # Creating a file
//!
//! The fence also makes creating a file safe to interrupt: redb allocates space, writes a header, syncs, and only then
//! writes the magic number, but rejects a file in which it did not get that far.

use std::{
    fmt, io,
    ops::Bound,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use redb::{BackendError, StorageBackend};

use super::progress::Opening;

/// Maximum size of a file that redb has not finished creating (such a file has slightly more than a megabyte).
const UNFINISHED_AT_MOST: u64 = 4 << 20;

/// Maximum end of the first page's header; everything after it is zero until the magic number is written.
const HEADER: usize = 512;

/// Length of the magic number at the start of the file.
const MAGIC: usize = 9;

/// A write that failed.
#[derive(Debug, Clone)]
pub(super) struct WriteFailure {
    /// The operation and its error.
    pub(super) cause: String,
    /// Whether more space would have prevented it.
    pub(super) for_want_of_space: bool,
}

impl WriteFailure {
    pub(super) fn new(what: &str, error: &io::Error) -> Self {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let for_want_of_space = matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge);
        Self { cause: format!("{what}: {error}"), for_want_of_space }
    }
}

/// Records whether a write to the storage has failed, and what is needed to recover from it.
#[derive(Debug, Default)]
pub(super) struct Health {
    armed: AtomicBool,
    failure: OnceLock<WriteFailure>,
    held_back: Mutex<HeldBack>,
    header: Mutex<Header>,
}

/// Data that redb has written since the failure: at most the rest of one transaction and a clean close.
#[derive(Debug, Default)]
struct HeldBack {
    writes: Vec<(u64, Vec<u8>)>,
    len: Option<u64>,
}

/// The first bytes of the storage, as last written and as of the last successful `fsync`.
#[derive(Debug, Default)]
struct Header {
    written: Vec<u8>,
    durable: Vec<u8>,
}

impl Health {
    /// From now on failed writes are recorded here; before (while a file is being opened) they are reported directly.
    pub(super) fn arm(&self, storage: &dyn StorageBackend) -> io::Result<()> {
        storage.sync_data()?;
        let mut header = vec![0; HEADER];
        storage.read(0, &mut header)?;
        *self.header.lock() = Header { written: header.clone(), durable: header };
        self.armed.store(true, Ordering::Release);
        Ok(())
    }

    /// Returns the first failed write.
    pub(super) fn failure(&self) -> Option<&WriteFailure> {
        self.failure.get()
    }

    /// Holds back all writes from now on, even if none has failed. Returns the first failure.
    pub(super) fn shut(&self, cause: String) -> &WriteFailure {
        self.failure.get_or_init(|| WriteFailure { cause, for_want_of_space: false })
    }

    /// Brings the storage back to its last durable commit. Fails if the storage still cannot be written.
    pub(super) fn restore(&self, storage: &dyn StorageBackend) -> Result<(), WriteFailure> {
        let held_back = self.held_back.lock();
        let failed = |what: &'static str| move |error: io::Error| WriteFailure::new(what, &error);
        if let Some(len) = held_back.len
            && len > storage.len().map_err(failed("stat"))?
        {
            storage.set_len(len).map_err(failed("resize"))?;
        }
        for (offset, data) in held_back.writes.iter().filter(|(offset, _)| *offset >= HEADER as u64) {
            storage.write(*offset, data).map_err(failed("write"))?;
        }
        storage.write(0, &self.header.lock().durable).map_err(failed("write"))?;
        storage.sync_data().map_err(failed("fsync"))
    }

    fn wrote(&self, offset: u64, data: &[u8]) {
        if offset < HEADER as u64 && self.armed.load(Ordering::Acquire) {
            overlay(&mut self.header.lock().written, 0, data, offset);
        }
    }

    fn synced(&self) {
        if self.armed.load(Ordering::Acquire) {
            let header = &mut *self.header.lock();
            header.durable.copy_from_slice(&header.written);
        }
    }
}

/// The storage as redb sees it.
pub(super) struct Fence {
    storage: Arc<dyn StorageBackend>,
    health: Arc<Health>,
    examined: AtomicBool,
    locks: Locks,
    opening: Arc<Opening>,
}

/// Whether a fence locks its storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Locks {
    /// It acquires the locks, which the storage holds until it is closed.
    Acquire,
    /// An earlier fence around the same storage has acquired them.
    Held,
}

impl Fence {
    pub(super) fn new(
        storage: Arc<dyn StorageBackend>,
        health: Arc<Health>,
        locks: Locks,
        opening: Arc<Opening>,
    ) -> Self {
        Self { storage, health, examined: AtomicBool::new(false), locks, opening }
    }

    /// Empties a file whose creation was interrupted: one without a magic number and without any data.
    fn discard_unfinished(&self) -> io::Result<()> {
        let len = self.storage.len()?;
        let Some(size) = usize::try_from(len).ok().filter(|_| (1..=UNFINISHED_AT_MOST).contains(&len)) else {
            return Ok(());
        };
        let mut found = vec![0; size.min(MAGIC)];
        self.storage.read(0, &mut found)?;
        if found.iter().any(|byte| *byte != 0) {
            return Ok(());
        }
        found.resize(size, 0);
        self.storage.read(0, &mut found)?;
        if found.iter().skip(HEADER).all(|byte| *byte == 0) {
            self.storage.set_len(0)?;
        }
        Ok(())
    }

    /// Passes a write on, unless one has failed; returns whether it must be held back.
    fn attempt(&self, what: &str, write: impl FnOnce() -> io::Result<()>) -> io::Result<bool> {
        if self.health.failure().is_some() {
            return Ok(true);
        }
        match write() {
            Ok(()) => Ok(false),
            Err(error) if self.health.armed.load(Ordering::Acquire) => {
                self.health.failure.get_or_init(|| WriteFailure::new(what, &error));
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence").field("health", &self.health).finish_non_exhaustive()
    }
}

impl StorageBackend for Fence {
    fn len(&self) -> io::Result<u64> {
        // This is redb's first call once it has the lock.
        if !self.examined.swap(true, Ordering::AcqRel) {
            self.discard_unfinished()?;
        }
        match self.health.held_back.lock().len {
            Some(len) => Ok(len),
            None => self.storage.len(),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if self.health.failure().is_none() {
            if !self.health.armed.load(Ordering::Acquire) {
                self.opening.read(out.len());
            }
            return self.storage.read(offset, out);
        }
        let held_back = self.health.held_back.lock();
        if held_back.len.is_none() {
            self.storage.read(offset, out)?;
        } else {
            // The storage may be shorter than redb believes.
            let there = self.storage.len()?.saturating_sub(offset).min(out.len() as u64);
            let (there, missing) = out.split_at_mut(usize::try_from(there).unwrap_or(usize::MAX));
            if !there.is_empty() {
                self.storage.read(offset, there)?;
            }
            missing.fill(0);
        }
        for (start, data) in &held_back.writes {
            overlay(out, offset, data, *start);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.attempt("resize", || self.storage.set_len(len))? {
            self.health.held_back.lock().len = Some(len);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        if !self.attempt("fsync", || self.storage.sync_data())? {
            self.health.synced();
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.attempt("write", || self.storage.write(offset, data))? {
            self.health.held_back.lock().writes.push((offset, data.to_vec()));
        } else {
            self.health.wrote(offset, data);
        }
        Ok(())
    }

    /// Does not close the storage, which may have to outlive this database: the writer thread does that.
    fn close(&self) -> io::Result<()> {
        *self.health.held_back.lock() = HeldBack::default();
        Ok(())
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        match self.locks {
            Locks::Acquire => self.storage.try_lock_range(start, end),
            Locks::Held => Ok(true),
        }
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.storage.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        match self.locks {
            Locks::Acquire => self.storage.unlock_range(start, end),
            Locks::Held => Ok(()),
        }
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.storage.query_lock_range(start, end)
    }
}

/// Copies the part of `data` (located at `start`) that overlaps `out` (located at `offset`).
fn overlay(out: &mut [u8], offset: u64, data: &[u8], start: u64) {
    let from = start.max(offset);
    let to = (start + data.len() as u64).min(offset + out.len() as u64);
    if from < to {
        let within = |position: u64, base: u64| usize::try_from(position - base).expect("a slice must fit in memory");
        out[within(from, offset)..within(to, offset)].copy_from_slice(&data[within(from, start)..within(to, start)]);
    }
}

#[cfg(test)]
mod tests {
    use super::overlay;

    #[test]
    fn an_overlay_covers_only_what_it_shares_with_the_read() {
        for (start, expected) in [(0, "....."), (4, "cde.."), (7, ".abcd"), (6, "abcde"), (10, "....a"), (11, ".....")]
        {
            let mut out = *b".....";
            // The read covers five bytes at offset 6.
            overlay(&mut out, 6, b"abcde", start);
            assert_eq!(std::str::from_utf8(&out), Ok(expected), "written at {start}");
        }
    }
}
