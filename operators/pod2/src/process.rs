//! Starts and ends a process together with its children.

use std::{fs, io, os::unix::process::ExitStatusExt as _, process::ExitStatus, process::Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use crate::api::pod2::Container;

/// Environment variable with the UID of the Pod2, which identifies processes that are left over.
const OWNER: &str = "POD2_UID";

/// A process in its own process group, which is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    group: Option<Pid>,
}

impl Process {
    /// Starts a container of the Pod2 with this UID.
    pub(crate) fn start(container: &Container, uid: &str) -> io::Result<Self> {
        let (program, arguments) = container.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).process_group(0).kill_on_drop(true);
        command.envs(container.env.iter().map(|variable| (&variable.name, &variable.value))).env(OWNER, uid);
        if let Some(folder) = &container.working_dir {
            command.current_dir(folder);
        }
        let child = command.spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(Self { child, group })
    }

    /// Returns the process ID.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits for the process to exit and returns its exit code, or 128 plus the number of the signal.
    pub(crate) async fn ended(&mut self) -> i32 {
        self.child.wait().await.map_or(-1, code)
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // A group that has exited needs no signal.
        if let Some(group) = self.group {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

/// Kills a process of a Pod2 that is left over from an operator that was killed. Process IDs are reused, so only a
/// process that has the UID of the Pod2 in its environment is killed.
pub(crate) fn end_leftover(pid: u32, uid: &str) {
    let mark = format!("{OWNER}={uid}");
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return };
    if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        && let Some(group) = Pid::from_raw(pid.cast_signed())
    {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Container {
        let command = ["sh", "-c", script].map(str::to_owned).to_vec();
        Container { name: "main".to_owned(), command, env: Vec::new(), working_dir: None }
    }

    #[tokio::test]
    async fn exit_codes_and_signals_are_reported() {
        for (script, expected) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
            assert_eq!(Process::start(&shell(script), "u").unwrap().ended().await, expected, "{script}");
        }
    }

    #[tokio::test]
    async fn only_processes_of_the_same_object_are_leftovers() {
        let mut process = Process::start(&shell("exec sleep 600"), "mine").unwrap();
        let pid = process.id().unwrap();
        // The shell executes another program, whose environment becomes readable slightly later than its name.
        let become_sleep = || {
            let is = |file: &str, text: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap().contains(text);
            is("comm", "sleep") && is("environ", "POD2_UID=mine")
        };
        while !become_sleep() {
            tokio::task::yield_now().await;
        }
        end_leftover(pid, "other");
        assert!(fs::exists(format!("/proc/{pid}")).unwrap());
        end_leftover(pid, "mine");
        assert_eq!(process.ended().await, 137);
    }
}
