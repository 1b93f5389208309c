//! A revisioned, watchable key-value store.
//!
//! The API server keeps all of its state behind the [`Store`] trait: ordered keys, opaque values, a single strictly
//! increasing sequence of revisions, compare-and-swap writes, and watches that miss no event. The trait is small enough
//! to fit etcd as well as an in-memory map: a revision is known only after its commit, a watch may be interrupted at
//! any time, and other clients may compact the history.

pub mod conformance;
pub mod embedded;
mod history;
mod log;
pub mod memory;
pub mod snapshot;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;

use self::snapshot::{Listed, SnapshotReader};
pub use self::{
    embedded::{EmbeddedOptions, EmbeddedStore, Retry},
    log::Retention,
    memory::MemoryStore,
};

/// A point in the store's history. Every successful write through this crate has its own revision, larger than all
/// earlier ones; a shared backend may let others write several keys at one revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision of an empty, never written store. As in etcd it is not zero, because clients give zero a special
    /// meaning.
    pub const INITIAL: Self = Self(1);

    /// The revision of the write after this one.
    fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Checks that the history from this revision on is available: neither compacted nor in the future.
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

/// A key with its value and the revision of its last write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Arc<str>,
    /// The value, as it was written.
    pub value: Bytes,
    /// The revision of the last write of this key.
    pub revision: Revision,
}

/// Selects the entries to list.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    /// Return only keys that start with this prefix.
    pub prefix: String,
    /// Return only keys strictly after this one.
    pub after: Option<String>,
    /// Return at most this many entries; `None` returns all.
    pub limit: Option<usize>,
    /// Return the state as of this revision; `None` returns the newest.
    pub at: Option<Revision>,
    /// Count the matching keys after the last entry, which costs as much as listing them.
    pub count: bool,
}

/// Result of a list: entries in key order, all as of one revision.
#[derive(Debug, Clone)]
pub struct Page {
    /// The entries, ordered by key.
    pub entries: Vec<Entry>,
    /// The revision of this state: `at` if it was given, otherwise the newest.
    pub revision: Revision,
    /// Number of matching keys after the last entry; without [`ListOptions::count`], 1 stands for any number of them.
    pub remaining: usize,
}

/// A write, as delivered by a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The key that was written.
    pub key: Arc<str>,
    /// The revision of the write.
    pub revision: Revision,
    /// The new value; `None` if the key was deleted.
    pub value: Option<Bytes>,
}

/// Consecutive events of a watch.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Events in revision order; empty if the batch only reports progress. All events of a revision are in one batch.
    pub events: Vec<Event>,
    /// Every event of the watch's prefix up to and including this revision has now been delivered.
    pub revision: Revision,
}

/// Error of a store operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Create of an existing key.
    #[error("key {key:?} exists already")]
    Exists {
        /// The key.
        key: String,
    },
    /// Update or delete of a key that does not exist.
    #[error("key {key:?} does not exist")]
    NotFound {
        /// The key.
        key: String,
    },
    /// Update or delete of a key that was written since the expected revision.
    #[error("key {key:?} is at revision {actual}, not {expected}")]
    Conflict {
        /// The key.
        key: String,
        /// The revision the writer expected.
        expected: Revision,
        /// The current revision of the key.
        actual: Revision,
    },
    /// The requested revision has been compacted.
    #[error("revision {requested} has been compacted; the oldest available revision is {oldest}")]
    Compacted {
        /// The requested revision.
        requested: Revision,
        /// The oldest revision that a list or watch may start from.
        oldest: Revision,
    },
    /// The requested revision is in the future.
    #[error("revision {requested} is in the future; the newest is {current}")]
    Future {
        /// The requested revision.
        requested: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// A write could not be made durable, now or earlier: writes are rejected until the store has recovered.
    #[error("the store rejects writes after an I/O error: {cause}")]
    Poisoned {
        /// The first error.
        cause: String,
    },
    /// The store's quota is used up. Deletes are still accepted. The text is etcd's, which clients know.
    #[error("etcdserver: mvcc: database space exceeded")]
    NoSpace,
    /// The value is too large for the store.
    #[error("{cause}")]
    TooLarge {
        /// The error of the backend, which clients know.
        cause: String,
    },
    /// The backend does not respond at present. Nothing was written.
    #[error("{cause}")]
    Unavailable {
        /// The error of the backend, which clients know.
        cause: String,
    },
    /// It is unknown whether a write took effect or will: the backend has not responded, and the state of the key does
    /// not tell.
    #[error("{cause} (the write may have been carried out)")]
    Unknown {
        /// The error of the backend, which clients know.
        cause: String,
    },
    /// The store cannot be used until the program is started again.
    #[error("the store has failed: {cause}")]
    Failed {
        /// Reason why it cannot recover.
        cause: String,
    },
    /// The underlying storage failed.
    #[error("storage failed: {cause}")]
    Storage {
        /// The error of the storage.
        cause: String,
    },
    /// The data directory is in use by another process.
    #[error("{path} is in use by another process")]
    Locked {
        /// The file or directory.
        path: String,
    },
    /// The watch cannot continue (interrupted by the backend, or the store was closed); list and watch again.
    #[error("the watch was interrupted")]
    WatchInterrupted,
}

/// Sizes of a store, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Size of the file; zero if the store has none.
    pub file: u64,
    /// Size of all keys and values, including the history that has not been compacted yet.
    pub in_use: u64,
    /// Limit of `in_use`; `None` if there is none.
    pub quota: Option<u64>,
    /// Number of bytes by which the file can still grow, according to the file system and the limits of the process.
    pub available: Option<u64>,
}

/// A running watch.
#[async_trait]
pub trait Watch: Send {
    /// Waits for the next events. Cancel-safe. The watch ends after an error.
    ///
    /// Every event of the prefix after the starting revision is delivered exactly once and in order, or the watch
    /// fails with [`Error::Compacted`] or [`Error::WatchInterrupted`].
    async fn next(&mut self) -> Result<Batch, Error>;
}

/// A revisioned, watchable key-value store.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Returns the newest revision: at least that of every write acknowledged before the call.
    async fn revision(&self) -> Result<Revision, Error>;

    /// Returns what [`Store::revision`] would return; `None` if the backend has to wait for it.
    fn known_revision(&self) -> Option<Revision> {
        None
    }

    /// Returns the entry of a key, at least as new as every write acknowledged before the call.
    async fn get(&self, key: &str) -> Result<Option<Entry>, Error>;

    /// Returns entries in key order, as a consistent snapshot at one revision.
    async fn list(&self, options: ListOptions) -> Result<Page, Error>;

    /// Creates a key that must not exist. If the backend is durable, so is the write when this returns.
    async fn create(&self, key: &str, value: Bytes) -> Result<Revision, Error>;

    /// Replaces the value of a key whose last write must have revision `expected`. Durable like `create`.
    async fn update(&self, key: &str, expected: Revision, value: Bytes) -> Result<Revision, Error>;

    /// Deletes a key whose last write must have revision `expected`. Durable like `create`.
    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error>;

    /// Replaces the value of a key, as `update` does, and then deletes the key. Watches get both events; returns the
    /// revision of the second.
    ///
    /// The backends of this crate do both in one transaction, so that neither happens without the other and no reader
    /// sees the key in between. A backend that cannot does two writes.
    async fn update_and_delete(&self, key: &str, expected: Revision, last: Bytes) -> Result<Revision, Error> {
        let updated = self.update(key, expected, last).await?;
        self.delete(key, updated).await
    }

    /// Watches all keys with a prefix for events later than `after`.
    async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error>;

    /// Discards history: lists `at` and watches `after` a revision below `revision` may fail from now on. The newest
    /// state is never touched.
    async fn compact(&self, revision: Revision) -> Result<(), Error>;

    /// Returns the newest state, to be read piece by piece while writes go on.
    async fn snapshot(&self) -> Result<Box<dyn SnapshotReader>, Error> {
        Ok(Box::new(Listed::new(self.list(ListOptions::default()).await?)))
    }

    /// Returns whether other API servers may write to the store as well.
    fn is_shared(&self) -> bool {
        false
    }

    /// Returns an error if the store cannot accept writes at present.
    fn health(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Resolves, to the reason, if the store cannot be used until the program is started again.
    async fn failed(&self) -> Error {
        std::future::pending().await
    }

    /// Returns the sizes of the store.
    fn usage(&self) -> Usage {
        Usage::default()
    }
}
