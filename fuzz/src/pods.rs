//! Pods that return to their clients what they receive.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;
use serde_json::Value;
use windlass_apiserver::{
    body::Chunks,
    pod_connections::{Connection, LogOptions, PodConnections, Process, Streams},
    status::{ApiError, Result},
};

/// Time for which a process runs.
const RUNS_FOR: Duration = Duration::from_secs(5);
/// The bytes that wait in a pipe.
const PIPE: usize = 1 << 10;

/// The connections to such pods.
pub(crate) struct EchoingPods;

#[async_trait]
impl PodConnections for EchoingPods {
    async fn log(&self, _: &Value, container: &str, options: LogOptions) -> Result<Chunks> {
        let lines: Vec<_> =
            (0..options.tail_lines.unwrap_or(3).min(3)).map(|_| format!("{container}\n").into()).collect();
        Ok(Box::pin(stream::iter(lines)))
    }

    async fn exec(&self, _: &Value, _: &str, command: Vec<String>, streams: Streams) -> Result<Process> {
        let (stdin, stdout) = tokio::io::duplex(PIPE);
        let code = command.iter().map(|word| word.len() as i32).sum::<i32>() - 1;
        Ok(Process {
            stdin: streams.stdin.then(|| Box::pin(stdin) as _),
            stdout: Some(Box::pin(stdout)),
            stderr: streams.stderr.then(|| Box::pin(&b"error\n"[..]) as _),
            resize: streams.tty.then(|| tokio::sync::mpsc::channel(1).0),
            exit: Box::pin(async move {
                tokio::time::sleep(RUNS_FOR).await;
                Ok(code)
            }),
        })
    }

    async fn attach(&self, pod: &Value, container: &str, streams: Streams) -> Result<Process> {
        self.exec(pod, container, Vec::new(), streams).await
    }

    async fn port_forward(&self, _: &Value, port: u16) -> Result<Connection> {
        if port == 1 {
            return Err(ApiError::internal("nothing listens"));
        }
        let (near, far) = tokio::io::duplex(PIPE);
        tokio::spawn(async move {
            let (mut read, mut write) = tokio::io::split(far);
            let _ = tokio::io::copy(&mut read, &mut write).await;
        });
        Ok(Box::pin(near))
    }
}
