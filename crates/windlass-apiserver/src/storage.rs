//! The server's view of its store: a cache per resource, fed by one watch on everything.
//!
//! Reads come from the caches, writes go to the store. One task applies the store's events to the caches in revision
//! order, so "the caches are at revision R" is a single number. A consistent read asks the store for its newest
//! revision, waits until the caches have it, and reads.

mod cache;
mod counts;
mod damage;
mod history;
mod labels;
mod list;
mod load;
mod object;
mod watchers;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use tokio::{sync::watch, time::Instant};
use tracing::warn;
use windlass_store::{Error, Event, Revision, Store};

use crate::{replicas, status::ApiError};

pub(crate) use self::{
    cache::{CacheEvent, Change, ResourceCache, Snapshot, write_frame, write_metadata_frame},
    damage::{Damage, DamagedObject},
    history::History,
    labels::LabelBits,
    list::{WholeList, write_item},
    object::{StoredObject, encode},
    watchers::WatcherCount,
};

/// The store with its caches.
pub(crate) struct Storage {
    store: Arc<dyn Store>,
    caches: RwLock<HashMap<Box<str>, Arc<ResourceCache>>>,
    applied: AtomicU64,
    progress: watch::Sender<Revision>,
    /// Time at which the caches were last known to have everything that was in the store.
    current: Mutex<Instant>,
}

impl Storage {
    /// Loads the contents of the store.
    pub(crate) async fn open(store: Arc<dyn Store>) -> Result<Arc<Self>, Error> {
        let storage = Arc::new(Self {
            store,
            caches: RwLock::default(),
            applied: AtomicU64::new(0),
            progress: watch::Sender::new(Revision(0)),
            current: Mutex::new(Instant::now()),
        });
        storage.load().await?;
        Ok(storage)
    }

    /// Returns the store itself, for writes and for reads at old revisions.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Returns the cache of all keys under a prefix such as `/apps/deployments/`.
    pub(crate) fn cache(&self, prefix: &str) -> Arc<ResourceCache> {
        if let Some(cache) = self.caches.read().get(prefix) {
            return cache.clone();
        }
        let mut caches = self.caches.write();
        let new = || Arc::new(ResourceCache::new(prefix, Revision(self.applied.load(Ordering::Acquire))));
        caches.entry(prefix.into()).or_insert_with(new).clone()
    }

    /// Returns all caches, including those of resources that are no longer served, ordered by prefix.
    pub(crate) fn caches(&self) -> Vec<Arc<ResourceCache>> {
        let mut caches: Vec<_> = self.caches.read().values().cloned().collect();
        caches.sort_unstable_by(|a, b| a.prefix().cmp(b.prefix()));
        caches
    }

    /// Returns the events of a resource after a revision that its log no longer has, from the store's history.
    pub(crate) async fn history(&self, cache: &ResourceCache, after: Revision) -> Result<History, Error> {
        History::open(self.store(), cache.prefix(), after).await
    }

    /// Returns the next events of a history, when the caches have them too.
    pub(crate) async fn next_in(&self, history: &mut History) -> Result<(Revision, Vec<Arc<CacheEvent>>), Error> {
        let (to, events) = history.next(self.store()).await?;
        self.reached(to).await;
        Ok((to, events))
    }

    /// Drops an empty cache with its log. Tasks that hold it keep it.
    pub(crate) fn drop_empty(&self, prefix: &str) {
        let mut caches = self.caches.write();
        if caches.get(prefix).is_some_and(|cache| cache.is_empty()) {
            caches.remove(prefix);
        }
    }

    /// Returns the revision that the caches have reached.
    pub(crate) fn applied(&self) -> Revision {
        Revision(self.applied.load(Ordering::Acquire))
    }

    /// Waits until the caches hold every write that was acknowledged before the call.
    pub(crate) async fn fresh(&self) -> Result<Revision, Error> {
        let revision = match self.store.known_revision() {
            Some(revision) => revision,
            None => self.store.revision().await?,
        };
        self.reached(revision).await;
        Ok(revision)
    }

    /// Waits until the caches have reached a revision.
    pub(crate) async fn reached(&self, revision: Revision) {
        if self.applied() >= revision {
            return;
        }
        let mut progress = self.progress.subscribe();
        // The sender lives in self, so this cannot fail.
        let _ = progress.wait_for(|at| *at >= revision).await;
    }

    /// Records that the caches have everything that was in the store at a time.
    pub(crate) fn note_current(&self, at: Instant) {
        *self.current.lock() = at;
    }

    /// Fails if other servers may have changed too much that is not in effect here. A store that only this server writes
    /// to is always current.
    pub(crate) fn check_current(&self) -> Result<(), ApiError> {
        if !self.store.is_shared() || self.current.lock().elapsed() <= replicas::BOUND {
            return Ok(());
        }
        Err(ApiError::behind())
    }

    /// Follows the store forever. A watch that is cut off is resumed where it was, so that no client notices; the store
    /// is listed again only if the events in between have been compacted.
    pub(crate) async fn follow(self: Arc<Self>) {
        loop {
            let before = self.applied();
            let error = self.follow_once().await;
            if matches!(error, Error::Compacted { .. }) {
                warn!(%error, "the watch on the store cannot be resumed; listing the store again");
                if let Err(error) = self.load().await {
                    warn!(%error, "failed to list the store");
                }
            } else {
                warn!(%error, revision = %self.applied(), "the watch on the store ended; resuming it");
            }
            if self.applied() == before {
                // The error may last.
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    }

    async fn follow_once(&self) -> Error {
        let mut watch = match self.store.watch("/", self.applied()).await {
            Ok(watch) => watch,
            Err(error) => return error,
        };
        loop {
            match watch.next().await {
                Ok(batch) => self.apply(batch.events, batch.revision),
                Err(error) => return error,
            }
        }
    }

    /// Applies consecutive events, then advances the revision of the caches.
    fn apply(&self, events: Vec<Event>, revision: Revision) {
        let mut rest = events.as_slice();
        while let Some(first) = rest.first() {
            let prefix = resource_prefix(&first.key);
            let run = rest.iter().take_while(|event| resource_prefix(&event.key) == prefix).count();
            self.cache(prefix).apply(&rest[..run]);
            rest = &rest[run..];
        }
        self.advance(revision);
    }

    fn advance(&self, revision: Revision) {
        self.applied.fetch_max(revision.0, Ordering::AcqRel);
        self.progress.send_if_modified(|at| {
            let ahead = revision > *at;
            *at = (*at).max(revision);
            ahead
        });
    }

    /// Replaces the caches with the newest state of the store. Watchers that have missed events are cut off.
    async fn load(&self) -> Result<(), Error> {
        let load::Loaded { revision, mut resources } = load::load(self.store.snapshot().await?).await?;
        let known: Vec<Box<str>> = self.caches.read().keys().cloned().collect();
        for prefix in known {
            self.cache(&prefix).replace(resources.remove(&prefix).unwrap_or_default(), revision);
        }
        for (prefix, resource) in resources {
            self.cache(&prefix).replace(resource, revision);
        }
        self.advance(revision);
        Ok(())
    }
}

/// Returns `/apps/deployments/` for `/apps/deployments/default/web`.
fn resource_prefix(key: &str) -> &str {
    let mut slashes = key.match_indices('/').map(|(at, _)| at);
    slashes.nth(2).map_or(key, |at| &key[..=at])
}
