//! The file of a store: whether it is still at its path, and by how much it can grow.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use redb::backends::FileBackend;
use rustix::{
    fs::{StatVfs, statvfs},
    process::{Resource, getrlimit},
};

use super::layout::storage;
use crate::Error;

/// The path of an open file, and the identity of the file that was there when it was opened.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Place {
    /// Opens or creates the file, readable only by its owner.
    pub(super) fn open(path: &Path) -> Result<(FileBackend, Self), Error> {
        let failed = |error: io::Error| Error::Storage { cause: format!("{}: {error}", path.display()) };
        let mut options = fs::OpenOptions::new();
        let file =
            options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path).map_err(failed)?;
        sync_directory(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let place = Self { path: path.to_owned(), device: metadata.dev(), inode: metadata.ino() };
        Ok((FileBackend::new(file).map_err(storage)?, place))
    }

    /// Returns why the file can no longer be found at its path: writes to it would be lost.
    pub(super) fn lost(&self) -> Option<String> {
        let path = self.path.display();
        match fs::metadata(&self.path) {
            Ok(metadata) if (metadata.dev(), metadata.ino()) == (self.device, self.inode) => None,
            Ok(_) => Some(format!("{path} was replaced by another file")),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Some(format!("{path} was removed"))
            }
            // The file itself may still be intact: its own reads and writes decide.
            Err(_) => None,
        }
    }

    /// Returns by how many bytes a file of this size can grow: the free space of the file system, or less if the
    /// process may not write files that large.
    pub(super) fn available(&self, size: u64) -> Option<u64> {
        let StatVfs { f_bavail, f_frsize, .. } = statvfs(&self.path).ok()?;
        let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        Some(f_bavail.saturating_mul(f_frsize).min(limit.saturating_sub(size)))
    }
}

/// Makes the directory entry of a file as durable as its content.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(directory)?.sync_all()
}
