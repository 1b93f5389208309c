//! A durable store in one file, on [redb](https://docs.rs/redb).
//!
//! # Guarantees
//!
//! - **Durable**: a write is acknowledged after the `fsync` of the transaction that holds it. Writers that wait at the
//!   same time share one transaction and one `fsync` (group commit).
//! - **Atomic**: after a crash the file holds every acknowledged write, whole, and of those still under way a prefix in
//!   revision order. A revision is stored in the transaction of its write, so revisions never go back.
//! - **Nothing unsafe is shown**: reads and watches see a write only once it is durable.
//! - **Fail stop**: after the first write or `fsync` that fails, that write and all later ones get [`Error::Poisoned`];
//!   reads and watches go on with the last durable state. Reopening the file heals it. A write that failed so may or may
//!   not be there afterwards, like one whose answer was lost. What an operating system has in its cache of a file whose
//!   `fsync` failed cannot be told from what is on the disk: after such an error a restart of the machine is safer
//!   than a mere reopening.
//! - **One process**: a second open of the same file fails with [`Error::Locked`].
//! - A write whose future is dropped while it waits may still happen.
//!
//! # Layout
//!
//! As in etcd the tables are ordered by revision and the index of keys is kept in memory, so a write only ever appends:
//! a transaction of 32 writes touches the right edge of two trees, not 32 places of one.
//!
//! | table    | key            | value                                                                              |
//! |----------|----------------|------------------------------------------------------------------------------------|
//! | `meta`   | name           | `format` (1), `compacted` and `swept` (revisions), each a `u64`                       |
//! | `log`    | revision `u64` | one byte (0: written, 1: deleted), then the key in UTF-8                             |
//! | `values` | revision `u64` | the value, as it was handed in; none for a deletion                                  |
//!
//! The store's revision is the larger of the last key of `log` and `compacted`. Opening reads `log` (not `values`) and
//! builds the index, about 150 bytes of memory a key. After a crash redb first walks the whole file to check it: the
//! alternative (its quick repair) costs a second `fsync` with every commit.
//!
//! Compaction first notes `compacted`, then sweeps: for every write up to it, in order, it removes the versions of the
//! same key before that write, and the write itself if it deleted the key. It does so in small pieces that ride on the
//! transactions of other writers; `swept` says how far it came, also across a reopening.
//!
//! # Threads
//!
//! One thread owns the database and makes all transactions. A read looks in the index, then for the value among the
//! newest events, which are kept in memory for the watches, and only then in the file, with the read transaction that
//! the writing thread opened after its last commit. Single values are read right on the caller's thread (one page, nearly
//! always in a cache); lists of many values and watches that come from far behind read on tokio's blocking threads.

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

/// Requests that may wait for the writing thread. Each waiting caller has one, so this only bounds callers that do
/// not wait for their answer.
const QUEUE: usize = 1024;

/// How much memory an [`EmbeddedStore`] may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddedOptions {
    /// For pages of the file; 2 MiB unless told.
    pub cache_bytes: usize,
    /// For the newest events, which watches read without touching the file; 2,048 events or 1 MiB unless told.
    pub recent: Retention,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self { cache_bytes: 2 << 20, recent: Retention { events: 2_048, bytes: 1 << 20 } }
    }
}

/// A durable [`Store`] in one file. See the [module](self) for what it guarantees.
///
/// Dropping it ends all watches, waits for a write under way and releases the file.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    requests: Option<mpsc::Sender<Request>>,
    thread: Option<JoinHandle<()>>,
    changed: watch::Receiver<Revision>,
}

/// What the writing thread shows to readers: always a durable state.
struct Shared {
    state: Mutex<State>,
    /// The first failure of a write.
    poison: OnceLock<String>,
}

struct State {
    /// Where the versions are; the values are in the file.
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
    /// Opens the store in a file, or makes one (readable for its owner only). Blocks while it reads the index.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_file(path, EmbeddedOptions::default())
    }

    /// Opens the store in a file with options.
    pub fn open_file(path: impl AsRef<Path>, options: EmbeddedOptions) -> Result<Self, Error> {
        let path = path.as_ref();
        let backend = layout::open_file(path)?;
        Self::open_named(backend, options, &path.display().to_string())
    }

    /// Opens the store in other storage than a file.
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
        let requests = self.requests.as_ref().expect("the queue must be there until the store is dropped");
        requests.send(request).await.map_err(|_| self.stopped())
    }

    async fn answer<T>(&self, answered: oneshot::Receiver<Result<T, Error>>) -> Result<T, Error> {
        answered.await.unwrap_or_else(|_| Err(self.stopped()))
    }

    /// Why the writing thread gave no answer.
    fn stopped(&self) -> Error {
        match self.shared.poisoned() {
            Err(error) => error,
            Ok(()) => Error::Poisoned { cause: "the writing thread has stopped".into() },
        }
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the writing thread of the store panicked");
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

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error> {
        let changed = self.changed.clone();
        Ok(Box::new(self.shared.watch(changed, prefix, after)?))
    }

    /// Returns when all that the compaction frees has been removed. Writers go on meanwhile.
    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        self.request(Request::Compact { revision, answer }).await?;
        self.answer(answered).await
    }
}
