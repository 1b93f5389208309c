//! The number of watchers of a resource.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Counts the watchers of a resource.
#[derive(Default)]
pub(crate) struct Watchers(Arc<AtomicUsize>);

/// A watcher, which is counted until this is dropped.
pub(crate) struct WatcherCount(Arc<AtomicUsize>);

impl Watchers {
    /// Counts another watcher.
    pub(crate) fn add(&self) -> WatcherCount {
        self.0.fetch_add(1, Ordering::Relaxed);
        WatcherCount(self.0.clone())
    }

    /// Returns the number of watchers.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for WatcherCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
