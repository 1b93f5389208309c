//! The ports of etcd.

use std::{convert::Infallible, net::SocketAddr};

use anyhow::Context as _;
use futures_util::FutureExt as _;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use windlass_tls::accept_tcp;

use super::VERSION;
use crate::{
    drop_in::{handover, handover::Storage, io_errors},
    signals::Signals,
};

/// Maximum number of connections to a port; others wait.
const MAX_CONNECTIONS: usize = 1000;

/// Listening sockets.
pub(super) struct Endpoints {
    clients: Vec<TcpListener>,
    /// Only occupied: there are no peers.
    peers: Vec<TcpListener>,
}

impl Endpoints {
    /// Listens on all addresses, or on none.
    pub(super) async fn bind(clients: &[SocketAddr], peers: &[SocketAddr]) -> anyhow::Result<Self> {
        // In the order of etcd, whose error for a port in use names the first one.
        let peers = bind(peers).await?;
        Ok(Self { clients: bind(clients).await?, peers })
    }

    /// Addresses for clients.
    pub(super) fn clients(&self) -> Vec<SocketAddr> {
        self.clients.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Serves clients until a signal.
    pub(super) async fn serve(self, storage: Storage) -> anyhow::Result<()> {
        let mut signals = Signals::catch().context("failed to install signal handlers")?;
        let mut tasks = JoinSet::new();
        for listener in self.clients {
            let storage = storage.clone();
            tasks.spawn(accept(listener, move |stream| connection(stream, storage.clone())).boxed());
        }
        for listener in self.peers {
            tasks.spawn(accept(listener, |stream| async { drop(stream) }).boxed());
        }
        tokio::select! {
            () = signals.first() => Ok(()),
            Some(ended) = tasks.join_next() => {
                ended?;
                anyhow::bail!("the server has stopped accepting connections")
            }
        }
    }
}

async fn bind(addresses: &[SocketAddr]) -> anyhow::Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    for address in addresses {
        let listener = TcpListener::bind(address).await;
        listeners.push(listener.map_err(|error| anyhow::anyhow!(io_errors::listen(*address, &error)))?);
    }
    Ok(listeners)
}

/// Accepts connections without end.
async fn accept<F>(listener: TcpListener, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    accept_tcp(listener, MAX_CONNECTIONS, std::future::pending(), |_| {}, serve).await;
}

async fn connection(stream: TcpStream, storage: Storage) {
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let answer = answer(request.uri().path(), &storage);
        async { Ok::<_, Infallible>(answer) }
    });
    let serving = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    if let Err(error) = serving.await {
        tracing::debug!(%error, "connection closed");
    }
}

/// Handles a request as etcd does.
fn answer(path: &str, storage: &Storage) -> Response<Full<Bytes>> {
    let json = "application/json";
    let text = "text/plain; charset=utf-8";
    let (status, media_type, body) = match path {
        "/health" => (StatusCode::OK, json, json!({"health": "true", "reason": ""}).to_string()),
        "/livez" | "/readyz" => (StatusCode::OK, text, "ok\n".to_owned()),
        "/version" => {
            let versions = json!({"etcdserver": VERSION, "etcdcluster": VERSION, "storage": VERSION});
            (StatusCode::OK, json, versions.to_string())
        }
        handover::PATH => match serde_json::to_string(storage) {
            Ok(description) => (StatusCode::OK, json, description),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, text, error.to_string()),
        },
        _ => (StatusCode::NOT_FOUND, text, "404 page not found\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(media_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_checks_are_answered_and_the_storage_is_described() {
        let storage = Storage { directory: "/tmp/a/windlass".into(), fsync: false, quota_bytes: Some(5) };
        for (path, status) in [
            ("/health", 200),
            ("/livez", 200),
            ("/readyz", 200),
            ("/version", 200),
            (handover::PATH, 200),
            ("/v3/kv", 404),
        ] {
            assert_eq!(answer(path, &storage).status(), status, "{path}");
        }
    }
}
