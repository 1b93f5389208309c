//! Connects a client to a process: input, output, terminal sizes, and finally the exit status.

use std::time::Duration;

use bytes::BytesMut;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, sync::mpsc};

use super::{channels::Outgoing, next_piece, pieces::Piece};
use crate::{
    pod_connections::{Output, Process, TerminalSize},
    status::Result,
};

/// Time to read the output of a process that has ended: a child of it may still hold the output open.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The client's side.
pub(crate) struct Client {
    pub(crate) stdin: Option<mpsc::Receiver<Piece>>,
    pub(crate) resize: Option<mpsc::Receiver<Piece>>,
    pub(crate) outgoing: mpsc::Sender<Outgoing>,
    pub(crate) stdout: Option<u32>,
    pub(crate) stderr: Option<u32>,
    pub(crate) error: u32,
    /// Whether the end of the process is reported as a Status; otherwise only a failure is, as text.
    pub(crate) reports_status: bool,
}

/// Serves a client until the process has ended and all output is delivered.
pub(crate) async fn serve(process: Result<Process>, client: Client) {
    let Client { stdin, resize, outgoing, stdout, stderr, error, reports_status } = client;
    let status = match process {
        Err(failure) => failure.to_status(),
        Ok(process) => {
            let typing = async {
                let (Some(mut from), Some(mut to)) = (stdin, process.stdin) else { return };
                while let Some(piece) = from.recv().await {
                    if to.write_all(&piece.bytes).await.is_err() || to.flush().await.is_err() {
                        return;
                    }
                }
                let _ = to.shutdown().await;
            };
            let resizing = async {
                let (Some(mut from), Some(to)) = (resize, process.resize) else { return };
                while let Some(piece) = from.recv().await {
                    for size in sizes(&piece.bytes) {
                        let _ = to.send(size).await;
                    }
                }
            };
            let output = async {
                tokio::join!(copy(process.stdout, stdout, &outgoing), copy(process.stderr, stderr, &outgoing));
            };
            tokio::pin!(output);
            let asides = async {
                tokio::join!(typing, resizing);
                std::future::pending::<()>().await;
            };
            let mut exit = process.exit;
            let mut written = false;
            tokio::pin!(asides);
            let ended = loop {
                tokio::select! {
                    ended = &mut exit => break ended,
                    () = &mut output, if !written => written = true,
                    () = &mut asides => {}
                }
            };
            if !written {
                let _ = tokio::time::timeout(LAST_WORDS, output).await;
            }
            ended.map_or_else(|failure| failure.to_status(), exit_status)
        }
    };
    let report = match reports_status {
        true => status.to_string(),
        false if status["status"] == "Success" => String::new(),
        false => status["message"].as_str().unwrap_or_default().to_owned(),
    };
    if !report.is_empty() {
        let _ = outgoing.send(Outgoing::Data(error, report.into())).await;
    }
    let _ = outgoing.send(Outgoing::Close(error)).await;
}

async fn copy(from: Option<Output>, channel: Option<u32>, outgoing: &mpsc::Sender<Outgoing>) {
    let Some(mut from) = from else { return };
    let mut buffer = BytesMut::new();
    while let Some(data) = next_piece(&mut from, &mut buffer).await {
        if let Some(channel) = channel
            && outgoing.send(Outgoing::Data(channel, data)).await.is_err()
        {
            return;
        }
    }
    if let Some(channel) = channel {
        let _ = outgoing.send(Outgoing::Close(channel)).await;
    }
}

/// Returns the exit status in the form of protocol versions 4 and 5.
fn exit_status(code: i32) -> Value {
    if code == 0 {
        return json!({"metadata": {}, "status": "Success"});
    }
    json!({
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    })
}

/// Parses the terminal sizes that a client has sent; anything else is skipped.
fn sizes(bytes: &[u8]) -> Vec<TerminalSize> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Size {
        width: u16,
        height: u16,
    }
    let sizes = serde_json::Deserializer::from_slice(bytes).into_iter::<Size>();
    sizes.map_while(|size| size.ok()).map(|Size { width, height }| TerminalSize { width, height }).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    /// Returns everything that a client gets from a process that ends with this code.
    async fn said(code: i32, reports_status: bool) -> Vec<Outgoing> {
        let (outgoing, mut receiver) = mpsc::channel(16);
        let process = Process {
            stdin: None,
            stdout: Some(Box::pin(&b"out"[..])),
            stderr: Some(Box::pin(&b"err"[..])),
            resize: None,
            exit: Box::pin(async move { Ok(code) }),
        };
        let (stdout, stderr, error) = (Some(1), Some(2), 3);
        serve(Ok(process), Client { stdin: None, resize: None, outgoing, stdout, stderr, error, reports_status }).await;
        let mut said = Vec::new();
        while let Some(sent) = receiver.recv().await {
            said.push(sent);
        }
        said
    }

    #[tokio::test]
    async fn the_first_version_of_the_protocol_reports_only_failures() {
        let errors = async |code| {
            let said = said(code, false).await;
            let errors = said.into_iter().filter_map(|sent| match sent {
                Outgoing::Data(3, text) => Some(String::from_utf8(text.to_vec()).unwrap()),
                _ => None,
            });
            errors.collect::<Vec<_>>()
        };
        assert!(errors(0).await.is_empty());
        assert_eq!(errors(3).await, ["command terminated with non-zero exit code: exit status 3"]);
    }

    #[tokio::test]
    async fn the_output_of_a_process_precedes_its_exit_status() {
        let said = said(3, true).await;
        let Some(Outgoing::Data(3, status)) = said.iter().rev().nth(1) else { panic!("{said:?}") };
        let status: Value = serde_json::from_slice(status).unwrap();
        assert_eq!(status["details"]["causes"][0]["message"], "3");
        assert!(said.contains(&Outgoing::Data(1, Bytes::from_static(b"out"))));
        assert!(said.contains(&Outgoing::Data(2, Bytes::from_static(b"err"))));
    }

    proptest! {
        #[test]
        fn no_size_panics(text in ".{0,60}", width in any::<u16>(), height in any::<u16>()) {
            sizes(text.as_bytes());
            let two = format!("{{\"Width\":{width},\"Height\":{height}}}\n{{\"Width\":1,\"Height\":2}}\n");
            prop_assert_eq!(
                sizes(two.as_bytes()),
                [TerminalSize { width, height }, TerminalSize { width: 1, height: 2 }]
            );
        }
    }
}
