//! One server per data directory.
//!
//! `DIR/lock` is locked for as long as a server uses the directory; the kernel releases the lock when the process ends,
//! however it ends. The file contains the process id, for the error message of a second server.
//!
//! [`DataDirLock::holder`] takes a shared lock for an instant, so [`DataDirLock::acquire`] retries for a moment before it
//! fails.
//!
//! A lock is valid only while its file is at its path: a command that deletes the directory deletes the file too, and the
//! next server would lock another one. So a file that was deleted before it was locked is opened again, and
//! [`DataDirLock::lost`] tells a running server that its directory has been deleted or replaced.

use std::{
    fs,
    fs::TryLockError,
    io,
    io::{Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::files;

/// Far longer than [`DataDirLock::holder`] needs, and too short to be noticed.
const MOMENT: Duration = Duration::from_millis(50);

/// An error while locking a data directory.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another server uses the directory.
    #[error("{} is in use by another windlass{}", directory.display(), owner.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Held {
        /// The data directory.
        directory: PathBuf,
        /// The other server's process id, if its lock file contains it.
        owner: Option<u32>,
    },
    /// The lock file could not be opened, locked or written.
    #[error("failed to lock {}", path.display())]
    File {
        /// The lock file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// The server that holds the lock of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process id, if its lock file contains it.
    pub process: Option<u32>,
}

/// Exclusive use of a data directory by this process, until dropped.
#[derive(Debug)]
pub struct DataDirLock {
    path: PathBuf,
    file: fs::File,
}

impl DataDirLock {
    /// Locks the directory, which must exist. Fails if another server holds the lock; never waits for it.
    pub fn acquire(directory: &Path) -> Result<Self, LockError> {
        let path = directory.join("lock");
        let failed = |source| LockError::File { path: path.clone(), source };
        let started = Instant::now();
        let mut file = open(&path).map_err(failed)?;
        loop {
            match file.try_lock() {
                Ok(()) if is_at(&file, &path).map_err(failed)? => break,
                // The directory was deleted after the file was opened.
                Ok(()) => file = open(&path).map_err(failed)?,
                Err(TryLockError::WouldBlock) if started.elapsed() < MOMENT => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(LockError::Held { directory: directory.to_owned(), owner: owner(&mut file) });
                }
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed)?;
        Ok(Self { path, file })
    }

    /// Returns whether the directory has been deleted or replaced since it was locked.
    pub fn lost(&self) -> bool {
        // If its state cannot be determined, it may still be there.
        !is_at(&self.file, &self.path).unwrap_or(true)
    }

    /// Returns the server that holds the lock of the directory, if any. Acquires and writes nothing.
    pub fn holder(directory: &Path) -> Result<Option<Holder>, LockError> {
        let path = directory.join("lock");
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

fn open(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(files::SECRET).open(path)
}

/// Returns whether an open file is the one at this path.
fn is_at(file: &fs::File, path: &Path) -> io::Result<bool> {
    let opened = file.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (opened.dev(), opened.ino())),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The process id in the lock file.
fn owner(file: &mut fs::File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_second_server_is_told_who_holds_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let first = DataDirLock::acquire(directory.path()).unwrap();
        let error = DataDirLock::acquire(directory.path()).unwrap_err();
        assert!(matches!(error, LockError::Held { owner: Some(pid), .. } if pid == std::process::id()), "{error:?}");
        assert_eq!(
            error.to_string(),
            format!("{} is in use by another windlass (process {})", directory.path().display(), std::process::id())
        );
        drop(first);
        DataDirLock::acquire(directory.path()).unwrap();
    }

    #[test]
    fn the_holder_of_a_lock_can_be_read_without_acquiring_it() {
        let directory = tempfile::tempdir().unwrap();
        let holder = || DataDirLock::holder(directory.path()).unwrap();
        assert_eq!(DataDirLock::holder(&directory.path().join("missing")).unwrap(), None);
        assert_eq!(holder(), None);
        assert!(!directory.path().join("lock").exists());
        let lock = DataDirLock::acquire(directory.path()).unwrap();
        assert_eq!(holder(), Some(Holder { process: Some(std::process::id()) }));
        drop(lock);
        assert_eq!(holder(), None);
    }

    #[test]
    fn the_lock_file_of_a_dead_server_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("lock"), "4194305000\n").unwrap();
        let _lock = DataDirLock::acquire(directory.path()).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("lock")).unwrap(), format!("{}\n", std::process::id()));
    }

    #[test]
    fn a_lock_file_that_is_deleted_while_it_is_being_locked_is_opened_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        for _ in 0..1000 {
            // Deletes the directory's content, as `windlass down --delete-data` does.
            let deleting = DataDirLock::acquire(directory.path()).unwrap();
            let starting = std::thread::scope(|scope| {
                let starting = scope.spawn(|| DataDirLock::acquire(directory.path()));
                // The other thread has opened the file, and is about to lock it.
                while !starting.is_finished() && open_files(&path) < 2 {
                    std::thread::yield_now();
                }
                fs::remove_file(&path).unwrap();
                drop(deleting);
                starting.join().unwrap()
            });
            match starting {
                // On a busy machine it may have given up before the file was deleted.
                Err(LockError::Held { .. }) => {}
                Err(error) => panic!("{error}"),
                Ok(lock) => {
                    assert!(!lock.lost());
                    let holder = DataDirLock::holder(directory.path()).unwrap();
                    assert_eq!(holder, Some(Holder { process: Some(std::process::id()) }), "another could start");
                    return;
                }
            }
        }
        panic!("the lock was never acquired");
    }

    /// Number of descriptors of this process for a file.
    fn open_files(path: &Path) -> usize {
        let path = fs::canonicalize(path).expect("the file must exist");
        let descriptors = fs::read_dir("/proc/self/fd").expect("Linux lists descriptors").flatten();
        descriptors.filter(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == path)).count()
    }

    #[test]
    fn a_directory_that_is_deleted_or_replaced_is_noticed() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("data");
        fs::create_dir(&directory).unwrap();
        let lock = DataDirLock::acquire(&directory).unwrap();
        assert!(!lock.lost());
        fs::rename(&directory, parent.path().join("moved")).unwrap();
        assert!(lock.lost());
        fs::create_dir(&directory).unwrap();
        let other = DataDirLock::acquire(&directory).unwrap();
        assert!(lock.lost() && !other.lost());
    }

    #[test]
    fn a_missing_directory_is_an_error_that_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing");
        let error = DataDirLock::acquire(&missing).unwrap_err();
        assert_eq!(error.to_string(), format!("failed to lock {}", missing.join("lock").display()));
    }
}
