//! A durable store in one file, on [redb](https://docs.rs/redb).
//!
//! # Guarantees
//!
//! - **Durable**: a write is acknowledged after the `fsync` of the transaction that holds it. Writers that wait at the
//!   same time share one transaction and one `fsync` (group commit).
//! - **Atomic**: after a crash the file holds every acknowledged write in full, and a prefix, in revision order, of the
//!   writes still in progress. A revision is stored in the transaction of its write, so revisions never go back.
//! - **Only durable writes are visible**: reads and watches see a write only once it is durable.
//! - **Failures are contained**: the first write or `fsync` that fails, and every write after it, returns
//!   [`Error::Poisoned`]; reads and watches continue with the last durable state. Writes that failed this way have no
//!   effect, unless the process ends before the store has recovered; then they may be present, like one whose response
//!   was lost.
//! - **It recovers by itself**: with growing pauses the store goes back to the last durable commit and reopens the
//!   file. It waits for space as long as it takes, and gives up on other errors after a while: then everything that
//!   writes returns [`Error::Failed`], and [`Store::failed`] resolves.
//! - **Only a file that can be found again is written**: if the file has been removed or replaced, no write is
//!   acknowledged any more and the store fails permanently.
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
//! | `meta`   | name           | `format` (2), `compacted` and `swept` (revisions), `packed` (bytes), each a `u64`     |
//! | `log`    | revision `u64` | 1 if deleted, or 2 and the size of the value (`u32`); then the key in UTF-8          |
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
mod migrate;
mod pack;
mod place;
mod progress;
mod read;
mod recovery;
mod restore;
mod save;
mod space;
mod unsynced;
mod writer;

pub use self::restore::{RestoreError, RestoredStore, Restoring, bumped};

use std::{collections::HashMap, fmt, io, path::Path, sync::Arc, thread::JoinHandle, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use redb::StorageBackend;
use tokio::sync::{mpsc, oneshot, watch};

use self::{
    fence::Locks,
    layout::{Opened, Snapshot},
    place::Place,
    unsynced::UnsyncedFile,
    writer::{Request, Write, Writer},
};
use crate::{
    Entry, Error, Event, ListOptions, Page, Retention, Revision, Store, Usage, Watch,
    history::{History, Operation},
    log::EventLog,
    snapshot::SnapshotReader,
};

/// Number of requests that may wait for the writer thread. Each waiting caller has one, so this bounds only callers
/// that do not wait for their response.
const QUEUE: usize = 1024;

/// Limits of an [`EmbeddedStore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddedOptions {
    /// Memory for cached pages of the file; 2 MiB by default.
    pub cache_bytes: usize,
    /// Memory for the newest events, which watches read without touching the file; 2,048 events or 1 MiB by default.
    pub recent: Retention,
    /// Maximum size of all keys and values, including the history that has not been compacted; none by default. When it
    /// is reached, creates fail with [`Error::NoSpace`]. Updates may use another tenth, so that finalizers can be
    /// removed, and deletes are always accepted.
    pub quota_bytes: Option<u64>,
    /// Policy for recovering from failed writes.
    pub retry: Retry,
}

/// Policy for recovering from failed writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Pause before the first attempt, which doubles with every attempt; 100 milliseconds by default.
    pub first: Duration,
    /// Longest pause between attempts; 5 seconds by default.
    pub longest: Duration,
    /// Time after which the store gives up, unless all that is missing is space; one minute by default.
    pub give_up_after: Duration,
}

impl EmbeddedOptions {
    /// The default options.
    pub const DEFAULT: Self = Self {
        cache_bytes: 2 << 20,
        recent: Retention { events: 2_048, bytes: 1 << 20 },
        quota_bytes: None,
        retry: Retry {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(5),
            give_up_after: Duration::from_secs(60),
        },
    };
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self::DEFAULT
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
    /// Reason why writes are rejected at present.
    failure: watch::Sender<Option<Failure>>,
    /// Snapshots that are being saved. They end when the store recovers, which reuses their pages.
    pins: Mutex<HashMap<u64, Arc<Snapshot>>>,
    backend: Arc<dyn StorageBackend>,
    /// The file, unless the storage is something else.
    place: Option<Place>,
    options: EmbeddedOptions,
    /// Name of the storage for messages.
    name: String,
}

struct State {
    /// Index of all versions; the values are in the file.
    history: History<u32>,
    recent: EventLog,
    revision: Revision,
    compacted: Revision,
    /// Number of bytes that the versions in `history` occupy.
    in_use: u64,
    /// The file at `revision`.
    snapshot: Arc<Snapshot>,
}

/// A reason to reject writes.
#[derive(Debug, Clone)]
struct Failure {
    cause: String,
    permanent: bool,
}

impl Failure {
    fn error(&self) -> Error {
        let cause = self.cause.clone();
        if self.permanent { Error::Failed { cause } } else { Error::Poisoned { cause } }
    }
}

impl Shared {
    /// Returns an error if writes are rejected.
    fn writable(&self) -> Result<(), Error> {
        match &*self.failure.borrow() {
            Some(failure) => Err(failure.error()),
            None => Ok(()),
        }
    }

    fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    /// Rejects writes from now on. The first cause is kept, unless this failure is permanent and that one is not.
    fn fail(&self, failure: Failure) {
        self.failure.send_if_modified(|current| {
            let news = current.as_ref().is_none_or(|current| failure.permanent && !current.permanent);
            if news {
                let Failure { cause, permanent } = &failure;
                tracing::error!(file = self.name, cause, permanent, "the store rejects writes");
                *current = Some(failure.clone());
            }
            news
        });
    }

    /// Rejects writes for good if the file is no longer at its path.
    fn check_place(&self) {
        if let Some(cause) = self.place.as_ref().and_then(Place::lost) {
            self.fail(Failure { cause, permanent: true });
        }
    }
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedStore").field("failure", &*self.shared.failure.borrow()).finish_non_exhaustive()
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
        let (backend, place) = Place::open(path)?;
        Self::open_named(Arc::new(backend), Some(place), options, path.display().to_string())
    }

    /// Opens the store in a file, and never waits for the disk, as etcd's `--unsafe-no-fsync` does: acknowledged writes
    /// survive the end of the process, but a failure of the machine can destroy the file.
    pub fn open_file_without_fsync(path: impl AsRef<Path>, options: EmbeddedOptions) -> Result<Self, Error> {
        let path = path.as_ref();
        let (backend, place) = Place::open(path)?;
        Self::open_named(Arc::new(UnsyncedFile(backend)), Some(place), options, path.display().to_string())
    }

    /// Opens the store on storage other than a file.
    pub fn open_with(backend: impl StorageBackend, options: EmbeddedOptions) -> Result<Self, Error> {
        Self::open_named(Arc::new(backend), None, options, "the storage".to_owned())
    }

    fn open_named(
        backend: Arc<dyn StorageBackend>,
        place: Option<Place>,
        options: EmbeddedOptions,
        name: String,
    ) -> Result<Self, Error> {
        let Opened { database, health, history, in_use, revision, compacted, swept, snapshot } =
            layout::open(&backend, Locks::Acquire, options.cache_bytes, &name)?;
        let (notify, changed) = watch::channel(revision);
        let snapshot = Arc::new(snapshot);
        let recent = EventLog::new(options.recent);
        let state = State { history, recent, revision, compacted, in_use, snapshot };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            failure: watch::Sender::new(None),
            pins: Mutex::default(),
            backend,
            place,
            options,
            name,
        });
        let (requests, queue) = mpsc::channel(QUEUE);
        let writer = Writer::new(database, health, shared.clone(), queue, notify, swept);
        let thread = std::thread::Builder::new()
            .name("windlass-store".into())
            .spawn(move || writer.run())
            .map_err(|error: io::Error| Error::Storage { cause: error.to_string() })?;
        Ok(Self { shared, requests: Some(requests), thread: Some(thread), changed })
    }

    async fn write(&self, operation: Operation, key: &str, value: Option<Bytes>) -> Result<Revision, Error> {
        let (answer, answered) = oneshot::channel();
        self.request(Request::Write(Write { operation, key: Arc::from(key), value, answer })).await?;
        self.answer(answered).await
    }

    async fn request(&self, request: Request) -> Result<(), Error> {
        self.shared.writable()?;
        let requests = self.requests.as_ref().expect("the queue must exist until the store is dropped");
        requests.send(request).await.map_err(|_| self.stopped())
    }

    async fn answer<T>(&self, answered: oneshot::Receiver<Result<T, Error>>) -> Result<T, Error> {
        answered.await.unwrap_or_else(|_| Err(self.stopped()))
    }

    /// Returns the error for a request that the writer thread did not respond to.
    fn stopped(&self) -> Error {
        match self.shared.writable() {
            Err(error) => error,
            Ok(()) => Error::Failed { cause: "the writer thread has stopped".into() },
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

    fn known_revision(&self) -> Option<Revision> {
        Some(self.shared.state.lock().revision)
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        let (key, revision, snapshot) = {
            let state = self.shared.state.lock();
            let Some((key, revision, _)) = state.history.current(key) else { return Ok(None) };
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
    async fn snapshot(&self) -> Result<Box<dyn SnapshotReader>, Error> {
        Ok(Box::new(save::EmbeddedSnapshot::new(self.shared.clone())))
    }

    fn health(&self) -> Result<(), Error> {
        self.shared.check_place();
        self.shared.writable()
    }

    async fn failed(&self) -> Error {
        let mut failure = self.shared.failure.subscribe();
        // The sender lives in self, so this cannot fail.
        let _ = failure.wait_for(|failure| failure.as_ref().is_some_and(|failure| failure.permanent)).await;
        self.stopped()
    }

    fn usage(&self) -> Usage {
        let file = self.shared.backend.len().unwrap_or(0);
        Usage {
            file,
            in_use: self.shared.state.lock().in_use,
            quota: self.shared.options.quota_bytes,
            available: self.shared.place.as_ref().and_then(|place| place.available(file)),
        }
    }
}
