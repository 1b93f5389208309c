//! Reasons why objects could not be copied, with advice.

use std::{io, path::PathBuf};

use windlass_etcd::ImportError;
use windlass_store::{
    embedded::RestoreError,
    snapshot::{Digest, SnapshotError},
};

use crate::{JoinError, PlaneError};

/// An error while objects are copied to another store.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// A data directory or etcd cannot be used.
    #[error(transparent)]
    Plane(#[from] PlaneError),
    /// The data directory of the source has no store.
    #[error("{} has no stored objects", path.display())]
    NoObjects {
        /// The data directory.
        path: PathBuf,
    },
    /// The file of the target exists.
    #[error("{} exists already", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The snapshot is not intact.
    #[error("{} cannot be used: {}", path.display(), described(source))]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: SnapshotError,
    },
    /// A file could not be read or written.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file of the embedded store could not be written.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The objects could not be written to etcd.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The keys of the source could not be copied.
    #[error(transparent)]
    Keys(#[from] JoinError),
    /// The objects could not be read.
    #[error("failed to read the objects: {0}")]
    Read(#[source] windlass_store::Error),
    /// An API server or another program writes to the source.
    #[error("the objects in etcd are in use: {key} was just written")]
    InUse {
        /// The key that was written.
        key: String,
    },
    /// The source had another number of objects at the end.
    #[error("the number of objects has changed while they were copied")]
    Changed,
    /// The copy is not the same as the source.
    #[error("the copy has {found:?} instead of {expected:?}")]
    Differs {
        /// The objects of the source.
        expected: Digest,
        /// The objects of the target.
        found: Digest,
    },
}

impl MigrationError {
    /// Returns advice on how to resolve the error, if there is any.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Plane(error) => return error.hint(),
            Self::Import(error) => error.hint(),
            Self::Keys(error) => return Some(error.hint()),
            Self::NoObjects { .. } => "choose the data directory in which `windlass up` has run",
            Self::Exists { .. } | Self::Restore(RestoreError::Exists { .. }) => {
                "choose another directory or file, or move this file away: a migration never replaces objects"
            }
            Self::Snapshot { source, .. } => match source {
                SnapshotError::NotASnapshot => "snapshots are created with `windlass snapshot save`",
                SnapshotError::Format { .. } => "use the version of windlass that saved the snapshot, or a later one",
                SnapshotError::CutOff { .. } | SnapshotError::Damaged { .. } => {
                    "use another snapshot, or save a new one with `windlass snapshot save`"
                }
                SnapshotError::Read(_) => "check the disk",
            },
            Self::Restore(RestoreError::Revision { .. }) => "choose a smaller --bump-revision",
            Self::InUse { .. } | Self::Changed => "stop all API servers, and run the migration again",
            Self::Differs { .. } => {
                "the target is not usable, and the source has not been changed: stop all programs that use either, check the \
                 disks, and run the migration again"
            }
            Self::File { .. } | Self::Restore(_) | Self::Read(_) => return None,
        };
        Some(hint.to_owned())
    }
}

fn described(error: &SnapshotError) -> String {
    match error {
        SnapshotError::Read(source) => format!("{error}: {source}"),
        error => error.to_string(),
    }
}
