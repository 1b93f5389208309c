//! Which plane runs in a data folder.
//!
//! The lock of the folder decides whether one does: the kernel gives it up with the process, so nothing that a crash
//! leaves behind is taken for a plane. What a plane says of itself while it serves is in `DIR/plane.json`, which counts
//! only if it names the process that has the lock.

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

/// How often somebody who waits for a plane looks again.
const AGAIN: Duration = Duration::from_millis(10);
/// After how long somebody who waits is told that it goes on.
const PATIENCE: Duration = Duration::from_secs(2);

/// A plane that serves, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    /// Its process.
    pub(crate) pid: u32,
    /// Where it serves.
    pub(crate) url: String,
    /// The version of the program.
    pub(crate) version: String,
    /// When it began to serve, as RFC 3339 has it.
    pub(crate) since: String,
}

/// Whether a plane is in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Nobody is.
    Nobody,
    /// One that does not serve: it starts, or it stops.
    Busy { pid: Option<u32> },
    /// One that serves.
    Serving(Running),
}

impl Presence {
    /// Who is in the folder, which need not exist.
    pub(crate) fn of(folder: &Path) -> anyhow::Result<Self> {
        let Some(Holder { process }) = DataDirLock::holder(folder)? else { return Ok(Self::Nobody) };
        let said = fs::read(file(folder)).ok().and_then(|text| serde_json::from_slice::<Running>(&text).ok());
        Ok(match said {
            Some(running) if Some(running.pid) == process => Self::Serving(running),
            _ => Self::Busy { pid: process },
        })
    }

    /// The process, if it is known.
    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            Self::Nobody => None,
            Self::Busy { pid } => *pid,
            Self::Serving(running) => Some(running.pid),
        }
    }
}

/// Says that this process serves the folder, whose lock it has.
pub(crate) fn announce(folder: &Path, url: &str) -> anyhow::Result<()> {
    let running = Running {
        pid: process::id(),
        url: url.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        since: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    };
    let text = serde_json::to_string(&running).context("cannot say what runs")?;
    ready_file::appear(&file(folder), &format!("{text}\n"))
}

/// Takes back what was announced; while the lock is still held, lest it be another's.
pub(crate) fn retract(folder: &Path) {
    // Nobody believes it once the lock is free.
    let _ = fs::remove_file(file(folder));
}

/// Where a plane says what it is.
pub(crate) fn file(folder: &Path) -> PathBuf {
    folder.join("plane.json")
}

/// Looks until there is an answer or the deadline is over, and says now and then that it takes a while.
pub(crate) fn wait<T>(
    deadline: Duration,
    what: &str,
    mut look: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<Option<T>> {
    let start = Instant::now();
    let mut told = PATIENCE;
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
            told += PATIENCE;
        }
        thread::sleep(AGAIN);
    }
}

/// Whether a process has the folder's lock file open; `None` where one cannot look into other processes. A process id in
/// the file may be of another container or machine that shares the folder, and mean somebody else here.
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
    fn only_the_process_that_has_the_lock_is_believed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert_eq!(Presence::of(&folder.join("missing")).unwrap(), Presence::Nobody);
        announce(folder, "https://127.0.0.1:1").unwrap();
        assert_eq!(Presence::of(folder).unwrap(), Presence::Nobody, "there is no lock");

        let lock = DataDirLock::acquire(folder).unwrap();
        let Presence::Serving(running) = Presence::of(folder).unwrap() else { panic!("it must serve") };
        assert_eq!((running.pid, running.url.as_str()), (process::id(), "https://127.0.0.1:1"));
        fs::write(file(folder), serde_json::to_string(&Running { pid: 1, ..running }).unwrap()).unwrap();
        assert_eq!(Presence::of(folder).unwrap(), Presence::Busy { pid: Some(process::id()) }, "another's words");
        retract(folder);
        assert_eq!(Presence::of(folder).unwrap(), Presence::Busy { pid: Some(process::id()) });
        drop(lock);
        assert_eq!(Presence::of(folder).unwrap(), Presence::Nobody);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_does_not_have_the_file_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let _lock = DataDirLock::acquire(folder.path()).unwrap();
        assert_eq!(has_lock_open(process::id(), folder.path()), Some(true));
        assert_eq!(has_lock_open(u32::MAX, folder.path()), Some(false));
    }
}
