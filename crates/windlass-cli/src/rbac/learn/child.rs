//! The recorded command.

use std::{
    io,
    os::fd::AsFd as _,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use crate::{failure::ErrorWithHint, signals::Signals};

/// Maximum time for a command to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// By itself.
    Exited(ExitStatus),
    /// It was stopped after the given time.
    TimedOut,
    /// It was stopped by a signal to this process.
    Interrupted,
}

/// Runs a command until it exits, a signal arrives or the time is over.
pub(super) async fn run(
    program: &str,
    arguments: &[String],
    variables: &[(&str, &Path)],
    time: Option<Duration>,
    signals: &mut Signals,
) -> anyhow::Result<Ended> {
    // Standard output is reserved for the roles.
    let stderr = io::stderr().as_fd().try_clone_to_owned().context("failed to share standard error")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::from(stderr)).process_group(0).kill_on_drop(true);
    // In a pod, its service account would take precedence over a kubeconfig.
    command.env_remove("KUBERNETES_SERVICE_HOST").envs(variables.iter().copied());
    let mut child = command.spawn().map_err(|error| ErrorWithHint {
        message: format!("cannot run {program}: {error}"),
        hint: "specify a program with its arguments after --".into(),
    })?;
    let group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
    let (ended, signal) = tokio::select! {
        status = child.wait() => {
            return Ok(Ended::Exited(status.with_context(|| format!("failed to wait for {program}"))?));
        }
        () = signals.first() => (Ended::Interrupted, Signal::INT),
        () = super::after(time) => (Ended::TimedOut, Signal::TERM),
    };
    end(&mut child, &group, signal, signals).await;
    Ok(ended)
}

/// The command's process group; killed when dropped.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        // A process that has exited needs no signal.
        let _ = self.0.map(|group| kill_process_group(group, signal));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

async fn end(child: &mut Child, group: &Group, signal: Signal, signals: &mut Signals) {
    group.signal(signal);
    tokio::select! {
        _ = child.wait() => {}
        () = tokio::time::sleep(STOP_TIMEOUT) => eprintln!("killing the command: it did not stop in time"),
        () = signals.first() => {}
    }
}
