//! A store whose operations take time, so that every one of them is an await point.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use windlass_store::{Batch, Entry, Error, ListOptions, Page, Revision, Store, Watch, memory::MemoryStore};

/// The time between an operation's call and its effect, and between its effect and its return.
pub(crate) const DELAY: Duration = Duration::from_millis(2);

/// A memory store with a queue, as a durable store has one: a write takes effect after a while, even if its future was
/// dropped in the meantime, and is acknowledged later.
#[derive(Default)]
pub(crate) struct SlowStore {
    inner: Arc<MemoryStore>,
    /// Whether creates panic.
    pub(crate) panics: AtomicBool,
}

impl SlowStore {
    async fn queue<T, F>(&self, operation: impl FnOnce(Arc<MemoryStore>) -> F) -> T
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let operation = operation(self.inner.clone());
        let queued = tokio::spawn(async move {
            tokio::time::sleep(DELAY).await;
            let result = operation.await;
            tokio::time::sleep(DELAY).await;
            result
        });
        queued.await.unwrap()
    }
}

#[async_trait]
impl Store for SlowStore {
    async fn revision(&self) -> Result<Revision, Error> {
        tokio::time::sleep(DELAY).await;
        self.inner.revision().await
    }
    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        tokio::time::sleep(DELAY).await;
        self.inner.get(key).await
    }
    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        tokio::time::sleep(DELAY).await;
        self.inner.list(options).await
    }
    async fn create(&self, key: &str, value: Bytes) -> Result<Revision, Error> {
        assert!(!self.panics.load(Ordering::Relaxed), "the store was told to panic");
        let key = key.to_owned();
        self.queue(|store| async move { store.create(&key, value).await }).await
    }
    async fn update(&self, key: &str, expected: Revision, value: Bytes) -> Result<Revision, Error> {
        let key = key.to_owned();
        self.queue(|store| async move { store.update(&key, expected, value).await }).await
    }
    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error> {
        let key = key.to_owned();
        self.queue(|store| async move { store.delete(&key, expected).await }).await
    }
    async fn update_and_delete(&self, key: &str, expected: Revision, last: Bytes) -> Result<Revision, Error> {
        let key = key.to_owned();
        self.queue(|store| async move { store.update_and_delete(&key, expected, last).await }).await
    }
    async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error> {
        Ok(Box::new(SlowWatch(self.inner.watch(prefix, after).await?)))
    }
    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.inner.compact(revision).await
    }
}

/// A watch that is behind.
struct SlowWatch(Box<dyn Watch>);

#[async_trait]
impl Watch for SlowWatch {
    async fn next(&mut self) -> Result<Batch, Error> {
        let batch = self.0.next().await;
        tokio::time::sleep(2 * DELAY).await;
        batch
    }
}
