//! `windlass up --background`: a plane that outlives the terminal.
//!
//! This program starts itself again with a hidden flag. The second process leaves the session of the terminal, writes
//! to `DIR/windlass.log` and announces itself in the data folder; the first waits for that.

use std::{
    env, fs,
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::Context as _;

use crate::{
    failure::Advised,
    running::{self, Presence, Running},
    version,
};

/// The flag that the second process is started with.
pub(super) const DETACHED: &str = "--detached";
/// How many bytes of the log are looked at, and how many lines of them are shown, when a start fails.
const TAIL: (u64, usize) = (8192, 12);

/// The log of the plane of a folder.
pub(crate) fn log(folder: &Path) -> PathBuf {
    folder.join("windlass.log")
}

/// Starts a plane and waits until it serves. One that serves already is as well.
pub(super) fn start(folder: &Path, option: &str, patience: Duration) -> anyhow::Result<()> {
    match Presence::of(folder)? {
        Presence::Serving(Running { pid, url, .. }) => {
            eprintln!("a plane runs in {} already: {url} (process {pid})", folder.display());
        }
        Presence::Busy { pid } => return Err(busy(folder, pid, option)),
        Presence::Nobody => {
            let log = log(folder);
            let child = spawn(folder, &log)?;
            let running = wait(child, folder, &log, patience)?;
            eprintln!("windlass serves Kubernetes {} on {}", version::KUBERNETES, running.url);
            eprintln!("process {}, log in {}; `windlass down{option}` stops it", running.pid, log.display());
        }
    }
    super::export(&folder.join("kubeconfig"));
    Ok(())
}

/// What is said when somebody has the folder.
pub(super) fn taken(folder: &Path, running: &Running, option: &str) -> anyhow::Error {
    let Running { pid, url, .. } = running;
    Advised {
        message: format!("a plane runs in {} already: {url} (process {pid})", folder.display()),
        hint: format!(
            "`windlass down{option}` stops it, `windlass kubectl-env{option}` says how to use it; --data-dir chooses \
             another folder"
        )
        .into(),
    }
    .into()
}

/// What is said when somebody is about to have the folder, or to leave it.
pub(super) fn busy(folder: &Path, pid: Option<u32>, option: &str) -> anyhow::Error {
    let process = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
    Advised {
        message: format!("another windlass is starting or stopping in {}{process}", folder.display()),
        hint: format!("try again in a moment; `windlass status{option}` tells what became of it").into(),
    }
    .into()
}

/// Becomes a process that the terminal does not take along when it goes.
pub(super) fn leave_terminal(folder: &Path) -> anyhow::Result<()> {
    rustix::process::setsid().context("cannot leave the session of the terminal")?;
    // No folder is kept in use that the plane has nothing to do with. All paths are absolute by now.
    env::set_current_dir(folder).with_context(|| format!("cannot enter {}", folder.display()))
}

/// The second process.
fn spawn(folder: &Path, log: &Path) -> anyhow::Result<Child> {
    let program = env::current_exe().context("cannot find this program")?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|source| windlass_plane::PlaneError::DataDir { path: folder.to_owned(), source })?;
    let file = fresh(log).with_context(|| format!("cannot write {}", log.display()))?;
    let errors = file.try_clone().context("cannot share the log")?;
    Command::new(program)
        .args(env::args_os().skip(1))
        .arg(DETACHED)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .spawn()
        .context("cannot start the plane")
}

/// A new log. That of the start before stays as `windlass.log.1`, so that a crash can be looked into.
fn fresh(log: &Path) -> io::Result<fs::File> {
    let mut older = log.as_os_str().to_owned();
    older.push(".1");
    match fs::rename(log, &older) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::OpenOptions::new().append(true).create(true).mode(0o600).open(log)
}

fn wait(mut child: Child, folder: &Path, log: &Path, patience: Duration) -> anyhow::Result<Running> {
    let pid = child.id();
    let found = running::wait(patience, "still starting", || {
        if let Presence::Serving(running) = Presence::of(folder)?
            && running.pid == pid
        {
            return Ok(Some(Ok(running)));
        }
        Ok(child.try_wait().context("cannot look after the plane")?.map(Err))
    })?;
    let message = match found {
        Some(Ok(running)) => return Ok(running),
        Some(Err(exit)) => format!("the plane ended before it served ({exit})"),
        None => {
            // What does not serve by now is not left behind. It may have ended by itself, which is as well.
            let _ = child.kill();
            let _ = child.wait();
            format!("the plane did not serve within {} seconds", patience.as_secs())
        }
    };
    let tail = tail(log).unwrap_or_default();
    let said =
        tail.iter().filter(|line| !line.starts_with("hint: ")).map(|line| format!("\n  {line}")).collect::<String>();
    Err(Advised { message: format!("{message}{said}"), hint: hint(&tail, log).into() }.into())
}

/// What the plane itself advised, or where there is more to read.
fn hint(tail: &[String], log: &Path) -> String {
    let advised = tail.iter().rev().find_map(|line| line.strip_prefix("hint: "));
    advised.map_or_else(|| format!("the whole log is in {}", log.display()), str::to_owned)
}

/// The last lines of the log.
fn tail(log: &Path) -> io::Result<Vec<String>> {
    let (bytes, lines) = TAIL;
    let mut file = fs::File::open(log)?;
    let end = file.metadata()?.len();
    file.seek(SeekFrom::Start(end.saturating_sub(bytes)))?;
    let mut text = Vec::new();
    file.take(bytes).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    Ok(all[all.len().saturating_sub(lines)..].iter().map(|line| (*line).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_the_start_before_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path());
        for text in ["first", "second", "third"] {
            fresh(&log).unwrap();
            fs::write(&log, text).unwrap();
        }
        assert_eq!(fs::read_to_string(&log).unwrap(), "third");
        assert_eq!(fs::read_to_string(folder.path().join("windlass.log.1")).unwrap(), "second");
    }

    #[test]
    fn the_tail_is_the_last_lines_and_the_hint_is_the_planes_own() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path());
        let lines: String = (0..5000).map(|line| format!("line {line}\n")).collect();
        fs::write(&log, format!("{lines}error: it is broken\nhint: repair it\n")).unwrap();
        let last = tail(&log).unwrap();
        assert_eq!(last.len(), TAIL.1);
        assert_eq!(last[TAIL.1 - 3..], ["line 4999", "error: it is broken", "hint: repair it"]);
        assert_eq!(hint(&last, &log), "repair it");
        assert_eq!(hint(&last[..2], &log), format!("the whole log is in {}", log.display()));
    }
}
