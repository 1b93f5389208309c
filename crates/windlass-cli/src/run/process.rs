//! Child processes of a run: cargo and the operator.
//!
//! Each has its own session, so that Ctrl-C in the terminal only reaches this program, and never outlives this program.

use std::{
    ffi::OsString,
    io,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use futures_util::FutureExt as _;
use rustix::process::{Pid, Signal};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader},
    process::{Child, Command},
    task::JoinSet,
};

use super::event::{Event, Reporter, Source};

/// Maximum time for reading output after the exit: another process may have inherited the pipe.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Longer lines are split.
const LONGEST_LINE: u64 = 8192;

/// A running process; killed with its whole process group when dropped.
pub(crate) struct Process {
    child: Child,
    leader: Pid,
    over: bool,
    output: JoinSet<()>,
}

/// The command to run.
pub(crate) struct CommandLine {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) variables: Vec<(&'static str, OsString)>,
    pub(crate) source: Source,
}

impl Process {
    /// Starts the command in a directory and reports its output; lines of standard output go to `lines` if given.
    ///
    /// Must be called from the main thread: the system kills the process when the thread that started it exits.
    pub(crate) fn start<F>(
        command_line: CommandLine,
        folder: &Path,
        reporter: &Reporter,
        lines: Option<F>,
    ) -> io::Result<Self>
    where
        F: FnMut(String) + Send + 'static,
    {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(windlass_plane::POD_PROCESS).arg("--").arg(command_line.program).args(command_line.arguments);
        command.envs(command_line.variables).current_dir(folder).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let leader = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let leader = leader.ok_or_else(|| io::Error::other("the process exited at once"))?;
        let mut output = JoinSet::new();
        if let Some(stderr) = child.stderr.take() {
            output.spawn(report(stderr, command_line.source, reporter.clone()).boxed());
        }
        match (child.stdout.take(), lines) {
            (Some(stdout), Some(mut lines)) => {
                let task = async move {
                    let mut stdout = BufReader::new(stdout).lines();
                    while let Ok(Some(line)) = stdout.next_line().await {
                        lines(line);
                    }
                };
                output.spawn(task.boxed());
            }
            (Some(stdout), None) => {
                output.spawn(report(stdout, command_line.source, reporter.clone()).boxed());
            }
            (None, _) => {}
        }
        Ok(Self { child, leader, over: false, output })
    }

    /// Process id.
    pub(crate) fn id(&self) -> u32 {
        self.leader.as_raw_pid().unsigned_abs()
    }

    /// Waits for the exit and the rest of the output. Cancel-safe.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.over = true;
        let all = async { while self.output.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LAST_WORDS, all).await;
        Ok(status)
    }

    /// Asks it to stop, and kills it if it does not stop in time.
    pub(crate) async fn stop(mut self, deadline: Duration) -> Option<ExitStatus> {
        self.signal(Signal::TERM);
        let ended = tokio::time::timeout(deadline, self.wait()).await;
        ended.ok().and_then(Result::ok)
    }

    fn signal(&self, signal: Signal) {
        // A process that has just been started may not have created its session yet.
        if rustix::process::kill_process_group(self.leader, signal).is_err() && !self.over {
            let _ = rustix::process::kill_process(self.leader, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Describes how a process exited.
pub(crate) fn ending(status: io::Result<ExitStatus>) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exited with code {code}"),
            (_, Some(signal)) => format!("was killed by signal {signal}"),
            _ => "ended".to_owned(),
        },
        Err(error) => format!("ended, but its exit status is unknown: {error}"),
    }
}

async fn report(stream: impl AsyncRead + Unpin, source: Source, reporter: Reporter) {
    let mut stream = BufReader::new(stream);
    let mut bytes = Vec::new();
    while let Ok(1..) = (&mut stream).take(LONGEST_LINE).read_until(b'\n', &mut bytes).await {
        let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        reporter.send(Event::Line(source, line)).await;
        bytes.clear();
    }
}
