//! `windlass down`: stops the plane of a data directory.

use std::{
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use windlass_plane::DataDirLock;

use crate::{
    confirm,
    data_dir::{self, DataDirArgs},
    failure::ErrorWithHint,
    output,
    running::{self, Presence},
};

/// Entries that a plane creates in its directory. Others, such as `images.yaml`, belong to the user.
const OURS: &[&str] =
    &["kubeconfig", "pki", "plane.json", "runtime", "store.redb", "windlass.log", "windlass.log.1", "lock"];
/// Maximum time for a killed process to disappear.
const KILLED: Duration = Duration::from_secs(5);

/// Stop the control plane started by `windlass up`
///
/// Requests in flight are completed, and processes of pods are terminated. It is not an error if no control plane is
/// running.
#[derive(Debug, Args)]
pub(crate) struct DownArgs {
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// Seconds to wait for the control plane to stop
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    wait: u16,
    /// Delete the objects, certificates and kubeconfig as well
    #[arg(long)]
    delete_data: bool,
    /// Kill a control plane that does not stop in time, and delete data without asking
    #[arg(long)]
    force: bool,
}

/// Stops the running plane, then deletes its data if requested.
pub(crate) fn run(args: DownArgs) -> anyhow::Result<()> {
    let folder = args.data_dir.resolve()?;
    // Ask first: a user who declines may not want to stop the plane, either.
    if args.delete_data && !args.force && folder.exists() && !agreed(&folder)? {
        eprintln!("aborted");
        return Ok(());
    }
    match Presence::of(&folder)? {
        Presence::Nobody => eprintln!("no control plane is running in {}", folder.display()),
        presence => stop(&folder, &presence, &args)?,
    }
    if args.delete_data { delete(&folder) } else { Ok(()) }
}

fn stop(folder: &Path, presence: &Presence, args: &DownArgs) -> anyhow::Result<()> {
    let pid = presence.pid();
    let process = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    let (Some(pid), Some(process)) = (pid, process) else {
        return Err(ErrorWithHint {
            message: format!(
                "a control plane is running in {}, but its lock file does not name the process",
                folder.display()
            ),
            hint: format!("find the process with `fuser {}` and terminate it", folder.join("lock").display()).into(),
        }
        .into());
    };
    // The process id may belong to another container or machine; an unrelated process must not be killed.
    if running::has_lock_open(pid, folder) == Some(false) {
        return Err(ErrorWithHint {
            message: format!(
                "a control plane is running in {}, but not as process {pid} of this machine",
                folder.display()
            ),
            hint: "it is running in another container, or on another machine that shares the directory: stop it there"
                .into(),
        }
        .into());
    }
    match presence {
        Presence::Serving(running) => eprintln!("stopping {} (process {pid})", running.url),
        _ => eprintln!("stopping process {pid}"),
    }
    let start = Instant::now();
    send(process, Signal::TERM)?;
    let gone = || Ok((Presence::of(folder)?.pid() != Some(pid)).then_some(()));
    let patience = Duration::from_secs(args.wait.into());
    let mut done = running::wait(patience, "still stopping", gone)?.is_some();
    if !done && args.force {
        eprintln!("killing the control plane: it did not stop within {} seconds", args.wait);
        send(process, Signal::KILL)?;
        done = running::wait(KILLED, "still ending", gone)?.is_some();
    }
    if !done {
        return Err(ErrorWithHint {
            message: format!("process {pid} did not stop within {} seconds", args.wait),
            hint: "wait longer with --wait, or kill the process with --force".into(),
        }
        .into());
    }
    eprintln!("stopped in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn send(process: Pid, signal: Signal) -> anyhow::Result<()> {
    match kill_process(process, signal) {
        // The process has exited by itself.
        Err(rustix::io::Errno::SRCH) => Ok(()),
        result => result.with_context(|| format!("failed to send a signal to process {process}")),
    }
}

fn agreed(folder: &Path) -> anyhow::Result<bool> {
    if !confirm::can_ask() {
        return Err(ErrorWithHint {
            message: format!("aborted: the data in {} would be lost", folder.display()),
            hint: "use --force to delete it without asking".into(),
        }
        .into());
    }
    let size = data_dir::size(folder).map_or_else(|_| String::new(), |size| format!(" ({})", output::bytes(size)));
    let question = format!("delete all objects, certificates and the kubeconfig in {}{size}? [y/N]", folder.display());
    Ok(confirm::is_yes(&confirm::ask(&question)?))
}

/// Deletes the entries that planes created, and the directory if nothing else is in it.
fn delete(folder: &Path) -> anyhow::Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    // A directory without these is not a data directory: a mistyped path must not lose data.
    if !folder.join("lock").exists() && !folder.join("pki").exists() {
        return Err(ErrorWithHint {
            message: format!("{} is not a data directory", folder.display()),
            hint: "use the same --data-dir as for `windlass up`".into(),
        }
        .into());
    }
    // Prevents a plane from starting in the meantime.
    let _lock = DataDirLock::acquire(folder)?;
    for name in OURS {
        let path = folder.join(name);
        let removed = match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        removed.with_context(|| format!("cannot remove {}", path.display()))?;
    }
    match fs::remove_dir(folder) {
        Ok(()) => eprintln!("removed {}", folder.display()),
        Err(_) => eprintln!("deleted the data in {}; other files are kept", folder.display()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_planes_are_deleted() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("data");
        fs::create_dir_all(folder.join("pki")).unwrap();
        fs::write(folder.join("pki/ca.key"), "key").unwrap();
        fs::write(folder.join("store.redb"), "store").unwrap();
        fs::write(folder.join("images.yaml"), "mine").unwrap();
        delete(&folder).unwrap();
        let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["images.yaml"]);
        assert!(delete(&folder).is_err(), "it is no longer a data directory");
        fs::remove_file(folder.join("images.yaml")).unwrap();
        fs::write(folder.join("lock"), "").unwrap();
        delete(&folder).unwrap();
        assert!(!folder.exists());
    }
}
