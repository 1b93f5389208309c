//! Stores to copy to. Each is unusable until it is complete.

use std::{
    fs,
    io::BufReader,
    path::{Path, PathBuf},
};

use windlass_etcd::{EtcdImport, EtcdTarget};
use windlass_store::{
    EmbeddedStore, Entry, Revision, Store as _,
    embedded::{RestoredStore, Restoring},
    snapshot::{Decoder, Digest, Parts},
};

use super::{Location, MigrationError, PIECE};
use crate::{
    DataDirLock, PlaneError,
    lock::Holder,
    plane::{STORE, lock_directory},
    snapshot::SnapshotFile,
};

/// A target that can be written to. Nothing has been changed yet.
pub(super) enum Checked {
    Embedded(PathBuf),
    Snapshot(PathBuf),
    Etcd(Box<EtcdTarget>),
}

/// A target that is being written.
pub(super) enum Target {
    // The lock is the last field, so that the directory is unlocked after the file is closed.
    Embedded(Box<Restoring>, DataDirLock),
    Snapshot(SnapshotFile, Parts),
    Etcd(Box<EtcdImport>),
}

/// A target with all objects, before it becomes usable.
pub(super) enum Finished {
    Embedded(RestoredStore, DataDirLock, Revision),
    Snapshot(SnapshotFile, Revision),
    Etcd(Box<EtcdImport>),
}

impl Checked {
    /// Checks that a target does not exist or is empty, and that no control plane uses it.
    pub(super) async fn open(location: &Location) -> Result<Self, MigrationError> {
        Ok(match location {
            Location::Embedded(directory) => {
                absent(&directory.join(STORE))?;
                if let Some(Holder { process: owner }) = DataDirLock::holder(directory).map_err(PlaneError::from)? {
                    let held = crate::LockError::Held { directory: directory.clone(), owner };
                    return Err(PlaneError::from(held).into());
                }
                Self::Embedded(directory.clone())
            }
            Location::Snapshot(path) => {
                absent(path)?;
                Self::Snapshot(path.clone())
            }
            Location::Etcd(options) => Self::Etcd(Box::new(EtcdTarget::open(options).await?)),
        })
    }

    /// Starts to write a number of objects to a store that continues after a revision.
    pub(super) async fn begin(self, revision: Revision, count: u64) -> Result<Target, MigrationError> {
        Ok(match self {
            Self::Embedded(directory) => {
                let lock = lock_directory(&directory)?;
                Target::Embedded(Box::new(Restoring::create(directory.join(STORE))?), lock)
            }
            Self::Snapshot(path) => {
                let parts = Parts::new(revision, count);
                let mut file = SnapshotFile::create(&path).map_err(|source| failed(&path, source))?;
                file.write(&parts.header()).map_err(|source| failed(&path, source))?;
                Target::Snapshot(file, parts)
            }
            Self::Etcd(target) => Target::Etcd(Box::new(target.begin(revision).await?)),
        })
    }
}

impl Target {
    /// Writes the next entries.
    pub(super) async fn write(&mut self, entries: Vec<Entry>) -> Result<(), MigrationError> {
        match self {
            Self::Embedded(restoring, _) => {
                for entry in entries {
                    restoring.append(entry)?;
                }
            }
            Self::Snapshot(file, parts) => {
                let records = parts.records(&entries).map_err(MigrationError::Read)?;
                file.write(&records).map_err(|source| failed(file.path(), source))?;
            }
            Self::Etcd(import) => import.write(entries).await?,
        }
        Ok(())
    }

    /// Makes everything durable that has been written.
    pub(super) fn finish(self, revision: Revision) -> Result<Finished, MigrationError> {
        Ok(match self {
            Self::Embedded(restoring, lock) => Finished::Embedded(restoring.finish(revision)?, lock, revision),
            Self::Snapshot(mut file, parts) => {
                let synced = file.write(&parts.trailer()).and_then(|()| file.sync());
                synced.map_err(|source| failed(file.path(), source))?;
                Finished::Snapshot(file, revision)
            }
            Self::Etcd(import) => Finished::Etcd(import),
        })
    }
}

impl Finished {
    /// Reads all objects of the target.
    pub(super) async fn read_back(&self) -> Result<Digest, MigrationError> {
        let mut digest = Digest::default();
        match self {
            Self::Embedded(restored, ..) => {
                let store = EmbeddedStore::open(restored.temporary()).map_err(MigrationError::Read)?;
                let mut reader = store.snapshot().await.map_err(MigrationError::Read)?;
                loop {
                    let entries = reader.read(PIECE).map_err(MigrationError::Read)?;
                    if entries.is_empty() {
                        break;
                    }
                    entries.iter().for_each(|entry| digest.add(entry));
                }
            }
            Self::Snapshot(file, _) => {
                let path = file.temporary();
                let damaged = |source| MigrationError::Snapshot { path: path.to_owned(), source };
                let opened = fs::File::open(path).map_err(|source| failed(path, source))?;
                let mut decoder = Decoder::new(BufReader::with_capacity(PIECE, opened)).map_err(damaged)?;
                while let Some(entry) = decoder.next_entry().map_err(damaged)? {
                    digest.add(&entry);
                }
            }
            Self::Etcd(import) => import.read_back(&mut |entry| digest.add(entry)).await?,
        }
        Ok(digest)
    }

    /// Makes the target usable, and returns the revision at which it starts.
    pub(super) async fn complete(self) -> Result<Revision, MigrationError> {
        Ok(match self {
            Self::Embedded(restored, _lock, revision) => {
                restored.place()?;
                revision
            }
            Self::Snapshot(file, revision) => {
                let path = file.path().to_owned();
                file.place().map_err(|source| failed(&path, source))?;
                revision
            }
            Self::Etcd(import) => import.complete().await?,
        })
    }
}

fn absent(path: &Path) -> Result<(), MigrationError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Err(MigrationError::Exists { path: path.to_owned() }),
        Err(_) => Ok(()),
    }
}

fn failed(path: &Path, source: std::io::Error) -> MigrationError {
    MigrationError::File { path: path.to_owned(), source }
}
