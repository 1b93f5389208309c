//! `windlass down`: stops the plane of a data folder.

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
    failure::Advised,
    output,
    running::{self, Presence},
};

/// What a plane makes in its folder. What else is there is somebody's own, as `images.yaml`.
const OURS: &[&str] =
    &["kubeconfig", "pki", "plane.json", "runtime", "store.redb", "windlass.log", "windlass.log.1", "lock"];
/// How long a process that was killed may take to be gone.
const KILLED: Duration = Duration::from_secs(5);

/// Stop the plane of `windlass up`
///
/// Requests in flight are finished and pods that are processes end. It is no error if there is no plane.
#[derive(Debug, Args)]
pub(crate) struct DownArgs {
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// How many seconds the plane may take to stop
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    wait: u16,
    /// Remove the objects, certificates and kubeconfig, too
    #[arg(long)]
    delete_data: bool,
    /// Kill a plane that does not stop in time; do not ask before data is removed
    #[arg(long)]
    force: bool,
}

/// Stops what runs, then removes what is to be removed.
pub(crate) fn run(args: DownArgs) -> anyhow::Result<()> {
    let folder = args.data_dir.resolve()?;
    // Asked first: who says no may not want to stop, either.
    if args.delete_data && !args.force && folder.exists() && !agreed(&folder)? {
        eprintln!("nothing was done");
        return Ok(());
    }
    match Presence::of(&folder)? {
        Presence::Nobody => eprintln!("no plane runs in {}", folder.display()),
        presence => stop(&folder, &presence, &args)?,
    }
    if args.delete_data { delete(&folder) } else { Ok(()) }
}

fn stop(folder: &Path, presence: &Presence, args: &DownArgs) -> anyhow::Result<()> {
    let pid = presence.pid();
    let process = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    let (Some(pid), Some(process)) = (pid, process) else {
        return Err(Advised {
            message: format!("a plane runs in {}, but its lock does not say which process it is", folder.display()),
            hint: format!("`fuser {}` may tell; end that process", folder.join("lock").display()).into(),
        }
        .into());
    };
    // The number may be of another container or machine: nobody else's process is to be ended.
    if running::has_lock_open(pid, folder) == Some(false) {
        return Err(Advised {
            message: format!("a plane runs in {}, but not as process {pid} of this machine", folder.display()),
            hint: "it runs in another container, or on another machine that shares the folder: stop it there".into(),
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
        eprintln!("killing it, as it did not stop within {} seconds", args.wait);
        send(process, Signal::KILL)?;
        done = running::wait(KILLED, "still ending", gone)?.is_some();
    }
    if !done {
        return Err(Advised {
            message: format!("process {pid} did not stop within {} seconds", args.wait),
            hint: "wait longer with --wait, or kill it with --force".into(),
        }
        .into());
    }
    eprintln!("stopped in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn send(process: Pid, signal: Signal) -> anyhow::Result<()> {
    match kill_process(process, signal) {
        // It has ended by itself.
        Err(rustix::io::Errno::SRCH) => Ok(()),
        result => result.with_context(|| format!("cannot send a signal to process {process}")),
    }
}

fn agreed(folder: &Path) -> anyhow::Result<bool> {
    if !confirm::can_ask() {
        return Err(Advised {
            message: format!("nothing was done, as the data in {} would be lost", folder.display()),
            hint: "--force removes it without asking".into(),
        }
        .into());
    }
    let size = data_dir::size(folder).map_or_else(|_| String::new(), |size| format!(" ({})", output::bytes(size)));
    let question = format!("remove all objects, certificates and the kubeconfig in {}{size}? [y/N]", folder.display());
    Ok(confirm::is_yes(&confirm::ask(&question)?))
}

/// Removes what planes made, and the folder if nothing else is in it.
fn delete(folder: &Path) -> anyhow::Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    // A folder without is none of a plane: whoever mistyped one does not lose theirs.
    if !folder.join("lock").exists() && !folder.join("pki").exists() {
        return Err(Advised {
            message: format!("{} has no data of a plane", folder.display()),
            hint: "give the folder that `windlass up` was given".into(),
        }
        .into());
    }
    // Nobody starts meanwhile.
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
        Err(_) => eprintln!("removed the data in {}; other files stay", folder.display()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_planes_made_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("data");
        fs::create_dir_all(folder.join("pki")).unwrap();
        fs::write(folder.join("pki/ca.key"), "key").unwrap();
        fs::write(folder.join("store.redb"), "store").unwrap();
        fs::write(folder.join("images.yaml"), "mine").unwrap();
        delete(&folder).unwrap();
        let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["images.yaml"]);
        assert!(delete(&folder).is_err(), "it is no data folder any more");
        fs::remove_file(folder.join("images.yaml")).unwrap();
        fs::write(folder.join("lock"), "").unwrap();
        delete(&folder).unwrap();
        assert!(!folder.exists());
    }
}
