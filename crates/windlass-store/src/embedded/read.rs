//! Lists and watches: served from memory if possible, otherwise from the file.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use super::{Shared, layout::Snapshot};
use crate::{
    Batch, Entry, Error, Event, ListOptions, Page, Revision, Watch,
    log::{PROGRESS_EVERY, Scan},
};

/// More values than this are read on a blocking thread.
const READ_INLINE: usize = 32;

/// Number of log records that a watch reads at a time while it catches up.
const CATCH_UP: usize = 512;

/// Number of bytes after which such a read ends.
const CATCH_UP_BYTES: usize = 4 << 20;

impl Shared {
    pub(super) async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        let (mut page, missing, snapshot) = {
            let state = self.state.lock();
            let revision = options.at.unwrap_or(state.revision);
            revision.within(state.compacted, state.revision)?;
            let listed = state.history.list(&options, revision);
            let mut missing = Vec::new();
            let mut entries = Vec::with_capacity(listed.entries.len());
            for (key, revision, _) in listed.entries {
                let recent = state.recent.get(revision).and_then(|event| event.value.clone());
                let value = recent.unwrap_or_else(|| {
                    missing.push((revision, entries.len()));
                    Bytes::new()
                });
                entries.push(Entry { key, value, revision });
            }
            (Page { entries, revision, remaining: listed.remaining }, missing, state.snapshot.clone())
        };
        for (index, value) in values(snapshot, missing).await? {
            page.entries[index].value = value;
        }
        Ok(page)
    }

    pub(super) fn watch(
        self: &Arc<Self>,
        changed: watch::Receiver<Revision>,
        prefix: &str,
        after: Revision,
    ) -> Result<EmbeddedWatch, Error> {
        let state = self.state.lock();
        after.within(state.compacted, state.revision)?;
        drop(state);
        // There are no events before the first revision.
        let cursor = after.max(Revision::INITIAL);
        Ok(EmbeddedWatch { shared: self.clone(), changed, prefix: prefix.to_owned(), cursor, reported: cursor })
    }
}

/// Reads the values of some revisions, each for a position in a list.
async fn values(snapshot: Arc<Snapshot>, mut wanted: Vec<(Revision, usize)>) -> Result<Vec<(usize, Bytes)>, Error> {
    let inline = wanted.len() <= READ_INLINE;
    let read = move || {
        // Sorted in file order, so that each page is read once.
        wanted.sort_unstable();
        wanted.into_iter().map(|(revision, index)| Ok((index, snapshot.value(revision)?))).collect()
    };
    if inline { read() } else { blocking(read).await }
}

async fn blocking<T: Send + 'static>(read: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    match tokio::task::spawn_blocking(read).await {
        Ok(result) => result,
        Err(error) => Err(Error::Storage { cause: error.to_string() }),
    }
}

/// A cursor into the store's events: recent ones in memory, earlier ones in the file.
pub(super) struct EmbeddedWatch {
    shared: Arc<Shared>,
    changed: watch::Receiver<Revision>,
    prefix: String,
    cursor: Revision,
    reported: Revision,
}

enum Step {
    Recent(Scan),
    Behind { snapshot: Arc<Snapshot>, through: Revision },
}

impl EmbeddedWatch {
    fn step(&self) -> Result<Step, Error> {
        let state = self.shared.state.lock();
        self.cursor.within(state.compacted, state.revision)?;
        let through = state.recent.oldest().map_or(state.revision, |oldest| Revision(oldest.0 - 1));
        if self.cursor < through {
            return Ok(Step::Behind { snapshot: state.snapshot.clone(), through });
        }
        Ok(Step::Recent(state.recent.read(self.cursor, &self.prefix)))
    }
}

#[async_trait]
impl Watch for EmbeddedWatch {
    async fn next(&mut self) -> Result<Batch, Error> {
        loop {
            // Marked as seen before the events are read: a write in between wakes the wait below.
            let newest = *self.changed.borrow_and_update();
            let scan = match self.step()? {
                Step::Recent(scan) => scan,
                Step::Behind { snapshot, through } => {
                    let (prefix, after) = (self.prefix.clone(), self.cursor);
                    let read = blocking(move || catch_up(&snapshot, &prefix, after, through)).await;
                    // Closing the store in the meantime also closes the file.
                    read.map_err(
                        |error| if self.changed.has_changed().is_err() { Error::WatchInterrupted } else { error },
                    )?
                }
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

/// Reads some events of a prefix from the file, after one revision and up to another.
fn catch_up(snapshot: &Snapshot, prefix: &str, after: Revision, through: Revision) -> Result<Scan, Error> {
    let mut scan = Scan { events: Vec::new(), through };
    let (mut seen, mut bytes) = (0, 0);
    snapshot.log(after.next().0..=through.0, |revision, record| {
        if record.key.starts_with(prefix) {
            let value = record.value.map(|_| snapshot.value(revision)).transpose()?;
            bytes += value.as_ref().map_or(0, Bytes::len);
            scan.events.push(Event { key: Arc::from(record.key), revision, value });
        }
        seen += 1;
        let more = seen < CATCH_UP && bytes < CATCH_UP_BYTES;
        if !more {
            scan.through = revision;
        }
        Ok(more)
    })?;
    Ok(scan)
}
