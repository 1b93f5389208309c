//! A consistent view of the newest state, which can be read while writes go on.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    vec,
};

use bytes::Bytes;

use super::{Shared, layout::Snapshot};
use crate::{Entry, Error, Revision, snapshot::SnapshotReader};

/// Numbers the snapshots of a process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Pins the pages of its revision: they are not reused before it is dropped.
pub(super) struct EmbeddedSnapshot {
    shared: Arc<Shared>,
    number: u64,
    pin: Weak<Snapshot>,
    revision: Revision,
    keys: vec::IntoIter<(Revision, Arc<str>)>,
}

impl EmbeddedSnapshot {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let state = shared.state.lock();
        let mut keys: Vec<_> = state.history.newest().map(|(revision, key)| (revision, key.clone())).collect();
        let (revision, snapshot) = (state.revision, state.snapshot.clone());
        let pin = Arc::downgrade(&snapshot);
        // Under the lock of the state, so that a recovery cannot miss it.
        shared.pins.lock().insert(number, snapshot);
        drop(state);
        // In file order, so that each page is read once.
        keys.sort_unstable_by_key(|(revision, _)| *revision);
        Self { shared, number, pin, revision, keys: keys.into_iter() }
    }
}

impl SnapshotReader for EmbeddedSnapshot {
    fn revision(&self) -> Revision {
        self.revision
    }

    fn remaining(&self) -> usize {
        self.keys.len()
    }

    fn read(&mut self, bytes: usize) -> Result<Vec<Entry>, Error> {
        let interrupted = || Error::Storage { cause: "the store failed while a snapshot was read".to_owned() };
        let pin = self.pin.upgrade().ok_or_else(interrupted)?;
        let (mut entries, mut read) = (Vec::new(), 0);
        let Some((first, _)) = self.keys.as_slice().first() else { return Ok(entries) };
        pin.values(*first, |revision, value| {
            match self.keys.as_slice().first() {
                // A version that is no longer the newest of its key.
                Some((next, _)) if revision < *next => return Ok(true),
                Some((next, _)) if revision == *next => {}
                _ => return Ok(false),
            }
            let Some((revision, key)) = self.keys.next() else { return Ok(false) };
            read += key.len() + value.len();
            entries.push(Entry { key, value: Bytes::copy_from_slice(value), revision });
            Ok(read < bytes)
        })?;
        match entries.is_empty() {
            true => Err(Error::Storage { cause: "a value is missing from the file".to_owned() }),
            false => Ok(entries),
        }
    }
}

impl Drop for EmbeddedSnapshot {
    fn drop(&mut self) {
        let pin = self.shared.pins.lock().remove(&self.number);
        // Outside the lock: dropping the last reference ends a read transaction.
        drop(pin);
    }
}
