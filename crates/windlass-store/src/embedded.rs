//! A durable store in one file, on [redb](https://docs.rs/redb).
//!
//! # Guarantees
//!
//! - **Durable**: a write is acknowledged after the `fsync` of the transaction that holds it. Writers that wait at the
//!   same time share one transaction and one `fsync` (group commit).
//! - **Atomic**: after a crash the file holds every acknowledged write in full, and a prefix, in revision order, of the
//!   writes still in progress. A revision is stored in the transaction of its write, so revisions never go back.
//! - **Only durable writes are visible**: reads and watches see a write only once it is durable.
//! - **Fail-stop**: the first write or `fsync` that fails, and every write after it, returns [`Error::Poisoned`]; reads
//!   and watches continue with the last durable state. Reopening the file recovers from the error. A write that failed
//!   this way may or may not be present afterwards, like one whose response was lost. After a failed `fsync`, the
//!   operating system's page cache cannot be told apart from the contents of the disk, so restarting the machine is
//!   safer than only reopening the file.
//! - **Single process**: a second open of the same file fails with [`Error::Locked`].
//! - A write whose future is dropped while it waits may still take effect.
//!
//! # Layout
//!
//! As in etcd, the tables are ordered by revision and the key index is kept in memory, so writes only append: a
//! transaction of 32 writes touches the right edge of two trees, not 32 places in one.
//!
//! | table    | key            | value                                                                              |
//! |----------|----------------|------------------------------------------------------------------------------------|
//! | `meta`   | name           | `format` (1), `compacted` and `swept` (revisions), each a `u64`                       |
//! | `log`    | revision `u64` | one byte (0: written, 1: deleted), then the key in UTF-8                             |
//! | `values` | revision `u64` | the value, as it was handed in; none for a deletion                                  |
//!
//! The store's revision is the larger of the last key of `log` and `compacted`. Opening the file reads `log` (not
//! `values`) and builds the index, which uses about 150 bytes of memory per key. After a crash redb first checks the
//! whole file: the alternative, its quick repair, costs a second `fsync` per commit.
//!
//! Compaction first records `compacted`, then sweeps: for every write up to that revision, in order, it removes the
//! earlier versions of the same key, and the write itself if it deleted the key. It works in small pieces that are
//! added to the transactions of other writers; `swept` records its progress, which survives reopening the file.
//!
//! # Threads
//!
//! One thread owns the database and runs all transactions. A read consults the index, then looks for the value among
//! the newest events, which are kept in memory for watches, and only then in the file, using the read transaction that
//! the writer thread opened after its last commit. Single values are read directly on the caller's thread (one page,
//! nearly always cached); lists of many values, and watches that are far behind, read on tokio's blocking threads.

mod fence;
mod layout;
mod read;
mod writer;

use std::{
    fmt,
    path::Path,
    sync::{Arc, OnceLock},
    thread::JoinHandle,
};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use redb::StorageBackend;
use tokio::sync::{mpsc, oneshot, watch};

use self::{
    layout::Snapshot,
    writer::{Request, Write, Writer},
};
use crate::{
    Entry, Error, Event, ListOptions, Page, Retention, Revision, Store, Watch,
    history::{History, Operation},
    log::EventLog,
};

/// Number of requests that may wait for the writer thread. Each waiting caller has one, so this bounds only callers
/// that do not wait for their response.
const QUEUE: usize = 1024;

/// Memory limits of an [`EmbeddedStore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddedOptions {
    /// Memory for cached pages of the file; 2 MiB by default.
    pub cache_bytes: usize,
    /// Memory for the newest events, which watches read without touching the file; 2,048 events or 1 MiB by default.
    pub recent: Retention,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self { cache_bytes: 2 << 20, recent: Retention { events: 2_048, bytes: 1 << 20 } }
    }
}

/// A durable [`Store`] in one file. See the [module documentation](self) for its guarantees.
///
/// Dropping it ends all watches, waits for the write in progress and releases the file.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    requests: Option<mpsc::Sender<Request>>,
    thread: Option<JoinHandle<()>>,
    changed: watch::Receiver<Revision>,
}

/// State that the writer thread publishes to readers; always durable.
struct Shared {
    state: Mutex<State>,
    /// Cause of the first failed write.
    poison: OnceLock<String>,
}

struct State {
    /// Index of all versions; the values are in the file.
    history: History<()>,
    recent: EventLog,
    revision: Revision,
    compacted: Revision,
    /// The file at `revision`.
    snapshot: Arc<Snapshot>,
}

impl Shared {
    fn poisoned(&self) -> Result<(), Error> {
        match self.poison.get() {
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedStore").field("poison", &self.shared.poison).finish_non_exhaustive()
    }
}

impl EmbeddedStore {
    /// Opens the store in a file, creating the file (readable only by its owner) if it does not exist. Blocks while it
    /// reads the index.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_file(path, EmbeddedOptions::default())
    }

    /// Opens the store in a file, with options.
    pub fn open_file(path: impl AsRef<Path>, options: EmbeddedOptions) -> Result<Self, Error> {
        let path = path.as_ref();
        let backend = layout::open_file(path)?;
        Self::open_named(backend, options, &path.display().to_string())
    }

    /// Opens the store on storage other than a file.
    pub fn open_with(backend: impl StorageBackend, options: EmbeddedOptions) -> Result<Self, Error> {
        Self::open_named(backend, options, "the storage")
    }

    fn open_named(backend: impl StorageBackend, options: EmbeddedOptions, name: &str) -> Result<Self, Error> {
        let opened = layout::open(backend, options.cache_bytes, name)?;
        let (notify, changed) = watch::channel(opened.revision);
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                history: opened.history,
                recent: EventLog::new(options.recent),
                revision: opened.revision,
                compacted: opened.compacted,
                snapshot: Arc::new(opened.snapshot),
            }),
            poison: OnceLock::new(),
        });
        let (requests, queue) = mpsc::channel(QUEUE);
        let writer = Writer::new(opened.database, opened.health, shared.clone(), queue, notify, opened.swept);
        let thread = std::thread::Builder::new()
            .name("windlass-store".into())
            .spawn(move || writer.run())
            .map_err(|error| Error::Storage { cause: error.to_string() })?;
        Ok(Self { shared, requests: Some(requests), thread: Some(thread), changed })
    }

    async fn write(&self, operation: Operation, key: &str, value: Option<Bytes>) -> Result<Revision, Error> {
        let (answer, answered) = oneshot::channel();
        self.request(Request::Write(Write { operation, key: Arc::from(key), value, answer })).await?;
        self.answer(answered).await
    }

    async fn request(&self, request: Request) -> Result<(), Error> {
        self.shared.poisoned()?;
        let requests = self.requests.as_ref().expect("the queue must exist until the store is dropped");
        requests.send(request).await.map_err(|_| self.stopped())
    }

    async fn answer<T>(&self, answered: oneshot::Receiver<Result<T, Error>>) -> Result<T, Error> {
        answered.await.unwrap_or_else(|_| Err(self.stopped()))
    }

    /// Returns the error for a request that the writer thread did not answer.
    fn stopped(&self) -> Error {
        match self.shared.poisoned() {
            Err(error) => error,
            Ok(()) => Error::Poisoned { cause: "the writer thread has stopped".into() },
        }
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the writer thread of the store panicked");
        }
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn revision(&self) -> Result<Revision, Error> {
        Ok(self.shared.state.lock().revision)
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        let (key, revision, snapshot) = {
            let state = self.shared.state.lock();
            let Some((key, revision, ())) = state.history.current(key) else { return Ok(None) };
            if let Some(Event { value: Some(value), .. }) = state.recent.get(revision) {
                return Ok(Some(Entry { key: key.clone(), value: value.clone(), revision }));
            }
            (key.clone(), revision, state.snapshot.clone())
        };
        Ok(Some(Entry { key, value: snapshot.value(revision)?, revision }))
    }

    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        self.shared.list(options).await
    }

    async fn create(&self, key: &str, value: Bytes) -> Result<Revision, Error> {
        self.write(Operation::Create, key, Some(value)).await
    }

    async fn update(&self, key: &str, expected: Revision, value: Bytes) -> Result<Revision, Error> {
        self.write(Operation::Update(expected), key, Some(value)).await
    }

    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error> {
        self.write(Operation::Delete(expected), key, None).await
    }

    async fn update_and_delete(&self, key: &str, expected: Revision, last: Bytes) -> Result<Revision, Error> {
        self.write(Operation::UpdateAndDelete(expected), key, Some(last)).await
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error> {
        let changed = self.changed.clone();
        Ok(Box::new(self.shared.watch(changed, prefix, after)?))
    }

    /// Returns once everything that the compaction frees has been removed. Writers continue in the meantime.
    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        self.request(Request::Compact { revision, answer }).await?;
        self.answer(answered).await
    }
}
