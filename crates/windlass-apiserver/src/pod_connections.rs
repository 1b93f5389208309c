//! Connections to running pods: logs, commands and ports.
//!
//! On a cluster, the API server forwards such requests to the kubelet of the pod's node. Here a [`PodConnections`],
//! passed to the [`ServerBuilder`](crate::ServerBuilder), takes its place. The server speaks the protocols of the
//! clients (WebSocket, SPDY) and checks requests against the pod.

use std::{future::Future, pin::Pin};

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

use crate::{body::Chunks, status::Result};

/// Bytes from a process.
pub type Output = Pin<Box<dyn AsyncRead + Send>>;
/// Bytes to a process.
pub type Input = Pin<Box<dyn AsyncWrite + Send>>;
/// A connection to a port of a pod.
pub type Connection = Pin<Box<dyn ReadWrite>>;

/// Bytes in both directions.
pub trait ReadWrite: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> ReadWrite for T {}

/// The requested part and form of a container's log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogOptions {
    /// Whether to follow the log until the container ends.
    pub follow: bool,
    /// Whether to return the log of the previous instance of the container.
    pub previous: bool,
    /// Whether every line begins with the time at which it was written.
    pub timestamps: bool,
    /// Only lines since this time are returned.
    pub since: Option<Timestamp>,
    /// The number of lines to return from the end of the log.
    pub tail_lines: Option<usize>,
    /// The maximum number of bytes to return.
    pub limit_bytes: Option<u64>,
}

/// The requested streams of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Streams {
    /// Whether the client writes to standard input.
    pub stdin: bool,
    /// Whether the client reads standard output.
    pub stdout: bool,
    /// Whether the client reads standard error; a process with a terminal has none.
    pub stderr: bool,
    /// Whether the process has a terminal.
    pub tty: bool,
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// A process that a client is connected to. Dropping it ends everything that only this client uses.
pub struct Process {
    /// Standard input; dropping it closes the stream.
    pub stdin: Option<Input>,
    /// Standard output.
    pub stdout: Option<Output>,
    /// Standard error.
    pub stderr: Option<Output>,
    /// Accepts new sizes of the client's terminal.
    pub resize: Option<mpsc::Sender<TerminalSize>>,
    /// Resolves with the exit code when the process has ended.
    pub exit: Pin<Box<dyn Future<Output = Result<i32>> + Send>>,
}

/// Connects clients to the pods of nodes.
///
/// The server calls it only for pods that are assigned to a node, and for containers that the pod has. Errors are
/// returned to the client unchanged. Pods are JSON values: a typed pod would add a copy of the serde code of all pod
/// types to the server.
#[async_trait]
pub trait PodConnections: Send + Sync {
    /// Returns the log of a container that has started at least once.
    async fn log(&self, pod: &Value, container: &str, options: LogOptions) -> Result<Chunks>;

    /// Runs a command alongside a running container.
    async fn exec(&self, pod: &Value, container: &str, command: Vec<String>, streams: Streams) -> Result<Process>;

    /// Connects to the main process of a running container.
    async fn attach(&self, pod: &Value, container: &str, streams: Streams) -> Result<Process>;

    /// Connects to a port of the pod.
    async fn port_forward(&self, pod: &Value, port: u16) -> Result<Connection>;
}
