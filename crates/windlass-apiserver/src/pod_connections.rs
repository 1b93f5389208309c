//! What answers for running pods: the server asks it for logs and for connections to their processes.
//!
//! On a cluster the API server passes such requests on to the kubelet of the pod's node. Here a [`PodConnections`] that is
//! handed to the [`ServerBuilder`](crate::ServerBuilder) takes its place; the server speaks the protocols of the clients
//! (WebSocket, SPDY) and checks what a request says about the pod.

use std::{future::Future, pin::Pin};

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
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

/// Which part of a container's log is wanted, and how.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogOptions {
    /// Go on with what is written from now, until the container ends.
    pub follow: bool,
    /// The log of the instance before the present one.
    pub previous: bool,
    /// Every line begins with the time it was written at.
    pub timestamps: bool,
    /// Only lines written since.
    pub since: Option<Timestamp>,
    /// Only so many of the last lines.
    pub tail_lines: Option<usize>,
    /// At most so many bytes.
    pub limit_bytes: Option<u64>,
}

/// Which streams of a process are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Streams {
    /// What the client types goes to the process.
    pub stdin: bool,
    /// The client reads the standard output.
    pub stdout: bool,
    /// The client reads the standard error; with a terminal there is none.
    pub stderr: bool,
    /// The process has a terminal.
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

/// A process that a client is connected to. Dropping it ends what only this client wanted.
pub struct Process {
    /// Where to write what the client sends; closed when this is dropped.
    pub stdin: Option<Input>,
    /// What the process writes.
    pub stdout: Option<Output>,
    /// What it writes as errors.
    pub stderr: Option<Output>,
    /// Where to tell of a new size of the client's terminal.
    pub resize: Option<mpsc::Sender<TerminalSize>>,
    /// Resolves with the exit code once it has ended.
    pub exit: Pin<Box<dyn Future<Output = Result<i32>> + Send>>,
}

/// What answers for the pods of nodes.
///
/// The server calls it for pods that a node has been found for, with containers that they have. Errors are answered to the
/// client as they are.
#[async_trait]
pub trait PodConnections: Send + Sync {
    /// The log of a container that has started at least once.
    async fn log(&self, pod: &Pod, container: &str, options: LogOptions) -> Result<Chunks>;

    /// Runs a command beside a running container.
    async fn exec(&self, pod: &Pod, container: &str, command: Vec<String>, streams: Streams) -> Result<Process>;

    /// Connects to the main process of a running container.
    async fn attach(&self, pod: &Pod, container: &str, streams: Streams) -> Result<Process>;

    /// Connects to a port of the pod.
    async fn port_forward(&self, pod: &Pod, port: u16) -> Result<Connection>;
}
