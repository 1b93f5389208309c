//! The launcher's side: a process that is about to exec a container's program.

use std::{ffi::OsString, io, os::unix::process::CommandExt as _, process::Command};

use rustix::process::Signal;

/// The first argument of a [launcher](crate::ProcessOptions::launcher).
pub const POD_PROCESS: &str = "pod-process";

/// Performs the work of a launcher with the arguments after [`POD_PROCESS`]: starts a new session, makes standard input
/// the controlling terminal if the first argument is `--terminal`, asks to be killed when its parent dies, and executes
/// the program after `--`. Returns only on failure.
pub fn exec_pod_process(arguments: impl IntoIterator<Item = OsString>) -> io::Error {
    let mut arguments = arguments.into_iter().peekable();
    let terminal = arguments.next_if(|first| first == "--terminal").is_some();
    arguments.next_if(|first| first == "--");
    let Some(program) = arguments.next() else {
        return io::Error::new(io::ErrorKind::InvalidInput, "no program specified");
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
