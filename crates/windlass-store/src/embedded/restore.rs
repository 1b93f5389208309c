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
    fence::{Health, Locks},
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
        check_absent(path.as_ref())?;
        let mut decoder = Decoder::new(snapshot)?;
        let revision = bumped(decoder.revision(), bump)?;
        let mut restoring = Restoring::create(path)?;
        while let Some(entry) = decoder.next_entry()? {
            if restoring.append(entry)? {
                progress(decoder.position());
            }
        }
        restoring.finish(revision)?.place()?;
        progress(decoder.position());
        Ok(revision)
    }
}

/// Returns the revision of a snapshot plus a number.
pub fn bumped(revision: Revision, bump: u64) -> Result<Revision, RestoreError> {
    let sum = revision.0.checked_add(bump).filter(|sum| *sum < u64::MAX / 2);
    sum.map(Revision).ok_or(RestoreError::Revision { revision, bump })
}

fn check_absent(path: &Path) -> Result<(), RestoreError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Err(RestoreError::Exists { path: path.to_owned() }),
        Err(_) => Ok(()),
    }
}

/// The file of a store that is being written. It has another name until it is complete, and is removed if this is dropped.
pub struct Restoring {
    // The first field, so that the file is closed before it is removed.
    database: Database,
    health: Arc<Health>,
    backend: Arc<dyn StorageBackend>,
    group: Vec<Entry>,
    size: usize,
    file: RestoredStore,
}

impl Restoring {
    /// Starts to write the file of a store, which must not exist.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, RestoreError> {
        let path = path.as_ref();
        check_absent(path)?;
        let file = RestoredStore { path: path.to_owned(), temporary: beside(path), placed: false };
        match fs::remove_file(&file.temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(file.failed(error)),
            _ => {}
        }
        let (backend, _) = Place::open(&file.temporary)?;
        let backend: Arc<dyn StorageBackend> = Arc::new(backend);
        let opened = layout::open(&backend, Locks::Acquire, CACHE_BYTES, &path.display().to_string())?;
        Ok(Self { database: opened.database, health: opened.health, backend, group: Vec::new(), size: 0, file })
    }

    /// Adds an entry, whose revision must be later than that of the one before, and returns whether entries were written
    /// to the file.
    pub fn append(&mut self, entry: Entry) -> Result<bool, RestoreError> {
        self.size += entry.value.len();
        self.group.push(entry);
        if self.size < GROUP_BYTES {
            return Ok(false);
        }
        append(&self.database, &self.group)?;
        self.group.clear();
        self.size = 0;
        Ok(true)
    }

    /// Completes the file of a store that starts at a revision, at least that of every entry. All earlier revisions count
    /// as compacted.
    pub fn finish(self, revision: Revision) -> Result<RestoredStore, RestoreError> {
        let Self { database, health, backend, group, file, .. } = self;
        append(&database, &group)?;
        let transaction = database.begin_write().map_err(storage)?;
        {
            let mut meta = transaction.open_table(META).map_err(storage)?;
            meta.insert(COMPACTED, revision.0).map_err(storage)?;
            meta.insert(SWEPT, revision.0).map_err(storage)?;
        }
        transaction.commit().map_err(storage)?;
        drop(database);
        let outcome = health.failure().map(|failure| Error::Storage { cause: failure.cause.clone() });
        let closed = backend.close().map_err(|error| Error::Storage { cause: error.to_string() });
        outcome.map_or(closed, Err)?;
        Ok(file)
    }
}

/// The complete and closed file of a store, which is not at its place yet; removed if this is dropped before it is.
#[derive(Debug)]
pub struct RestoredStore {
    path: PathBuf,
    temporary: PathBuf,
    placed: bool,
}

impl RestoredStore {
    /// Path of the file until it is placed.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Moves the file to its place.
    pub fn place(mut self) -> Result<(), RestoreError> {
        fs::rename(&self.temporary, &self.path).map_err(|error| self.failed(error))?;
        self.placed = true;
        sync_directory(&self.path).map_err(|error| self.failed(error))
    }

    fn failed(&self, source: io::Error) -> RestoreError {
        RestoreError::File { path: self.path.clone(), source }
    }
}

impl Drop for RestoredStore {
    fn drop(&mut self) {
        if !self.placed {
            // Best effort: it is removed by the next attempt otherwise.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Name of the file until it is complete.
fn beside(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(".restoring");
    name.into()
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
