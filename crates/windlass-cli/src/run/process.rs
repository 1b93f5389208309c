//! Programs that a run starts: cargo and the operator.
//!
//! Each is a session of its own, so that Ctrl-C in the terminal is for this program alone, and does not outlive it,
//! however it ends.

use std::{
    ffi::OsString,
    io,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader},
    process::{Child, Command},
    task::JoinSet,
};

use super::event::{Event, Reporter, Source};

/// How long output may go on after the end: somebody else may have inherited the pipe.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Longer lines become several.
const LONGEST_LINE: u64 = 8192;

/// A program that has been started; killed, with all that it started, when dropped.
pub(crate) struct Process {
    child: Child,
    leader: Pid,
    over: bool,
    output: JoinSet<()>,
}

/// What to start.
pub(crate) struct Plan {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) variables: Vec<(&'static str, OsString)>,
    pub(crate) source: Source,
}

impl Process {
    /// Starts it in a folder. Its output is reported; standard output goes where it is told instead, if somewhere.
    ///
    /// To be called by the main thread: the system ends the program when the thread that started it ends.
    pub(crate) fn start<F>(plan: Plan, folder: &Path, reporter: &Reporter, lines: Option<F>) -> io::Result<Self>
    where
        F: FnMut(String) + Send + 'static,
    {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(windlass_plane::POD_PROCESS).arg("--").arg(plan.program).args(plan.arguments);
        command.envs(plan.variables).current_dir(folder).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let leader = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let leader = leader.ok_or_else(|| io::Error::other("the program has ended at once"))?;
        let mut output = JoinSet::new();
        if let Some(stderr) = child.stderr.take() {
            output.spawn(report(stderr, plan.source, reporter.clone()));
        }
        match (child.stdout.take(), lines) {
            (Some(stdout), Some(mut lines)) => {
                output.spawn(async move {
                    let mut stdout = BufReader::new(stdout).lines();
                    while let Ok(Some(line)) = stdout.next_line().await {
                        lines(line);
                    }
                });
            }
            (Some(stdout), None) => {
                output.spawn(report(stdout, plan.source, reporter.clone()));
            }
            (None, _) => {}
        }
        Ok(Self { child, leader, over: false, output })
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.leader.as_raw_pid().unsigned_abs()
    }

    /// Waits for its end, and for what it had to say. May be dropped and called again.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.over = true;
        let all = async { while self.output.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LAST_WORDS, all).await;
        Ok(status)
    }

    /// Asks it to end, and ends it if it has not done so in time.
    pub(crate) async fn stop(mut self, deadline: Duration) -> Option<ExitStatus> {
        self.signal(Signal::TERM);
        let ended = tokio::time::timeout(deadline, self.wait()).await;
        ended.ok().and_then(Result::ok)
    }

    fn signal(&self, signal: Signal) {
        // A program that has just been started may not have made its session yet.
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

/// How a program ended, in words.
pub(crate) fn ending(status: io::Result<ExitStatus>) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("ended with code {code}"),
            (_, Some(signal)) => format!("was ended by signal {signal}"),
            _ => "ended".to_owned(),
        },
        Err(error) => format!("cannot be waited for: {error}"),
    }
}

async fn report(stream: impl AsyncRead + Unpin, source: Source, reporter: Reporter) {
    let mut stream = BufReader::new(stream);
    let mut bytes = Vec::new();
    while let Ok(1..) = (&mut stream).take(LONGEST_LINE).read_until(b'\n', &mut bytes).await {
        let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        reporter.tell(Event::Line(source, line)).await;
        bytes.clear();
    }
}
