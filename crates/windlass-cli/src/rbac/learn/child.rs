//! The command that is watched.

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

use crate::{failure::Advised, signals::Signals};

/// How long a command that is told to end may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a command until it ends; until it is told to, by a signal or after a time, it answers with nothing.
pub(super) async fn run(
    program: &str,
    arguments: &[String],
    variables: &[(&str, &Path)],
    time: Option<Duration>,
    signals: &mut Signals,
) -> anyhow::Result<Option<ExitStatus>> {
    // What is printed on standard output is the roles.
    let stderr = io::stderr().as_fd().try_clone_to_owned().context("cannot share standard error")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::from(stderr)).process_group(0).kill_on_drop(true);
    // Within a pod, its account would count more than a kubeconfig.
    command.env_remove("KUBERNETES_SERVICE_HOST").envs(variables.iter().copied());
    let mut child = command.spawn().map_err(|error| Advised {
        message: format!("cannot run {program}: {error}"),
        hint: "give a program after --, with its arguments".into(),
    })?;
    let group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
    let signal = tokio::select! {
        status = child.wait() => return Ok(Some(status.with_context(|| format!("cannot wait for {program}"))?)),
        () = signals.first() => Signal::INT,
        () = super::after(time) => Signal::TERM,
    };
    end(&mut child, &group, signal, signals).await;
    Ok(None)
}

/// The command and all that it has started; ended when dropped.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        // Who has ended already needs no signal.
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
        () = tokio::time::sleep(PATIENCE) => eprintln!("it does not end, and is killed"),
        () = signals.first() => {}
    }
}
