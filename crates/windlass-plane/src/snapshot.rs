//! Snapshots of a plane's objects: saving those of a stopped plane, and restoring them into a new data directory.
//!
//! A running plane sends a snapshot to the administrator at [`PATH`]. A snapshot contains the objects, but not the
//! certificates and keys of the data directory.

mod file;

use std::{io::Read, path::Path};

pub use self::file::SnapshotFile;
pub use windlass_apiserver::snapshot::PATH;
use windlass_store::{EmbeddedOptions, EmbeddedStore, Store as _};
pub use windlass_store::{
    Entry, Revision,
    embedded::RestoreError,
    snapshot::{Decoder, Encoder, SnapshotError},
};

use crate::{
    DataDirLock, PlaneError,
    plane::{STORE, lock_directory, open_when_free},
};

/// The objects of a data directory that is not in use.
pub struct Saving {
    /// Encodes the objects.
    pub encoder: Encoder,
    _store: EmbeddedStore,
    // The last field, so that the directory is unlocked after the store is closed.
    _lock: DataDirLock,
}

/// An error while restoring a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum RestoringError {
    /// The data directory could not be created or locked.
    #[error(transparent)]
    DataDir(#[from] PlaneError),
    /// The store could not be created from the snapshot.
    #[error(transparent)]
    Restore(#[from] RestoreError),
}

/// Starts to save the objects of a data directory in which no plane is running. Blocks while the store is opened.
pub async fn save(data_dir: &Path) -> Result<Saving, PlaneError> {
    let lock = DataDirLock::acquire(data_dir)?;
    let path = data_dir.join(STORE);
    let failed = |source| PlaneError::Store { path: path.clone(), source };
    let store = open_when_free(|| EmbeddedStore::open_file(&path, EmbeddedOptions::default())).map_err(failed)?;
    let encoder = Encoder::new(store.snapshot().await.map_err(failed)?);
    Ok(Saving { encoder, _store: store, _lock: lock })
}

/// Restores a snapshot into a data directory that has no store yet, and returns the revision at which the store starts:
/// that of the snapshot plus `bump`. Calls `progress` with the number of bytes read.
pub fn restore(
    data_dir: &Path,
    snapshot: impl Read,
    bump: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<Revision, RestoringError> {
    let _lock = lock_directory(data_dir)?;
    Ok(EmbeddedStore::restore(data_dir.join(STORE), snapshot, bump, progress)?)
}
