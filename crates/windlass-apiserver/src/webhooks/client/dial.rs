//! Connections to a host by its name or address, or to the endpoints of a service.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Uri, uri::Scheme};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::{super::resolver::ServiceResolver, clean};

/// A port of a service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Service {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl Service {
    /// Returns the service that a `clientConfig` or the spec of an APIService names, if any.
    pub(crate) fn of(service: &Value) -> Option<Self> {
        let text = |field: &str| service[field].as_str().unwrap_or_default().to_owned();
        let port = service["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443);
        service.is_object().then(|| Self { namespace: text("namespace"), name: text("name"), port })
    }

    /// Returns the URL, whose host is also the name that the certificate must have.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://{}.{}.svc:{}{}", self.name, self.namespace, self.port, clean(path))
    }
}

/// Opens connections.
#[derive(Clone)]
pub(crate) struct Dial {
    pub(super) service: Option<Service>,
    pub(super) resolver: Arc<dyn ServiceResolver>,
}

/// Reasons why there is no connection, worded as in Go.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct DialError(String);

impl tower::Service<Uri> for Dial {
    type Response = TokioIo<TcpStream>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let dial = self.clone();
        Box::pin(async move {
            let addresses = match &dial.service {
                Some(Service { namespace, name, port }) => {
                    dial.resolver.resolve(namespace, name, *port).await.map_err(DialError)?
                }
                None => lookup(&uri).await?,
            };
            connect(&addresses).await
        })
    }
}

async fn lookup(uri: &Uri) -> Result<Vec<SocketAddr>, DialError> {
    let host = uri.host().unwrap_or_default();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let default = if uri.scheme() == Some(&Scheme::HTTP) { 80 } else { 443 };
    let found = tokio::net::lookup_host((host, uri.port_u16().unwrap_or(default))).await;
    let addresses: Vec<SocketAddr> = found.map(Iterator::collect).unwrap_or_default();
    match addresses.is_empty() {
        true => Err(DialError(format!("dial tcp: lookup {host}: no such host"))),
        false => Ok(addresses),
    }
}

/// Connects to the first reachable address.
async fn connect(addresses: &[SocketAddr]) -> Result<TokioIo<TcpStream>, DialError> {
    let mut failure = DialError("dial tcp: no address".to_owned());
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                let _ = stream.set_nodelay(true);
                return Ok(TokioIo::new(stream));
            }
            Err(error) => failure = DialError(format!("dial tcp {address}: connect: {}", reason(&error))),
        }
    }
    Err(failure)
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        io::ErrorKind::TimedOut => "connection timed out".to_owned(),
        _ => error.to_string(),
    }
}
