//! The other side of a launcher: a process that is about to become one of a pod.

use std::{ffi::OsString, io, os::unix::process::CommandExt as _, process::Command};

use rustix::process::Signal;

/// The first argument of a [launcher](crate::ProcessOptions::launcher).
pub const POD_PROCESS: &str = "pod-process";

/// What a launcher does with the arguments after [`POD_PROCESS`]: the process gets a session of its own, takes its
/// standard input as its terminal if the first one is `--terminal`, is killed when the one that started it dies, and
/// becomes the program named after `--`. Returns only if that fails.
pub fn become_pod_process(arguments: impl IntoIterator<Item = OsString>) -> io::Error {
    let mut arguments = arguments.into_iter().peekable();
    let terminal = arguments.next_if(|first| first == "--terminal").is_some();
    arguments.next_if(|first| first == "--");
    let Some(program) = arguments.next() else {
        return io::Error::new(io::ErrorKind::InvalidInput, "there is no program to become");
    };
    if let Err(error) = prepare(terminal) {
        return error;
    }
    Command::new(program).args(arguments).exec()
}

fn prepare(terminal: bool) -> io::Result<()> {
    rustix::process::setsid()?;
    if terminal {
        rustix::process::ioctl_tiocsctty(io::stdin())?;
    }
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}
