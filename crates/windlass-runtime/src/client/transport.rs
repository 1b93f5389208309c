//! Connections: one with HTTP/2 for everything, or HTTP/1.1 if the server supports nothing better.
//!
//! hyper's own pool opens a connection for each request before the first handshake is done, and queues requests behind
//! a full connection, which with watches is forever. This pool opens one connection at a time, and another only when
//! all open ones are full.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use http::{Request, Response, Uri, header::UPGRADE, uri::Scheme};
use http_body::Frame;
use hyper::{body::Incoming, client::conn::http2};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{
        self,
        connect::{Connection as _, HttpConnector},
    },
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Config,
    client::{Body, ConfigExt as _, RustlsTlsError},
};
use parking_lot::Mutex;
use tower::{BoxError, Service};

use super::{ClientOptions, SendCondition, send_condition::NotSent};

/// Concurrent requests per connection: what every server should allow, and what a client must assume unless told
/// otherwise (RFC 9113, 6.5.2).
const STREAMS: usize = 100;
/// Flow control window of a response. A list of 100,000 objects must not wait for a window.
const STREAM_WINDOW: u32 = 4 << 20;
/// Flow control window of a connection, so that slow readers of watches do not delay others.
const CONNECTION_WINDOW: u32 = 64 << 20;
/// Maximum number of connections that may end before a request is sent: one that was idle for long, one that broke with
/// it, and a new one. A peer that closes each connection would keep the client busy forever.
const TRIES: usize = 3;
/// kube's default.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Error of a request without response.
#[derive(Debug, thiserror::Error)]
pub(super) enum TransportError {
    #[error("failed to connect to {server}")]
    Connect { server: Uri, source: BoxError },
    #[error("failed to connect to {server} within {timeout:?}")]
    ConnectTimeout { server: Uri, timeout: Duration },
    #[error("HTTP/2 handshake failed")]
    Handshake(#[source] hyper::Error),
    #[error("no response to the request")]
    Request(#[source] hyper::Error),
    #[error("no response to the request")]
    Http1(#[source] legacy::Error),
    #[error(transparent)]
    NotSent(#[from] NotSent),
}

/// The transport of a client. Clones share the connections, which close when all clones are dropped.
#[derive(Clone)]
pub(super) struct Transport {
    shared: Arc<Shared>,
}

struct Shared {
    server: Uri,
    https: HttpsConnector<HttpConnector>,
    connect_timeout: Duration,
    http2: http2::Builder<TokioExecutor>,
    http1: legacy::Client<HttpsConnector<HttpConnector>, Body>,
    /// Whether the server supports only HTTP/1.1.
    old: AtomicBool,
    lines: Mutex<Vec<Http2Connection>>,
    /// Held while connecting; others wait for the connection instead of opening their own.
    connecting: tokio::sync::Mutex<()>,
}

/// An HTTP/2 connection.
#[derive(Clone)]
struct Http2Connection {
    sender: http2::SendRequest<Body>,
    /// Shared with every response that is not read to its end.
    streams: Arc<()>,
}

/// The body of a response, which occupies a stream of a connection.
pub(super) struct ResponseBody {
    body: Incoming,
    _stream: Option<Arc<()>>,
}

impl Transport {
    pub(super) fn new(config: &Config, options: &ClientOptions) -> Result<Self, kube::Error> {
        let connect_timeout = config.connect_timeout.unwrap_or(CONNECT_TIMEOUT);
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(connect_timeout));
        // HTTP/1.1 has no pings.
        http.set_keepalive(Some(options.ping_after));
        http.set_keepalive_interval(Some(options.ping_timeout));
        http.set_keepalive_retries(Some(1));

        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .keep_alive_interval(options.ping_after)
            .keep_alive_timeout(options.ping_timeout)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(1 << 20);

        let tls = config.rustls_client_config()?;
        let builder = || {
            let builder = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
            Ok::<_, kube::Error>(match &config.tls_server_name {
                Some(name) => {
                    let name = name.clone().try_into().map_err(RustlsTlsError::InvalidServerName);
                    let name = name.map_err(kube::Error::RustlsTls)?;
                    builder.with_server_name_resolver(FixedServerNameResolver::new(name))
                }
                None => builder,
            })
        };
        let https = builder()?.enable_all_versions().wrap_connector(http.clone());
        let http1 = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(builder()?.enable_http1().wrap_connector(http));
        let shared = Shared {
            server: config.cluster_url.clone(),
            https,
            connect_timeout,
            http2,
            http1,
            old: AtomicBool::new(config.cluster_url.scheme() == Some(&Scheme::HTTP)),
            lines: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

impl Shared {
    async fn send(&self, mut request: Request<Body>) -> Result<Response<ResponseBody>, TransportError> {
        let condition = SendCondition::of(&request);
        let mut tries = 0;
        loop {
            // Only HTTP/1.1 can be upgraded, as `exec` and `port-forward` need.
            if self.old.load(Ordering::Relaxed) || request.headers().contains_key(UPGRADE) {
                let response = self.http1.request(request).await.map_err(TransportError::Http1)?;
                return Ok(response.map(|body| ResponseBody { body, _stream: None }));
            }
            let Some(mut line) = self.line().await? else { continue };
            // Connecting may have taken long.
            SendCondition::check(condition.as_ref())?;
            tries += 1;
            match line.sender.try_send_request(request).await {
                Ok(response) => return Ok(response.map(|body| ResponseBody { body, _stream: Some(line.streams) })),
                Err(mut error) => match error.take_message() {
                    // It was never sent: the connection has ended in the meantime.
                    Some(unsent) if tries < TRIES => request = unsent,
                    _ => return Err(TransportError::Request(error.into_error())),
                },
            }
        }
    }

    /// Returns a connection with a free stream; `None` if the server supports only HTTP/1.1.
    async fn line(&self) -> Result<Option<Http2Connection>, TransportError> {
        if let Some(line) = self.open_line() {
            return Ok(Some(line));
        }
        let _connecting = self.connecting.lock().await;
        if self.old.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if let Some(line) = self.open_line() {
            return Ok(Some(line));
        }
        let server = || self.server.clone();
        let connected = tokio::time::timeout(self.connect_timeout, self.https.clone().call(server())).await;
        let stream = connected
            .map_err(|_| TransportError::ConnectTimeout { server: server(), timeout: self.connect_timeout })?
            .map_err(|source| TransportError::Connect { server: server(), source })?;
        if !stream.connected().is_negotiated_h2() {
            tracing::info!(server = %self.server, "the server does not support HTTP/2; using HTTP/1.1");
            self.old.store(true, Ordering::Relaxed);
            return Ok(None);
        }
        let (sender, connection) = self.http2.handshake(stream).await.map_err(TransportError::Handshake)?;
        // Ends with the connection, or when all senders and responses are dropped.
        let task = async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection to the API server ended");
            }
        };
        tokio::spawn(task.boxed());
        let line = Http2Connection { sender, streams: Arc::new(()) };
        self.lines.lock().push(line.clone());
        Ok(Some(line))
    }

    fn open_line(&self) -> Option<Http2Connection> {
        let mut lines = self.lines.lock();
        lines.retain(|line| !line.sender.is_closed());
        // The first one with a free stream, so that later ones become idle and can be closed.
        let found = lines.iter().position(|line| line.load() < STREAMS)?;
        let line = lines[found].clone();
        if line.load() < STREAMS / 2 {
            let mut at = 0;
            lines.retain(|line| {
                at += 1;
                at <= found + 1 || line.load() > 0
            });
        }
        Some(line)
    }
}

impl Http2Connection {
    fn load(&self) -> usize {
        Arc::strong_count(&self.streams) - 1
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<ResponseBody>;
    type Error = TransportError;
    type Future = BoxFuture<'static, Result<Response<ResponseBody>, TransportError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shared = self.shared.clone();
        Box::pin(async move { shared.send(request).await })
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
