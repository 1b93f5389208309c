//! Creating a store from a snapshot.

use std::{
    ffi::OsString,
    fs, io,
    io::Read,
    ops::Bound,
    path::{Path, PathBuf},
    sync::Arc,
};

use redb::{Database, StorageBackend};

use super::{
    EmbeddedStore,
    fence::Locks,
    layout::{self, COMPACTED, LOG, META, Record, SWEPT, VALUES, storage},
    place::{Place, sync_directory},
};
use crate::{
    Entry, Error, Revision,
    snapshot::{Decoder, SnapshotError},
};

/// Size of the entries that share a transaction.
const GROUP_BYTES: usize = 16 << 20;

/// Memory for cached pages.
const CACHE_BYTES: usize = 64 << 20;

/// Reasons why a snapshot could not be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// There is a file already.
    #[error("{} exists already", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The snapshot cannot be used.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The revision of the snapshot plus the bump is too large.
    #[error("revision {revision} plus {bump} is too large")]
    Revision {
        /// The revision of the snapshot.
        revision: Revision,
        /// The number to add.
        bump: u64,
    },
    /// The store could not be written.
    #[error(transparent)]
    Store(#[from] Error),
    /// The file could not be created or moved to its place.
    #[error("failed to create {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl EmbeddedStore {
    /// Creates the file of a store from a snapshot, and returns the revision at which the store starts.
    ///
    /// The revision is that of the snapshot plus `bump`, and all earlier ones count as compacted. Clients may have seen
    /// revisions later than that of the snapshot; with a bump larger than their number, no revision is issued twice, and
    /// watches that start from an earlier one are rejected with [`Error::Compacted`].
    ///
    /// The file must not exist; it appears complete or not at all. Calls `progress` with the number of bytes read.
    pub fn restore(
        path: impl AsRef<Path>,
        snapshot: impl Read,
        bump: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Revision, RestoreError> {
        let path = path.as_ref();
        if fs::symlink_metadata(path).is_ok() {
            return Err(RestoreError::Exists { path: path.to_owned() });
        }
        let mut decoder = Decoder::new(snapshot)?;
        let taken = decoder.revision();
        let too_large = RestoreError::Revision { revision: taken, bump };
        let revision = taken.0.checked_add(bump).filter(|revision| *revision < u64::MAX / 2).ok_or(too_large)?;
        let temporary = beside(path);
        let failed = |source| RestoreError::File { path: path.to_owned(), source };
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let written = write(&temporary, &mut decoder, revision, progress).and_then(|()| {
            fs::rename(&temporary, path).map_err(failed)?;
            sync_directory(path).map_err(failed)
        });
        if written.is_err() {
            // Best effort: the error above is the one to report.
            let _ = fs::remove_file(&temporary);
        }
        written.map(|()| Revision(revision))
    }
}

/// Name of the file until it is complete.
fn beside(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(".restoring");
    name.into()
}

fn write(
    path: &Path,
    decoder: &mut Decoder<impl Read>,
    revision: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<(), RestoreError> {
    let (backend, _) = Place::open(path)?;
    let backend: Arc<dyn StorageBackend> = Arc::new(backend);
    let opened = layout::open(&backend, Locks::Acquire, CACHE_BYTES, &path.display().to_string())?;
    let (database, health) = (opened.database, opened.health);
    drop(opened.snapshot);
    let mut group: Vec<Entry> = Vec::new();
    let mut size = 0;
    while let Some(entry) = decoder.next_entry()? {
        size += entry.value.len();
        group.push(entry);
        if size >= GROUP_BYTES {
            append(&database, &group)?;
            group.clear();
            size = 0;
            progress(decoder.position());
        }
    }
    append(&database, &group)?;
    progress(decoder.position());
    let transaction = database.begin_write().map_err(storage)?;
    {
        let mut meta = transaction.open_table(META).map_err(storage)?;
        meta.insert(COMPACTED, revision).map_err(storage)?;
        meta.insert(SWEPT, revision).map_err(storage)?;
    }
    transaction.commit().map_err(storage)?;
    drop(database);
    let outcome = health.failure().map(|failure| Error::Storage { cause: failure.cause.clone() });
    let closed = backend.close().map_err(|error| Error::Storage { cause: error.to_string() });
    outcome.map_or(closed, Err).map_err(RestoreError::Store)
}

/// Appends entries, which are in the order of their revisions, in one transaction.
fn append(database: &Database, entries: &[Entry]) -> Result<(), Error> {
    let transaction = database.begin_write().map_err(storage)?;
    {
        let mut log = transaction.open_table(LOG).map_err(storage)?;
        let mut end = log.upper_bound_mut(Bound::<u64>::Unbounded).map_err(storage)?;
        let mut record = Vec::new();
        for entry in entries {
            let value = Some(u32::try_from(entry.value.len()).unwrap_or(u32::MAX));
            Record { key: &entry.key, value }.encode(&mut record);
            end.insert_before(entry.revision.0, record.as_slice()).map_err(storage)?;
        }
        end.close().map_err(storage)?;
        let mut values = transaction.open_table(VALUES).map_err(storage)?;
        let mut end = values.upper_bound_mut(Bound::<u64>::Unbounded).map_err(storage)?;
        for entry in entries {
            end.insert_before(entry.revision.0, entry.value.as_ref()).map_err(storage)?;
        }
        end.close().map_err(storage)?;
    }
    transaction.commit().map_err(storage)
}
