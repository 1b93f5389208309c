//! A revisioned, watchable key-value store.
//!
//! Everything the API server keeps lives behind the [`Store`] trait: ordered keys, opaque values, one strictly
//! increasing sequence of revisions, compare-and-swap writes, and watches that miss nothing. The trait is small enough
//! that etcd fits it as well as a map in memory: a revision is known only after its commit, a watch may be cut at any
//! time, and somebody else may compact.

pub mod conformance;
pub mod embedded;
mod history;
mod log;
pub mod memory;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;

pub use self::{
    embedded::{EmbeddedOptions, EmbeddedStore},
    log::Retention,
    memory::MemoryStore,
};

/// A point in the store's history. Every successful write has one of its own, larger than all before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision of a store that was never written. As in etcd it is not zero: clients give zero a meaning of its own.
    pub const INITIAL: Self = Self(1);

    /// The revision of the write after this one.
    fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Checks that history can still, and already, be read from this revision on.
    fn within(self, oldest: Self, current: Self) -> Result<(), Error> {
        if self > current {
            return Err(Error::Future { requested: self, current });
        }
        if self < oldest {
            return Err(Error::Compacted { requested: self, oldest });
        }
        Ok(())
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A key with its value and the revision of the write that made it so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Arc<str>,
    /// The value, as it was written.
    pub value: Bytes,
    /// The revision of the last write of this key.
    pub revision: Revision,
}

/// What to list.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    /// Only keys that start with this.
    pub prefix: String,
    /// Only keys strictly after this one.
    pub after: Option<String>,
    /// At most this many entries; `None` for all.
    pub limit: Option<usize>,
    /// The state as of this revision; `None` for the newest.
    pub at: Option<Revision>,
}

/// An answer to a list: entries in key order, all as of one revision.
#[derive(Debug, Clone)]
pub struct Page {
    /// The entries, ordered by key.
    pub entries: Vec<Entry>,
    /// The revision the entries are the state of: `at` if it was given, else the newest.
    pub revision: Revision,
    /// Keys of the range that are left after the last entry.
    pub remaining: usize,
}

/// One write, as a watch tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The key that was written.
    pub key: Arc<str>,
    /// The revision of the write.
    pub revision: Revision,
    /// The new value; `None` when the key was deleted.
    pub value: Option<Bytes>,
}

/// Consecutive events of a watch.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Events in revision order; may be empty when only time has passed.
    pub events: Vec<Event>,
    /// Every event of the watch's prefix up to and including this revision has now been delivered.
    pub revision: Revision,
}

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Create of a key that exists.
    #[error("key {key:?} exists already")]
    Exists {
        /// The key.
        key: String,
    },
    /// Update or delete of a key that is not there.
    #[error("key {key:?} does not exist")]
    NotFound {
        /// The key.
        key: String,
    },
    /// Update or delete of a key that somebody else wrote since.
    #[error("key {key:?} is at revision {actual}, not {expected}")]
    Conflict {
        /// The key.
        key: String,
        /// The revision the writer had seen.
        expected: Revision,
        /// The revision the key is at.
        actual: Revision,
    },
    /// The revision asked for has been compacted away.
    #[error("revision {requested} has been compacted; the oldest kept is {oldest}")]
    Compacted {
        /// The revision that was asked for.
        requested: Revision,
        /// The oldest revision that a list or watch may start from.
        oldest: Revision,
    },
    /// The revision asked for lies in the future.
    #[error("revision {requested} lies in the future; the newest is {current}")]
    Future {
        /// The revision that was asked for.
        requested: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// A write could not be made durable, now or earlier: writes are refused until the store is reopened.
    #[error("the store refuses writes after an I/O error: {cause}")]
    Poisoned {
        /// What went wrong first.
        cause: String,
    },
    /// The storage below failed.
    #[error("storage failed: {cause}")]
    Storage {
        /// What it said.
        cause: String,
    },
    /// The data folder is in use by another process.
    #[error("{path} is in use by another process")]
    Locked {
        /// The file or folder.
        path: String,
    },
    /// The watch cannot go on (cut off by the backend, or the store was closed); list again and watch anew.
    #[error("the watch was cut off")]
    WatchCut,
}

/// A running watch.
#[async_trait]
pub trait Watch: Send {
    /// Waits for the next events. Cancel-safe. After an error the watch is over.
    ///
    /// Every event of the prefix after the starting revision is delivered exactly once and in order, or the watch
    /// fails with [`Error::Compacted`] or [`Error::WatchCut`].
    async fn next(&mut self) -> Result<Batch, Error>;
}

/// A revisioned, watchable key-value store.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The newest revision: at least that of every write acknowledged before the call.
    async fn revision(&self) -> Result<Revision, Error>;

    /// The entry of a key, at least as new as every write acknowledged before the call.
    async fn get(&self, key: &str) -> Result<Option<Entry>, Error>;

    /// Entries in key order, a consistent snapshot of one revision.
    async fn list(&self, options: ListOptions) -> Result<Page, Error>;

    /// Writes a key that must not exist. Durable, where the backend is, before it returns.
    async fn create(&self, key: &str, value: Bytes) -> Result<Revision, Error>;

    /// Replaces the value of a key whose last write must be `expected`. Durable before it returns.
    async fn update(&self, key: &str, expected: Revision, value: Bytes) -> Result<Revision, Error>;

    /// Deletes a key whose last write must be `expected`. Durable before it returns.
    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error>;

    /// Watches all keys of a prefix for events later than `after`.
    async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error>;

    /// Forgets history: lists `at` and watches `after` a revision below `revision` may fail from now on.
    /// The newest state is never touched.
    async fn compact(&self, revision: Revision) -> Result<(), Error>;
}
