//! A proxy that forwards requests to an API server and records them.

use std::{convert::Infallible, sync::Arc};

use futures_util::FutureExt as _;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::{body::Incoming, upgrade::OnUpgrade};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use kube::{Client, client::Body};
use tokio::net::TcpListener;
use windlass_tls::Handshake;

use super::records::Records;
use crate::rbac::needs::Recorded;

/// More than any API server accepts in a request.
const LONGEST_BODY: usize = 64 << 20;
/// Headers that concern the connection, or authenticate the client to the proxy.
const OF_CONNECTION: &[&str] = &["authorization", "host", "keep-alive", "proxy-connection", "te", "transfer-encoding"];

/// A recording proxy.
#[derive(Clone)]
pub(super) struct Proxy {
    /// Client of the upstream server.
    pub(super) upstream: Client,
    /// Whether the server is in this process and handles upgrades itself.
    pub(super) within: bool,
    /// Client with fewer permissions, for the requests that are recorded.
    pub(super) restricted: Option<Client>,
    /// User agent prefix of the clients to record.
    pub(super) agent: Option<String>,
    /// Recorded requests.
    pub(super) records: Records,
}

impl Proxy {
    /// Serves clients with a certificate until it is dropped.
    pub(super) async fn serve(self, listener: TcpListener, tls: Arc<rustls::ServerConfig>) {
        let serve = |handshake| self.clone().connection(handshake);
        windlass_tls::accept(listener, tls, usize::MAX, std::future::pending(), |_| {}, serve).await;
    }

    async fn connection(self, handshake: Handshake) {
        let Some(stream) = handshake.complete().await else { return };
        let known = stream.get_ref().1.peer_certificates().is_some_and(|chain| !chain.is_empty());
        let service = hyper::service::service_fn(move |request| {
            let proxy = self.clone();
            async move {
                Ok::<_, Infallible>(match known {
                    true => proxy.pass(request).await,
                    false => answer(StatusCode::UNAUTHORIZED, "use the printed kubeconfig"),
                })
            }
        });
        let builder = auto::Builder::new(TokioExecutor::new());
        if let Err(error) = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await {
            tracing::debug!(%error, "connection closed");
        }
    }

    async fn pass(self, request: Request<Incoming>) -> Response<Body> {
        let recorded = self.record(&request);
        let restricted = self.restricted.as_ref().filter(|_| recorded.is_some());
        let answer = match restricted {
            Some(client) => forward(client, false, request).await,
            None => forward(&self.upstream, self.within, request).await,
        };
        let answer = answer.unwrap_or_else(|error| answer_failed(&error));
        if let Some(mut recorded) = recorded {
            recorded.status = answer.status().as_u16();
            self.records.add(recorded);
        }
        answer
    }

    /// Returns the record of a request, if it should be recorded.
    fn record(&self, request: &Request<Incoming>) -> Option<Recorded> {
        let agent = request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        let counts = self.agent.as_ref().is_none_or(|begin| agent.starts_with(begin.as_str()));
        counts.then(|| Recorded {
            method: request.method().to_string(),
            uri: request.uri().path_and_query().map(ToString::to_string).unwrap_or_default(),
            status: 0,
            any_namespace: None,
            own_namespace: None,
        })
    }
}

/// Forwards a request. A server `within` this process handles upgrades itself.
async fn forward(upstream: &Client, within: bool, request: Request<Incoming>) -> anyhow::Result<Response<Body>> {
    let (mut parts, body) = request.into_parts();
    let upgrades = parts.headers.contains_key(header::UPGRADE);
    let client = if within { None } else { parts.extensions.remove::<OnUpgrade>() };
    let body = match Limited::new(body, LONGEST_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => anyhow::bail!("failed to read the request: {error}"),
    };
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut passed = Request::builder().method(parts.method.clone()).uri(path).body(Body::from(body))?;
    *passed.headers_mut() = headers(&parts.headers, upgrades);
    if within {
        *passed.extensions_mut() = std::mem::take(&mut parts.extensions);
    }
    let mut answer = upstream.send(passed).await?;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS
        && let Some(client) = client
    {
        let server = hyper::upgrade::on(&mut answer);
        // Ends when either side does.
        tokio::spawn(join(client, server).boxed());
    }
    if !upgrades {
        answer.headers_mut().remove(header::CONNECTION);
        answer.headers_mut().remove(header::TRANSFER_ENCODING);
    }
    Ok(answer)
}

/// Headers to forward.
fn headers(from: &HeaderMap, upgrades: bool) -> HeaderMap {
    let mut headers = from.clone();
    for name in OF_CONNECTION {
        headers.remove(*name);
    }
    if !upgrades {
        headers.remove(header::CONNECTION);
    }
    // The body is forwarded as a whole.
    headers.remove(header::CONTENT_LENGTH);
    headers
}

/// Copies bytes between two upgraded connections.
async fn join(client: OnUpgrade, server: OnUpgrade) {
    let (Ok(client), Ok(server)) = tokio::join!(client, server) else { return };
    let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
    if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut server).await {
        tracing::debug!(%error, "an upgraded connection was closed");
    }
}

fn answer_failed(error: &anyhow::Error) -> Response<Body> {
    tracing::warn!("failed to forward a request: {error:#}");
    answer(StatusCode::BAD_GATEWAY, &format!("failed to reach the upstream server: {error:#}"))
}

/// A response with a Kubernetes Status.
fn answer(status: StatusCode, message: &str) -> Response<Body> {
    let text = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "code": status.as_u16(),
    });
    let mut answer = Response::new(Body::from(text.to_string().into_bytes()));
    *answer.status_mut() = status;
    let json = header::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}
