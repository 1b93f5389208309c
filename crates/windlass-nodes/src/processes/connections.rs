//! Access to processes for clients: logs, `exec`, `attach` and `port-forward`.

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
};

use async_trait::async_trait;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    net::TcpStream,
    sync::{broadcast::error::RecvError, mpsc},
};
use windlass_apiserver::{
    body::Chunks,
    pod_connections::{Connection, LogOptions, PodConnections, Process, Streams, TerminalSize},
    status::{ApiError, Result},
};

use super::{
    Inner, Processes,
    container::Instance,
    launch::{ProcessSpec, Started, Talk, Terminal, exit_code},
    log_path, logs,
    status::RunState,
};

/// Number of terminal sizes that may be queued.
const SIZES: usize = 8;
/// Bytes of a container's output that may be queued for an attached client.
const WAITING: usize = 64 << 10;

impl Processes {
    fn log(&self, pod: &Value, container: &str, options: LogOptions) -> Result<Chunks> {
        let run = self.run_of(uid(pod));
        let (path, progress) = match &run {
            Some(run) => {
                let seen = run.seen(container).ok_or_else(|| not_found(container))?;
                // A waiting container has run before: its current log is the one of its last run.
                let waits = matches!(seen.state, RunState::Waiting { .. });
                let number = seen.restarts - i32::from(options.previous && !waits);
                let instance = run.instance(container).filter(|_| !options.previous);
                (run.log_path(container, number), instance.map(|instance| instance.log.progress()))
            }
            None => (self.old_log(pod, container, options.previous), None),
        };
        if !path.exists() {
            return Err(ApiError::bad_request(format!("the log of container {container:?} is no longer available")));
        }
        Ok(logs::read(path, options, progress))
    }

    async fn exec(&self, pod: &Value, container: &str, command: Vec<String>, streams: Streams) -> Result<Process> {
        let instance = self.running(pod, container)?;
        let words = command.iter().map(|word| instance.mounts.rewrite(word)).collect();
        let mut plan = ProcessSpec { words, ..instance.plan.clone() };
        let talk = match streams.tty {
            true => {
                plan.environment.entry("TERM".to_owned()).or_insert_with(|| "xterm".to_owned());
                Talk::Terminal
            }
            false => Talk::Pipes { stdin: streams.stdin },
        };
        let started = self.inner.shared.spawner.start(plan, talk).await;
        let started =
            started.map_err(|error| ApiError::internal(format!("error executing command in container: {error}")))?;
        let process = connect(started, &instance, streams);
        process.map_err(|error| ApiError::internal(format!("error executing command in container: {error}")))
    }

    async fn port_forward(&self, pod: &Value, port: u16) -> Result<Connection> {
        let run = self.run_of(uid(pod)).filter(|run| !run.is_over());
        let address = run.and_then(|run| run.addresses.pod);
        let address = address.ok_or_else(|| ApiError::bad_request("the pod is not running"))?;
        let connected = TcpStream::connect((address, port)).await;
        let stream = connected.map_err(|error| {
            ApiError::internal(format!("failed to connect to {address}:{port} (the address of the pod): {error}"))
        })?;
        let _ = stream.set_nodelay(true);
        Ok(Box::pin(stream))
    }
}

/// Serves connections to pods while the runtime exists.
pub(super) struct ProcessConnections(pub(super) Weak<Inner>);

impl ProcessConnections {
    fn processes(&self) -> Result<Processes> {
        let inner = self.0.upgrade().ok_or_else(|| ApiError::internal("the node has stopped"))?;
        Ok(Processes { inner })
    }
}

#[async_trait]
impl PodConnections for ProcessConnections {
    async fn log(&self, pod: &Value, container: &str, options: LogOptions) -> Result<Chunks> {
        self.processes()?.log(pod, container, options)
    }

    async fn exec(&self, pod: &Value, container: &str, command: Vec<String>, streams: Streams) -> Result<Process> {
        self.processes()?.exec(pod, container, command, streams).await
    }

    async fn attach(&self, pod: &Value, container: &str, streams: Streams) -> Result<Process> {
        Ok(attach(self.processes()?.running(pod, container)?, streams))
    }

    async fn port_forward(&self, pod: &Value, port: u16) -> Result<Connection> {
        self.processes()?.port_forward(pod, port).await
    }
}

impl Processes {
    fn running(&self, pod: &Value, container: &str) -> Result<Arc<Instance>> {
        let run = self.run_of(uid(pod)).ok_or_else(|| not_found(container))?;
        let instance = run.instance(container).filter(|instance| instance.ended.borrow().is_none());
        instance.ok_or_else(|| not_found(container))
    }

    /// The log of a pod that an earlier plane ran.
    fn old_log(&self, pod: &Value, container: &str, previous: bool) -> PathBuf {
        let statuses = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"].into_iter();
        let mut statuses = statuses.filter_map(|field| pod["status"][field].as_array()).flatten();
        let restarts = statuses.find(|status| status["name"] == container).map(|status| &status["restartCount"]);
        let restarts = restarts.and_then(Value::as_i64).and_then(|count| i32::try_from(count).ok()).unwrap_or(0);
        let directory = self.inner.shared.directory.join("pods").join(uid(pod));
        log_path(&directory, container, restarts.saturating_sub(i32::from(previous)))
    }
}

fn uid(pod: &Value) -> &str {
    pod["metadata"]["uid"].as_str().unwrap_or_default()
}

fn not_found(container: &str) -> ApiError {
    ApiError::internal(format!("unable to upgrade connection: container not found ({container:?})"))
}

/// Connects a command that runs alongside a container and ends with it.
fn connect(mut started: Started, instance: &Instance, streams: Streams) -> std::io::Result<Process> {
    let mut process =
        Process { stdin: None, stdout: None, stderr: None, resize: None, exit: Box::pin(async { Ok(0) }) };
    if let Some(stdin) = started.stdin.take() {
        process.stdin = Some(Box::pin(stdin));
    }
    if let Some(stdout) = started.stdout.take() {
        process.stdout = Some(Box::pin(stdout));
    }
    if let Some(stderr) = started.stderr.take() {
        process.stderr = Some(Box::pin(stderr));
    }
    let terminal = started.terminal.take();
    if let Some(terminal) = &terminal {
        let (read, write) = terminal.handles()?;
        process.stdout = Some(Box::pin(read));
        process.stdin = streams.stdin.then(|| Box::pin(write) as _);
    }
    let (resize, sizes) = mpsc::channel(SIZES);
    process.resize = terminal.is_some().then_some(resize);
    let mut container = instance.ended.clone();
    process.exit = Box::pin(async move {
        let code = tokio::select! {
            ended = started.child.wait() => ended.map(exit_code).map_err(|error| ApiError::internal(error.to_string())),
            _ = container.wait_for(Option::is_some) => Ok(137),
            never = follow_sizes(terminal.as_ref(), sizes) => never,
        };
        started.group.leader_ended();
        code
    });
    Ok(process)
}

/// Applies the client's terminal sizes. Never returns.
async fn follow_sizes<T>(terminal: Option<&Terminal>, mut sizes: mpsc::Receiver<TerminalSize>) -> T {
    while let Some(size) = sizes.recv().await {
        if let Some(terminal) = terminal {
            terminal.resize(size);
        }
    }
    std::future::pending().await
}

/// Attaches to the input and output of a container's main process.
fn attach(instance: Arc<Instance>, streams: Streams) -> Process {
    let mut heard = instance.attached.subscribe();
    let (stdout, mut to_stdout) = tokio::io::duplex(WAITING);
    let (stderr, mut to_stderr) = tokio::io::duplex(WAITING);
    let (stdin, from_stdin) = tokio::io::duplex(WAITING);
    let (resize, sizes) = mpsc::channel(SIZES);
    let tty = instance.terminal.is_some();
    let exit = async move {
        let listening = async {
            loop {
                let sent = match heard.recv().await {
                    Ok((logs::Stream::Stdout, bytes)) => to_stdout.write_all(&bytes).await,
                    Ok((logs::Stream::Stderr, bytes)) => to_stderr.write_all(&bytes).await,
                    // A client that is too slow misses output.
                    Err(RecvError::Lagged(_)) => Ok(()),
                    Err(RecvError::Closed) => break,
                };
                if sent.is_err() {
                    break;
                }
            }
            std::future::pending::<i32>().await
        };
        let mut ended = instance.ended.clone();
        let over = async { ended.wait_for(Option::is_some).await.ok().and_then(|code| *code).unwrap_or(0) };
        let talking = async {
            if streams.stdin {
                talk(&instance, from_stdin).await;
            }
            std::future::pending::<i32>().await
        };
        Ok(tokio::select! {
            // Deliver the last output before the exit code.
            biased;
            code = listening => code,
            code = talking => code,
            code = follow_sizes(instance.terminal.as_ref(), sizes) => code,
            code = over => code,
        })
    };
    Process {
        stdin: streams.stdin.then(|| Box::pin(stdin) as _),
        stdout: Some(Box::pin(stdout)),
        stderr: (!tty).then(|| Box::pin(stderr) as _),
        resize: tty.then_some(resize),
        exit: Box::pin(exit),
    }
}

/// Forwards a client's input to a container with an open stdin.
async fn talk(instance: &Instance, mut from: DuplexStream) {
    let mut buffer = vec![0; 4096];
    loop {
        let length = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(length) => length,
        };
        let mut stdin = instance.stdin.lock().await;
        let Some(to) = stdin.as_mut() else { return };
        if to.write_all(&buffer[..length]).await.is_err() || to.flush().await.is_err() {
            *stdin = None;
        }
    }
    if instance.stdin_once {
        *instance.stdin.lock().await = None;
    }
}
