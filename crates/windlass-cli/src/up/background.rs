//! `windlass up --background`: a plane that outlives the terminal.
//!
//! The program starts itself again with a hidden flag. The second process leaves the terminal's session, logs to
//! `DIR/windlass.log` and announces itself in the data directory; the first waits for that.

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
    failure::ErrorWithHint,
    running::{self, Presence, RunningPlane},
    version,
};

/// Flag of the second process.
pub(super) const DETACHED: &str = "--detached";
/// Bytes to read from the end of the log, and lines to show, if the start fails.
const TAIL: (u64, usize) = (8192, 12);

/// Log file of a data directory.
pub(crate) fn log(folder: &Path) -> PathBuf {
    folder.join("windlass.log")
}

/// Starts a plane and waits until it is serving. A plane that is already serving is fine.
pub(super) fn start(folder: &Path, option: &str, patience: Duration) -> anyhow::Result<()> {
    match Presence::of(folder)? {
        Presence::Serving(RunningPlane { pid, url, .. }) => {
            eprintln!("a control plane is already running in {}: {url} (process {pid})", folder.display());
        }
        Presence::Busy { pid } => return Err(busy(folder, pid, option)),
        Presence::Nobody => {
            let log = log(folder);
            let child = spawn(folder, &log)?;
            let running = wait(child, folder, &log, patience)?;
            eprintln!("Windlass serves Kubernetes {} at {}", version::KUBERNETES, running.url);
            eprintln!("process {}, log in {}; `windlass down{option}` stops it", running.pid, log.display());
        }
    }
    super::export(&folder.join("kubeconfig"));
    Ok(())
}

/// The error if a plane is already running in the directory.
pub(super) fn taken(folder: &Path, running: &RunningPlane, option: &str) -> anyhow::Error {
    let RunningPlane { pid, url, .. } = running;
    ErrorWithHint {
        message: format!("a control plane is already running in {}: {url} (process {pid})", folder.display()),
        hint: format!(
            "stop it with `windlass down{option}`, use it with `windlass kubectl-env{option}`, or choose another \
             --data-dir"
        )
        .into(),
    }
    .into()
}

/// The error if a plane is starting or stopping in the directory.
pub(super) fn busy(folder: &Path, pid: Option<u32>, option: &str) -> anyhow::Error {
    let process = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
    ErrorWithHint {
        message: format!("another windlass is starting or stopping in {}{process}", folder.display()),
        hint: format!("try again in a moment, or check with `windlass status{option}`").into(),
    }
    .into()
}

/// Detaches the process from the terminal.
pub(super) fn leave_terminal(folder: &Path) -> anyhow::Result<()> {
    rustix::process::setsid().context("failed to detach from the terminal")?;
    // Does not keep an unrelated directory in use. All paths are absolute by now.
    env::set_current_dir(folder).with_context(|| format!("failed to change to directory {}", folder.display()))
}

/// Starts the second process.
fn spawn(folder: &Path, log: &Path) -> anyhow::Result<Child> {
    let program = env::current_exe().context("failed to find the path of this program")?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|source| windlass_plane::PlaneError::DataDir { path: folder.to_owned(), source })?;
    let file = fresh(log).with_context(|| format!("cannot write {}", log.display()))?;
    let errors = file.try_clone().context("failed to share the log file")?;
    Command::new(program)
        .args(env::args_os().skip(1))
        .arg(DETACHED)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .spawn()
        .context("failed to start the control plane")
}

/// Creates a new log. The previous one is kept as `windlass.log.1`, so that a crash can be investigated.
fn fresh(log: &Path) -> io::Result<fs::File> {
    let mut older = log.as_os_str().to_owned();
    older.push(".1");
    match fs::rename(log, &older) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::OpenOptions::new().append(true).create(true).mode(0o600).open(log)
}

fn wait(mut child: Child, folder: &Path, log: &Path, patience: Duration) -> anyhow::Result<RunningPlane> {
    let pid = child.id();
    let found = running::wait(patience, "still starting", || {
        if let Presence::Serving(running) = Presence::of(folder)?
            && running.pid == pid
        {
            return Ok(Some(Ok(running)));
        }
        Ok(child.try_wait().context("failed to wait for the control plane")?.map(Err))
    })?;
    let message = match found {
        Some(Ok(running)) => return Ok(running),
        Some(Err(exit)) => format!("the control plane exited before it was serving ({exit})"),
        None => {
            // A plane that is not serving by now is killed. It may have exited by itself.
            let _ = child.kill();
            let _ = child.wait();
            format!("the control plane was not serving within {} seconds", patience.as_secs())
        }
    };
    let tail = tail(log).unwrap_or_default();
    let said =
        tail.iter().filter(|line| !line.starts_with("hint: ")).map(|line| format!("\n  {line}")).collect::<String>();
    Err(ErrorWithHint { message: format!("{message}{said}"), hint: hint(&tail, log).into() }.into())
}

/// The hint of the plane itself, or where to read more.
fn hint(tail: &[String], log: &Path) -> String {
    let advised = tail.iter().rev().find_map(|line| line.strip_prefix("hint: "));
    advised.map_or_else(|| format!("see the full log in {}", log.display()), str::to_owned)
}

/// Last lines of the log.
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
    fn the_tail_has_the_last_lines_and_the_hint_of_the_plane() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path());
        let lines: String = (0..5000).map(|line| format!("line {line}\n")).collect();
        fs::write(&log, format!("{lines}error: it is broken\nhint: repair it\n")).unwrap();
        let last = tail(&log).unwrap();
        assert_eq!(last.len(), TAIL.1);
        assert_eq!(last[TAIL.1 - 3..], ["line 4999", "error: it is broken", "hint: repair it"]);
        assert_eq!(hint(&last, &log), "repair it");
        assert_eq!(hint(&last[..2], &log), format!("see the full log in {}", log.display()));
    }
}
