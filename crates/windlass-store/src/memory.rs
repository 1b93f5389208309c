//! In-memory store: nothing survives the process.
//!
//! Every write stays in the event log until it is compacted, and every version of a key is kept as long as a list at a
//! revision not yet compacted may need it. Both are bounded by a [`Retention`], a safety net for callers that never
//! compact: beyond it the store compacts its oldest history by itself, exactly as if [`Store::compact`] had been
//! called.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    Batch, Entry, Error, Event, ListOptions, Page, Retention, Revision, Store, Watch,
    history::{History, Operation, Version},
    log::{EventLog, PROGRESS_EVERY},
};

/// Retention of [`MemoryStore::new`]: enough for a watch to be disconnected for a while, and small enough to ignore.
const DEFAULT_RETENTION: Retention = Retention { events: 100_000, bytes: 64 << 20 };

/// Number of events compacted before the lock is released.
const COMPACT_AT_ONCE: usize = 1024;

/// An in-memory [`Store`].
///
/// Values are stored as passed in; reads and watches share them without copying. Operations are decided one at a time
/// under a lock that is held only briefly; a list holds it while it collects its entries.
#[derive(Debug)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<Revision>,
}

#[derive(Debug)]
struct State {
    history: History<Bytes>,
    log: EventLog,
    revision: Revision,
    compacted: Revision,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// Returns an empty store that keeps up to 100,000 events or 64 MiB of history.
    pub fn new() -> Self {
        Self::with_retention(DEFAULT_RETENTION)
    }

    /// Returns an empty store with the given retention.
    pub fn with_retention(retention: Retention) -> Self {
        let revision = Revision::INITIAL;
        let state =
            State { history: History::default(), log: EventLog::new(retention), revision, compacted: Revision(0) };
        Self { state: Arc::new(Mutex::new(state)), changed: watch::Sender::new(revision) }
    }

    fn write(&self, operation: Operation, key: &str, value: Option<Bytes>) -> Result<Revision, Error> {
        let mut state = self.state.lock();
        let current = state.history.current(key).map(|(_, revision, _)| revision);
        operation.admit(key, current)?;
        for value in operation.values(value) {
            let event = Event { key: state.history.share(key), revision: state.revision.next(), value };
            state.revision = event.revision;
            state.history.apply(&event.key, Version { revision: event.revision, value: event.value.clone() });
            state.log.push(event);
        }
        let revision = state.revision;
        while let Some(event) = state.log.pop_excess() {
            state.compacted = state.compacted.max(event.revision);
            state.history.remove_before(&event.key, event.revision, |_| ());
        }
        // Sent while the lock is held, so that watches see revisions in order.
        self.changed.send_replace(revision);
        Ok(revision)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn revision(&self) -> Result<Revision, Error> {
        Ok(self.state.lock().revision)
    }

    fn known_revision(&self) -> Option<Revision> {
        Some(self.state.lock().revision)
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        let state = self.state.lock();
        let current = state.history.current(key);
        Ok(current.map(|(key, revision, value)| Entry { key: key.clone(), value: value.clone(), revision }))
    }

    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        let state = self.state.lock();
        let revision = options.at.unwrap_or(state.revision);
        revision.within(state.compacted, state.revision)?;
        let listed = state.history.list(&options, revision);
        let entries = listed.entries.into_iter().map(|(key, revision, value)| Entry { key, value, revision });
        Ok(Page { entries: entries.collect(), revision, remaining: listed.remaining })
    }

    async fn create(&self, key: &str, value: Bytes) -> Result<Revision, Error> {
        self.write(Operation::Create, key, Some(value))
    }

    async fn update(&self, key: &str, expected: Revision, value: Bytes) -> Result<Revision, Error> {
        self.write(Operation::Update(expected), key, Some(value))
    }

    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error> {
        self.write(Operation::Delete(expected), key, None)
    }

    async fn update_and_delete(&self, key: &str, expected: Revision, last: Bytes) -> Result<Revision, Error> {
        self.write(Operation::UpdateAndDelete(expected), key, Some(last))
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error> {
        let changed = self.changed.subscribe();
        let state = self.state.lock();
        after.within(state.compacted, state.revision)?;
        let state = self.state.clone();
        // There are no events before the first revision.
        let cursor = after.max(Revision::INITIAL);
        Ok(Box::new(MemoryWatch { state, changed, prefix: prefix.to_owned(), cursor, reported: cursor }))
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        {
            let mut state = self.state.lock();
            revision.within(Revision(0), state.revision)?;
            state.compacted = state.compacted.max(revision);
        }
        while self.compact_some(revision) {
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

impl MemoryStore {
    /// Removes some events up to a revision, and the versions they superseded; returns whether more remain.
    fn compact_some(&self, revision: Revision) -> bool {
        let mut state = self.state.lock();
        for _ in 0..COMPACT_AT_ONCE {
            let Some(event) = state.log.pop_through(revision) else { return false };
            state.history.remove_before(&event.key, event.revision, |_| ());
        }
        true
    }
}

/// A cursor into the store's log.
struct MemoryWatch {
    state: Arc<Mutex<State>>,
    changed: watch::Receiver<Revision>,
    prefix: String,
    cursor: Revision,
    reported: Revision,
}

#[async_trait]
impl Watch for MemoryWatch {
    async fn next(&mut self) -> Result<Batch, Error> {
        loop {
            // Marked as seen before the log is read: a write in between wakes the wait below.
            let newest = *self.changed.borrow_and_update();
            let scan = {
                let state = self.state.lock();
                self.cursor.within(state.compacted, state.revision)?;
                state.log.read(self.cursor, &self.prefix)
            };
            self.cursor = scan.through;
            if !scan.events.is_empty() || self.cursor.0 - self.reported.0 >= PROGRESS_EVERY {
                self.reported = self.cursor;
                return Ok(Batch { events: scan.events, revision: self.cursor });
            }
            if self.cursor >= newest {
                self.changed.changed().await.map_err(|_| Error::WatchInterrupted)?;
            }
        }
    }
}
