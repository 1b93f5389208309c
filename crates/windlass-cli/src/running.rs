//! The plane that runs in a data directory.
//!
//! The lock of the directory decides whether one is running: the kernel releases it with the process, so leftovers of a
//! crash are not mistaken for a plane. A running plane describes itself in `DIR/plane.json`, which is only valid if it
//! names the process that holds the lock.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process, thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use windlass_plane::{DataDirLock, Holder};

use crate::ready_file;

/// Interval at which to poll while waiting for a plane.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// After how long a waiting user gets a progress message.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// A running plane, as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningPlane {
    /// Process id.
    pub(crate) pid: u32,
    /// URL of the API server.
    pub(crate) url: String,
    /// Version of the program.
    pub(crate) version: String,
    /// Time when it started serving, in RFC 3339.
    pub(crate) since: String,
}

/// Whether a plane is running in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// No plane is running.
    Nobody,
    /// A plane is starting or stopping.
    Busy { pid: Option<u32> },
    /// A plane is serving.
    Serving(RunningPlane),
}

impl Presence {
    /// Checks a directory, which need not exist.
    pub(crate) fn of(folder: &Path) -> anyhow::Result<Self> {
        let Some(Holder { process }) = DataDirLock::holder(folder)? else { return Ok(Self::Nobody) };
        let said = fs::read(file(folder)).ok().and_then(|text| serde_json::from_slice::<RunningPlane>(&text).ok());
        Ok(match said {
            Some(running) if Some(running.pid) == process => Self::Serving(running),
            _ => Self::Busy { pid: process },
        })
    }

    /// Process id of the plane, if known.
    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            Self::Nobody => None,
            Self::Busy { pid } => *pid,
            Self::Serving(running) => Some(running.pid),
        }
    }
}

/// Records that this process serves the directory, whose lock it holds.
pub(crate) fn announce(folder: &Path, url: &str) -> anyhow::Result<()> {
    let running = RunningPlane {
        pid: process::id(),
        url: url.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        since: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    };
    let text = serde_json::to_string(&running).context("failed to describe the running plane")?;
    ready_file::appear(&file(folder), &format!("{text}\n"))
}

/// Removes the record. The lock must still be held, as otherwise the record could be another plane's.
pub(crate) fn retract(folder: &Path) {
    // The record is invalid once the lock is released.
    let _ = fs::remove_file(file(folder));
}

/// Path of the record.
pub(crate) fn file(folder: &Path) -> PathBuf {
    folder.join("plane.json")
}

/// Polls until there is a result or the deadline has passed, with a progress message now and then.
pub(crate) fn wait<T>(
    deadline: Duration,
    what: &str,
    mut look: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<Option<T>> {
    let start = Instant::now();
    let mut told = PROGRESS_INTERVAL;
    loop {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        let elapsed = start.elapsed();
        if elapsed >= deadline {
            return Ok(None);
        }
        if elapsed >= told {
            eprintln!("{what} ({} s)", elapsed.as_secs());
            told += PROGRESS_INTERVAL;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Returns whether a process has the directory's lock file open; `None` if other processes cannot be inspected. The
/// process id in the file may be from another container or machine that shares the directory, where it denotes another
/// process.
pub(crate) fn has_lock_open(pid: u32, folder: &Path) -> Option<bool> {
    let lock = fs::canonicalize(folder.join("lock")).ok()?;
    let descriptors = match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(descriptors) => descriptors,
        Err(error) if error.kind() == io::ErrorKind::NotFound && Path::new("/proc/self/fd").exists() => {
            return Some(false);
        }
        Err(_) => return None,
    };
    Some(descriptors.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == lock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_record_of_the_lock_holder_is_valid() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert_eq!(Presence::of(&folder.join("missing")).unwrap(), Presence::Nobody);
        announce(folder, "https://127.0.0.1:1").unwrap();
        assert_eq!(Presence::of(folder).unwrap(), Presence::Nobody, "there is no lock");

        let lock = DataDirLock::acquire(folder).unwrap();
        let Presence::Serving(running) = Presence::of(folder).unwrap() else { panic!("the plane is not serving") };
        assert_eq!((running.pid, running.url.as_str()), (process::id(), "https://127.0.0.1:1"));
        fs::write(file(folder), serde_json::to_string(&RunningPlane { pid: 1, ..running }).unwrap()).unwrap();
        assert_eq!(Presence::of(folder).unwrap(), Presence::Busy { pid: Some(process::id()) }, "another's words");
        retract(folder);
        assert_eq!(Presence::of(folder).unwrap(), Presence::Busy { pid: Some(process::id()) });
        drop(lock);
        assert_eq!(Presence::of(folder).unwrap(), Presence::Nobody);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_without_the_lock_file_is_recognized() {
        let folder = tempfile::tempdir().unwrap();
        let _lock = DataDirLock::acquire(folder.path()).unwrap();
        assert_eq!(has_lock_open(process::id(), folder.path()), Some(true));
        assert_eq!(has_lock_open(u32::MAX, folder.path()), Some(false));
    }
}
