//! Passes the data directory from the etcd entry to the API server.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

use crate::failure::ErrorWithHint;

/// Path at which etcd describes its storage.
pub(super) const PATH: &str = "/windlass/storage";
/// Maximum time for an etcd to start, as with kube-apiserver.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause between attempts to reach it.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time limit for a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Far more than a description has.
const MAX_DESCRIPTION_BYTES: usize = 64 << 10;

/// Location and settings of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Storage {
    /// The directory of the API server within etcd's data directory.
    pub(super) directory: PathBuf,
    /// Whether writes wait for the disk.
    pub(super) fsync: bool,
    /// Maximum size of all objects, in bytes.
    pub(super) quota_bytes: Option<u64>,
}

/// Asks the first etcd that answers for its storage. Waits until one has started.
pub(super) async fn find(servers: &[String]) -> anyhow::Result<Storage> {
    let started = Instant::now();
    loop {
        let mut problem = None;
        for server in servers {
            match tokio::time::timeout(RESPONSE_TIMEOUT, ask(server)).await {
                Ok(Ok(answer)) => return understand(server, answer),
                Ok(Err(error)) => problem = Some(error),
                Err(_) => problem = Some(anyhow::anyhow!("etcd at {server} does not answer")),
            }
        }
        if started.elapsed() >= START_TIMEOUT {
            let problem = problem.unwrap_or_else(|| anyhow::anyhow!("there is no etcd"));
            return Err(problem.context("failed to reach etcd: context deadline exceeded"));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn understand(server: &str, (status, body): (StatusCode, Bytes)) -> anyhow::Result<Storage> {
    let storage = (status == StatusCode::OK).then(|| serde_json::from_slice(&body).ok()).flatten();
    storage.ok_or_else(|| {
        let message = format!("the etcd at {server} is not that of windlass, which is the only one that can be used");
        let hint = "start both programs from the directory that `windlass assets` has written, or both from Kubernetes";
        ErrorWithHint { message, hint: hint.into() }.into()
    })
}

/// Requests the description of the storage. An error means that the server cannot be reached, perhaps not yet.
async fn ask(server: &str) -> anyhow::Result<(StatusCode, Bytes)> {
    let uri: Uri = server.parse().with_context(|| format!("invalid URL of etcd {server:?}"))?;
    ensure!(uri.scheme_str() == Some("http"), "etcd at {server} must be reached over http");
    let authority = uri.authority().with_context(|| format!("URL of etcd {server:?} has no host"))?;
    let address = (authority.host().trim_matches(['[', ']']), authority.port_u16().unwrap_or(2379));
    let stream = TcpStream::connect(address).await.with_context(|| format!("failed to connect to etcd at {server}"))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(PATH).header(header::HOST, authority.as_str()).body(Empty::<Bytes>::new())?;
    let asking = async {
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_DESCRIPTION_BYTES).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("failed to read the response of etcd at {server}: {error}"))?;
        Ok::<_, anyhow::Error>((status, body.to_bytes()))
    };
    tokio::pin!(connection);
    tokio::pin!(asking);
    tokio::select! {
        biased;
        answer = &mut asking => answer,
        ended = &mut connection => match ended {
            // The response may still be read.
            Ok(()) => asking.await,
            Err(error) => Err(error.into()),
        },
    }
}
