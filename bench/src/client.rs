//! A lean HTTP/2 client. Its cost is part of every number of the benchmark, so it does as little as possible.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::Incoming,
    client::conn::http2::{self, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, pki_types::ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Flow-control windows like those of Go's HTTP/2 client.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 1 << 30;

/// Maximum time for a written object to be served.
pub(crate) const SERVED_WITHIN: Duration = Duration::from_secs(30);
/// Interval between requests for something that is not served yet.
pub(crate) const POLL: Duration = Duration::from_millis(5);

/// Connections to one server. The caller picks one by lane.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    authority: String,
    connections: Arc<[SendRequest<Full<Bytes>>]>,
}

/// Headers and body of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Body {
    pub(crate) content_type: &'static str,
    pub(crate) bytes: Bytes,
}

impl Body {
    pub(crate) fn json(value: &Value) -> Self {
        Self { content_type: "application/json", bytes: value.to_string().into() }
    }
}

impl Client {
    /// Opens connections to an `https://address:port` URL.
    pub(crate) async fn connect(url: &str, tls: &Arc<ClientConfig>, count: usize) -> anyhow::Result<Self> {
        let authority = url.strip_prefix("https://").context("the URL must begin with https://")?.trim_end_matches('/');
        let address: SocketAddr = authority.parse().with_context(|| format!("{authority} is not address:port"))?;
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            let socket = TcpStream::connect(address).await?;
            socket.set_nodelay(true)?;
            let stream = TlsConnector::from(tls.clone()).connect(ServerName::from(address.ip()), socket).await?;
            let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .handshake(TokioIo::new(stream))
                .await?;
            // Ends when the last sender is dropped or the server closes it; pending requests then fail.
            tokio::spawn(connection);
            connections.push(sender);
        }
        Ok(Self { authority: authority.to_owned(), connections: connections.into() })
    }

    /// Sends a request and returns the response, whose body has not been read yet.
    pub(crate) async fn send(
        &self,
        lane: usize,
        method: Method,
        path: &str,
        body: Body,
    ) -> anyhow::Result<Response<Incoming>> {
        self.send_accepting("application/json", lane, method, path, body).await
    }

    /// Sends a request for a representation and returns the response, whose body has not been read yet.
    pub(crate) async fn send_accepting(
        &self,
        accept: &'static str,
        lane: usize,
        method: Method,
        path: &str,
        body: Body,
    ) -> anyhow::Result<Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.authority))
            .header(http::header::ACCEPT, accept);
        if !body.content_type.is_empty() {
            request = request.header(http::header::CONTENT_TYPE, body.content_type);
        }
        let mut connection = self.connections[lane % self.connections.len()].clone();
        connection.ready().await?;
        Ok(connection.send_request(request.body(Full::new(body.bytes))?).await?)
    }

    /// Sends a request that must succeed, reads the whole response and returns its size.
    pub(crate) async fn measure(&self, lane: usize, method: Method, path: &str, body: Body) -> anyhow::Result<u64> {
        let what = format_args!("{method} {path}").to_string();
        let response = self.send(lane, method, path, body).await.with_context(|| what.clone())?;
        if !response.status().is_success() {
            return Err(rejection(response).await).context(what);
        }
        let mut incoming = response.into_body();
        let mut size = 0;
        while let Some(frame) = incoming.frame().await {
            size += frame?.data_ref().map_or(0, |data| data.len() as u64);
        }
        Ok(size)
    }

    /// Sends a request and returns the status and the JSON body, regardless of the status.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Body) -> anyhow::Result<(StatusCode, Value)> {
        let response = self.send(0, method, path, body).await?;
        let status = response.status();
        let bytes = response.into_body().collect().await?.to_bytes();
        let value = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Ok((status, value))
    }

    /// Repeats a GET until it succeeds and returns the size of the response.
    pub(crate) async fn until_served(&self, lane: usize, path: &str) -> anyhow::Result<u64> {
        let start = Instant::now();
        loop {
            match self.measure(lane, Method::GET, path, Body::default()).await {
                Ok(size) => return Ok(size),
                Err(error) if start.elapsed() > SERVED_WITHIN => return Err(error.context("not served")),
                Err(_) => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// Creates an object unless it exists.
    pub(crate) async fn ensure(&self, collection: &str, object: &Value) -> anyhow::Result<()> {
        let (status, answer) = self.ask(Method::POST, collection, Body::json(object)).await?;
        if !status.is_success() && status != StatusCode::CONFLICT {
            bail!("POST {collection}: {status}: {answer}");
        }
        Ok(())
    }
}

/// Builds an error from an unsuccessful response.
pub(crate) async fn rejection(response: Response<Incoming>) -> anyhow::Error {
    let status = response.status();
    let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    anyhow::anyhow!("{status}: {}", String::from_utf8_lossy(&body))
}
