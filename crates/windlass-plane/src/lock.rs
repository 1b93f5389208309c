//! One server per data folder.
//!
//! `DIR/lock` is locked for as long as a server uses the folder; the kernel releases it when the process ends, however
//! it ends. The file's text is the process id, for the message that the second server gives.
//!
//! Whoever asks who has a folder ([`FolderLock::holder`]) shares the lock for an instant, so the taker tries for a
//! moment before it gives up.

use std::{
    fs,
    fs::TryLockError,
    io,
    io::{Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::files;

/// Far longer than somebody needs who only asks, and too short to be noticed.
const MOMENT: Duration = Duration::from_millis(50);

/// Why a data folder could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another server uses the folder.
    #[error("{} is in use by another windlass{}", folder.display(), owner.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Held {
        /// The data folder.
        folder: PathBuf,
        /// The other server's process id, if its lock file says.
        owner: Option<u32>,
    },
    /// The lock file could not be opened, locked or written.
    #[error("cannot lock {}", path.display())]
    File {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A server that has a data folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process id, if its lock file says.
    pub process: Option<u32>,
}

/// A data folder that this process alone uses, until this value is dropped.
#[derive(Debug)]
pub struct FolderLock {
    _file: fs::File,
}

impl FolderLock {
    /// Takes the folder, which must exist, or says who has it. Never waits for another server.
    pub fn acquire(folder: &Path) -> Result<Self, LockError> {
        let path = folder.join("lock");
        let failed = |source| LockError::File { path: path.clone(), source };
        let mut file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(files::SECRET)
            .open(&path)
            .map_err(failed)?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if started.elapsed() < MOMENT => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(LockError::Held { folder: folder.to_owned(), owner: owner(&mut file) });
                }
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed)?;
        Ok(Self { _file: file })
    }

    /// Who has the folder, if somebody does. Takes nothing and writes nothing.
    pub fn holder(folder: &Path) -> Result<Option<Holder>, LockError> {
        let path = folder.join("lock");
        let failed = |source| LockError::File { path: path.clone(), source };
        let mut file = match fs::File::open(&path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            opened => opened.map_err(failed)?,
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => Ok(Some(Holder { process: owner(&mut file) })),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }
}

/// The process that the lock file names.
fn owner(file: &mut fs::File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_taker_is_told_who_holds_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let first = FolderLock::acquire(folder.path()).unwrap();
        let error = FolderLock::acquire(folder.path()).unwrap_err();
        assert!(matches!(error, LockError::Held { owner: Some(pid), .. } if pid == std::process::id()), "{error:?}");
        assert_eq!(
            error.to_string(),
            format!("{} is in use by another windlass (process {})", folder.path().display(), std::process::id())
        );
        drop(first);
        FolderLock::acquire(folder.path()).unwrap();
    }

    #[test]
    fn one_can_ask_who_has_a_folder_without_taking_it() {
        let folder = tempfile::tempdir().unwrap();
        let holder = || FolderLock::holder(folder.path()).unwrap();
        assert_eq!(FolderLock::holder(&folder.path().join("missing")).unwrap(), None);
        assert_eq!(holder(), None);
        assert!(!folder.path().join("lock").exists());
        let lock = FolderLock::acquire(folder.path()).unwrap();
        assert_eq!(holder(), Some(Holder { process: Some(std::process::id()) }));
        drop(lock);
        assert_eq!(holder(), None);
    }

    #[test]
    fn a_leftover_lock_file_of_a_dead_server_does_not_matter() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("lock"), "4194305000\n").unwrap();
        let _lock = FolderLock::acquire(folder.path()).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("lock")).unwrap(), format!("{}\n", std::process::id()));
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let error = FolderLock::acquire(&missing).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot lock {}", missing.join("lock").display()));
    }
}
