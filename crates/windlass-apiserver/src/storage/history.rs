//! Events of a resource from the store's history, for watchers that the log of its cache has moved past.

use std::{collections::VecDeque, sync::Arc};

use windlass_store::{Error, Event, ListOptions, Revision, Store, Watch};

use super::{
    cache::{BATCH_BYTES, CacheEvent},
    object::StoredObject,
};

/// A watcher's position in the store's history.
pub(crate) struct History {
    watch: Box<dyn Watch>,
    /// The events of the last batch that were not returned yet.
    pending: VecDeque<Event>,
    /// The revision up to which the last batch is complete.
    complete: Revision,
}

impl History {
    /// Starts after a revision. `prefix` is that of the resource.
    pub(super) async fn open(store: &dyn Store, prefix: &str, after: Revision) -> Result<Self, Error> {
        Ok(Self { watch: store.watch(prefix, after).await?, pending: VecDeque::new(), complete: after })
    }

    /// Waits for the next events, about [`BATCH_BYTES`] of them, and returns them with the revision up to which there are
    /// no others. Cancel-safe: events that were not returned are returned by the next call.
    pub(super) async fn next(&mut self, store: &dyn Store) -> Result<(Revision, Vec<Arc<CacheEvent>>), Error> {
        if self.pending.is_empty() {
            let batch = self.watch.next().await?;
            self.complete = batch.revision;
            self.pending.extend(batch.events);
        }
        let (mut events, mut bytes, mut read) = (Vec::new(), 0, 0);
        for (index, event) in self.pending.iter().enumerate() {
            let previous = previous(store, event).await?;
            bytes += event.value.as_ref().map_or(0, |value| value.len());
            events.extend(CacheEvent::rebuilt(event, previous).map(Arc::new));
            read += 1;
            // Events of one revision stay together.
            let is_last = self.pending.get(index + 1).is_none_or(|next| next.revision != event.revision);
            if bytes >= BATCH_BYTES && is_last {
                break;
            }
        }
        let last = self.pending.drain(..read).next_back();
        let to = last.filter(|_| !self.pending.is_empty()).map_or(self.complete, |event| event.revision);
        Ok((to, events))
    }
}

/// Returns the object that a write replaced or deleted.
async fn previous(store: &dyn Store, event: &Event) -> Result<Option<Arc<StoredObject>>, Error> {
    let options = ListOptions {
        prefix: event.key.to_string(),
        limit: Some(1),
        at: Some(Revision(event.revision.0.saturating_sub(1))),
        after: None,
        count: false,
    };
    // The key itself is the first of all keys that begin with it.
    let found = store.list(options).await?.entries.into_iter().find(|entry| entry.key == event.key);
    Ok(found.and_then(|entry| StoredObject::parse(&entry.value, entry.revision).ok().map(Arc::new)))
}
