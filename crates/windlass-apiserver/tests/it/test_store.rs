//! A store that a test can make slow, hold back, fail or panic.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use windlass_store::{Batch, Entry, Error, ListOptions, Page, Revision, Store, Usage, Watch, memory::MemoryStore};

/// The time between an operation's call and its effect, and between its effect and its return, in a slow store.
pub(crate) const DELAY: Duration = Duration::from_millis(2);

/// Selects keys.
type KeyFilter = fn(&str) -> bool;

/// A memory store with a queue, as a durable store has one: a write takes effect even if its future was dropped in the
/// meantime, and is acknowledged later.
pub(crate) struct TestStore {
    /// The store behind it, for reads and writes around the faults.
    pub(crate) inner: Arc<MemoryStore>,
    delay: Duration,
    /// The keys whose writes are rejected.
    rejects: Mutex<Option<KeyFilter>>,
    rejected: AtomicUsize,
    /// Whether creates panic.
    panics: AtomicBool,
    /// Whether creates wait in the queue.
    holds: AtomicBool,
    /// A permit per create that waits.
    arrived: Arc<Semaphore>,
    /// A permit per create that may take effect.
    released: Arc<Semaphore>,
    /// The lists that were requested.
    pub(crate) lists: Mutex<Vec<ListOptions>>,
    /// The number of times that all watches were cut off.
    interruptions: watch::Sender<usize>,
    /// The error of writes, if the backend is unreachable.
    unreachable: Mutex<Option<fn() -> Error>>,
}

impl Default for TestStore {
    fn default() -> Self {
        Self {
            inner: Arc::default(),
            delay: Duration::ZERO,
            rejects: Mutex::default(),
            rejected: AtomicUsize::default(),
            panics: AtomicBool::default(),
            holds: AtomicBool::default(),
            arrived: Arc::new(Semaphore::new(0)),
            released: Arc::new(Semaphore::new(0)),
            lists: Mutex::default(),
            interruptions: watch::Sender::default(),
            unreachable: Mutex::default(),
        }
    }
}

impl TestStore {
    /// Returns a store whose operations take time, so that every one of them is an await point.
    pub(crate) fn slow() -> Self {
        Self { delay: DELAY, ..Self::default() }
    }

    /// Makes creates panic, or not.
    pub(crate) fn set_panics(&self, panics: bool) {
        self.panics.store(panics, Ordering::Relaxed);
    }

    /// Holds creates back from now on.
    pub(crate) fn hold_creates(&self) {
        self.holds.store(true, Ordering::SeqCst);
    }

    /// Waits until a create is held back.
    pub(crate) async fn create_arrived(&self) {
        self.arrived.acquire().await.unwrap().forget();
    }

    /// Lets a create that was held back take effect, and holds back no others.
    pub(crate) fn release_create(&self) {
        self.holds.store(false, Ordering::SeqCst);
        self.released.add_permits(1);
    }

    /// Rejects writes of these keys from now on, as a full disk does.
    pub(crate) fn reject(&self, keys: KeyFilter) {
        *self.rejects.lock() = Some(keys);
    }

    /// Accepts all writes again.
    pub(crate) fn accept(&self) {
        *self.rejects.lock() = None;
    }

    /// Returns the number of rejected writes so far.
    pub(crate) fn rejected(&self) -> usize {
        self.rejected.load(Ordering::Relaxed)
    }

    /// Cuts off all watches.
    pub(crate) fn interrupt_watches(&self) {
        self.interruptions.send_modify(|count| *count += 1);
    }

    /// Makes writes fail with an error.
    pub(crate) fn fail_writes(&self, error: fn() -> Error) {
        *self.unreachable.lock() = Some(error);
    }

    fn full() -> Error {
        Error::Poisoned { cause: "no space left on device".to_owned() }
    }

    async fn pause(&self) {
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
    }

    async fn queue<F>(&self, key: &str, write: impl FnOnce(Arc<MemoryStore>, String) -> F) -> Result<Revision, Error>
    where
        F: Future<Output = Result<Revision, Error>> + Send + 'static,
    {
        if let Some(error) = *self.unreachable.lock() {
            return Err(error());
        }
        if self.rejects.lock().is_some_and(|rejects| rejects(key)) {
            self.rejected.fetch_add(1, Ordering::Relaxed);
            return Err(Self::full());
        }
        let (write, delay) = (write(self.inner.clone(), key.to_owned()), self.delay);
        let queued = tokio::spawn(async move {
            if delay.is_zero() {
                return write.await;
            }
            tokio::time::sleep(delay).await;
            let result = write.await;
            tokio::time::sleep(delay).await;
            result
        });
        queued.await.unwrap()
    }
}

#[async_trait]
impl Store for TestStore {
    async fn revision(&self) -> Result<Revision, Error> {
        self.pause().await;
        self.inner.revision().await
    }
    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        self.pause().await;
        self.inner.get(key).await
    }
    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        self.pause().await;
        self.lists.lock().push(options.clone());
        self.inner.list(options).await
    }
    async fn create(&self, key: &str, value: Bytes) -> Result<Revision, Error> {
        assert!(!self.panics.load(Ordering::Relaxed), "the store was told to panic");
        // The server itself creates the IPAddresses of earlier services.
        let held = self.holds.load(Ordering::SeqCst) && !key.starts_with("/networking.k8s.io/ipaddresses/");
        let (arrived, released) = (self.arrived.clone(), self.released.clone());
        let write = |store: Arc<MemoryStore>, key: String| async move {
            if held {
                arrived.add_permits(1);
                released.acquire().await.unwrap().forget();
            }
            store.create(&key, value).await
        };
        self.queue(key, write).await
    }
    async fn update(&self, key: &str, expected: Revision, value: Bytes) -> Result<Revision, Error> {
        self.queue(key, |store, key| async move { store.update(&key, expected, value).await }).await
    }
    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error> {
        self.queue(key, |store, key| async move { store.delete(&key, expected).await }).await
    }
    async fn update_and_delete(&self, key: &str, expected: Revision, last: Bytes) -> Result<Revision, Error> {
        self.queue(key, |store, key| async move { store.update_and_delete(&key, expected, last).await }).await
    }
    async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error> {
        let watch = self.inner.watch(prefix, after).await?;
        let watch: Box<dyn Watch> =
            if self.delay.is_zero() { watch } else { Box::new(SlowWatch(watch, 2 * self.delay)) };
        Ok(Box::new(InterruptedWatch(watch, self.interruptions.subscribe())))
    }
    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.inner.compact(revision).await
    }
    fn health(&self) -> Result<(), Error> {
        if self.rejects.lock().is_some() { Err(Self::full()) } else { Ok(()) }
    }
    fn usage(&self) -> Usage {
        Usage { file: 4096, in_use: 1000, quota: Some(2000), available: Some(77) }
    }
}

/// A watch that can be cut off.
struct InterruptedWatch(Box<dyn Watch>, watch::Receiver<usize>);

#[async_trait]
impl Watch for InterruptedWatch {
    async fn next(&mut self) -> Result<Batch, Error> {
        tokio::select! {
            biased;
            _ = self.1.changed() => Err(Error::WatchInterrupted),
            batch = self.0.next() => batch,
        }
    }
}

/// A watch that is behind.
struct SlowWatch(Box<dyn Watch>, Duration);

#[async_trait]
impl Watch for SlowWatch {
    async fn next(&mut self) -> Result<Batch, Error> {
        let batch = self.0.next().await;
        tokio::time::sleep(self.1).await;
        batch
    }
}

/// Polls a future a number of times, then drops it; returns its output if it completed.
pub(crate) async fn polled<T>(mut future: impl Future<Output = T> + Unpin, times: usize) -> Option<T> {
    let mut polls = 0;
    std::future::poll_fn(move |context| {
        if polls == times {
            return Poll::Ready(None);
        }
        polls += 1;
        match Pin::new(&mut future).poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polls == times => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
