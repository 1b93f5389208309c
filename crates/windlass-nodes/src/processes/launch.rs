//! Starting and stopping processes.
//!
//! Each process has its own process group, which is terminated as a whole. A process must not outlive the plane,
//! however the plane ends: the group is killed when its handle is dropped; with a launcher, the kernel kills the
//! process when the plane dies; and a record in the pod's directory lets the next plane kill leftovers (see
//! [`leftovers`](super::leftovers)).

use std::{
    fs::File,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

use rustix::{
    process::{Pid, Signal},
    pty::{self, OpenptFlags},
    termios::{Winsize, tcsetwinsize},
};
use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    runtime::Handle,
    sync::oneshot,
};
use windlass_apiserver::pod_connections::TerminalSize;

use super::{
    environment::Environment,
    leftovers,
    root::{self, Root},
};

/// Everything that is needed to start a process.
#[derive(Debug, Clone)]
pub(super) struct ProcessSpec {
    /// The program and its arguments.
    pub(super) words: Vec<String>,
    pub(super) environment: Environment,
    pub(super) directory: PathBuf,
    /// The root file system, if not the machine's.
    pub(super) root: Option<Root>,
    /// The launcher, if any: see [`crate::exec_pod_process`].
    pub(super) launcher: Option<PathBuf>,
    /// The directory for the process record.
    pub(super) records: PathBuf,
}

/// Standard streams of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Talk {
    /// Over pipes, optionally with one for standard input.
    Pipes { stdin: bool },
    /// Over a terminal.
    Terminal,
}

/// A started process.
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) group: Group,
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: Option<ChildStdout>,
    pub(super) stderr: Option<ChildStderr>,
    pub(super) terminal: Option<Terminal>,
}

/// A process group; its remaining processes are killed when this is dropped.
#[derive(Debug)]
pub(super) struct Group {
    leader: Pid,
    record: PathBuf,
    /// Whether the leader has been reaped, so that its process id may be reused.
    over: AtomicBool,
}

impl Group {
    /// Marks the leader as reaped and kills the rest of the group.
    pub(super) fn leader_ended(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.signal(Signal::KILL);
    }

    /// Returns the id of the group, which is that of its leader.
    pub(super) fn id(&self) -> i32 {
        self.leader.as_raw_nonzero().get()
    }

    pub(super) fn signal(&self, signal: Signal) {
        // A process that has just been started may not have created its group yet. A process that has ended needs no
        // signal.
        if rustix::process::kill_process_group(self.leader, signal).is_err() && !self.over.load(Ordering::Relaxed) {
            let _ = rustix::process::kill_process(self.leader, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = std::fs::remove_file(&self.record);
    }
}

/// The master side of a terminal.
#[derive(Debug)]
pub(super) struct Terminal(OwnedFd);

impl Terminal {
    /// Returns one handle for reading and one for writing. Both block, so they need threads of their own.
    pub(super) fn handles(&self) -> io::Result<(tokio::fs::File, tokio::fs::File)> {
        let file = || io::Result::Ok(tokio::fs::File::from_std(File::from(self.0.try_clone()?)));
        Ok((file()?, file()?))
    }

    pub(super) fn resize(&self, size: TerminalSize) {
        let size = Winsize { ws_row: size.height, ws_col: size.width, ws_xpixel: 0, ws_ypixel: 0 };
        let _ = tcsetwinsize(&self.0, size);
    }
}

/// Starts a process. A program without a slash is looked up in the `PATH` of its environment.
fn start(plan: &ProcessSpec, talk: Talk) -> io::Result<Started> {
    let words =
        plan.root.as_ref().map_or_else(|| plan.words.clone(), |root| root::enter(root, &plan.words, &plan.environment));
    let [program, arguments @ ..] = &*words else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no command specified"));
    };
    let program = find(program, &plan.environment, &plan.directory).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("exec: {program:?}: executable file not found in $PATH"))
    })?;
    let mut command = match &plan.launcher {
        Some(launcher) => {
            let mut command = Command::new(launcher);
            command.arg(crate::POD_PROCESS);
            if talk == Talk::Terminal {
                command.arg("--terminal");
            }
            command.arg("--").arg(program);
            command
        }
        None => {
            let mut command = Command::new(program);
            command.process_group(0);
            command
        }
    };
    command.args(arguments).env_clear().envs(&plan.environment).current_dir(&plan.directory).kill_on_drop(true);
    let terminal = match talk {
        Talk::Pipes { stdin } => {
            command.stdin(if stdin { Stdio::piped() } else { Stdio::null() });
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            None
        }
        Talk::Terminal => {
            let (near, far) = terminal()?;
            command.stdin(far.try_clone()?).stdout(far.try_clone()?).stderr(far);
            Some(Terminal(near))
        }
    };
    let mut child = command.spawn()?;
    let leader = child.id().and_then(|id| Pid::from_raw(id as i32));
    let leader = leader.ok_or_else(|| io::Error::other("the process has no id"))?;
    let record = leftovers::record(&plan.records, leader)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    Ok(Started {
        group: Group { leader, record, over: AtomicBool::new(false) },
        child,
        stdin,
        stdout,
        stderr,
        terminal,
    })
}

/// Opens a terminal and returns both sides.
fn terminal() -> io::Result<(OwnedFd, File)> {
    let near = pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    pty::grantpt(&near)?;
    pty::unlockpt(&near)?;
    let name = pty::ptsname(&near, Vec::new())?;
    let name = name.to_str().map_err(io::Error::other)?;
    let far = std::fs::OpenOptions::new().read(true).write(true).open(name)?;
    Ok((near, far))
}

/// Returns the path of a program.
fn find(program: &str, environment: &Environment, directory: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let runs = |path: &Path| path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    if program.contains('/') {
        let path = directory.join(program);
        if runs(&path) {
            return Some(path);
        }
        // Images have programs in other places than this machine: `/bin/sh`, `/usr/local/bin/redis-server`.
        let name = Path::new(program).file_name()?.to_str()?;
        return find(name, environment, directory);
    }
    let directories = environment.get("PATH").map(String::as_str).unwrap_or_default();
    std::env::split_paths(directories).map(|directory| directory.join(program)).find(|path| runs(path))
}

/// The exit code of a process; 128 plus the signal number if it was killed.
pub(super) fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(255)
}

/// Starts processes, all on one thread: the kernel regards the thread that started a process as its parent, and kills
/// the process with it. The thread ends when the last handle is dropped.
#[derive(Clone)]
pub(super) struct Spawner(mpsc::Sender<Job>);

struct Job {
    plan: ProcessSpec,
    talk: Talk,
    runtime: Handle,
    answer: oneshot::Sender<io::Result<Started>>,
}

impl Spawner {
    pub(super) fn new() -> io::Result<Self> {
        let (sender, jobs) = mpsc::channel::<Job>();
        std::thread::Builder::new().name("pod-processes".to_owned()).spawn(move || {
            for Job { plan, talk, runtime, answer } in jobs {
                let _guard = runtime.enter();
                // If the caller has been dropped, the process is dropped, which kills it.
                let _ = answer.send(start(&plan, talk));
            }
        })?;
        Ok(Self(sender))
    }

    pub(super) async fn start(&self, plan: ProcessSpec, talk: Talk) -> io::Result<Started> {
        let (answer, started) = oneshot::channel();
        let stopped = || io::Error::other("the process launcher has stopped");
        self.0.send(Job { plan, talk, runtime: Handle::current(), answer }).map_err(|_| stopped())?;
        started.await.map_err(|_| stopped())?
    }

    /// Runs a command without input and returns its exit code.
    pub(super) async fn run(&self, plan: ProcessSpec) -> io::Result<i32> {
        let mut started = self.start(plan, Talk::Pipes { stdin: false }).await?;
        // Drain the output, which would block the command otherwise.
        let (mut stdout, mut stderr) = (started.stdout.take(), started.stderr.take());
        let reading = async {
            let (mut out, mut err) = (tokio::io::sink(), tokio::io::sink());
            let out = async {
                if let Some(from) = &mut stdout {
                    let _ = tokio::io::copy(from, &mut out).await;
                }
            };
            let err = async {
                if let Some(from) = &mut stderr {
                    let _ = tokio::io::copy(from, &mut err).await;
                }
            };
            tokio::join!(out, err);
            std::future::pending().await
        };
        let code = tokio::select! {
            ended = started.child.wait() => ended.map(exit_code),
            never = reading => never,
        };
        started.group.leader_ended();
        code
    }
}
