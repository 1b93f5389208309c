//! Serves over TLS: connections, the users of their certificates, and graceful shutdown.

use std::{convert::Infallible, future::Future, io, pin::pin, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulConnection},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::server::TlsStream;
use tracing::{debug, warn};
use windlass_tls::Handshake;

use crate::{
    connections::{Peer, Registration, TrackedBody, TrackedStream},
    server::{BoxError, Server},
};

/// Maximum time for open requests to finish after the server is stopped.
const DRAIN: Duration = Duration::from_millis(700);
/// Maximum time for writes that have begun to complete after that.
const FINISH: Duration = Duration::from_secs(5);
/// Maximum time for an evicted connection to close: enough to send its last response.
const EVICTION: Duration = Duration::from_secs(1);
/// Time limit for the headers of an HTTP/1.1 request.
const HEADERS: Duration = Duration::from_secs(32);
/// Maximum time that a connection may be idle.
const IDLE: Duration = Duration::from_secs(90);
/// The interval of HTTP/2 pings, and how long the response may take.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Flow control of HTTP/2: received bytes that no request has read yet.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// The size of the headers of an HTTP/2 request.
const MAX_HEADERS: u32 = 64 << 10;

impl Server {
    /// Serves HTTP/1.1 and HTTP/2 over TLS until `shutdown` resolves, then ends watches and lets open requests finish.
    ///
    /// The TLS configuration should request client certificates with
    /// [`AuthenticationOptions::certificate_verifier`](crate::authentication::AuthenticationOptions::certificate_verifier).
    /// A certificate of an authority in these options authenticates the client: its common name is the user, its
    /// organizations are the groups.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Arc<rustls::ServerConfig>,
        shutdown: impl Future<Output = ()> + Send,
    ) -> io::Result<()> {
        let (stop, stopped) = watch::channel(false);
        let all = &self.inner.connections;
        let mut connections = windlass_tls::accept(
            listener,
            tls,
            usize::MAX,
            shutdown,
            |_| all.evict_one(),
            |handshake| connection(self.clone(), handshake, all.register(), stopped.clone()),
        )
        .await;
        self.stop();
        stop.send_replace(true);
        // Requests that take longer are cut off.
        let _ = tokio::time::timeout(DRAIN, async { while connections.join_next().await.is_some() {} }).await;
        // Remaining connections would keep the store open.
        drop(connections);
        if tokio::time::timeout(FINISH, self.finish_writes()).await.is_err() {
            warn!("stopped with writes in progress");
        }
        self.inner.audit.flush().await;
        Ok(())
    }
}

/// Serves a connection until it ends, is evicted, or the server stops. Not async, so that everything below, requests
/// included, is compiled with this crate's level of optimization, not with that of the crate that awaits it.
#[inline(never)]
fn connection(
    server: Server,
    handshake: Handshake,
    registration: Option<Registration>,
    stopped: watch::Receiver<bool>,
) -> BoxFuture<'static, ()> {
    Box::pin(serve_connection(server, handshake, registration, stopped))
}

async fn serve_connection(
    server: Server,
    handshake: Handshake,
    registration: Option<Registration>,
    mut stopped: watch::Receiver<bool>,
) {
    let Some(registration) = registration else { return };
    let connection = registration.connection().clone();
    let stream = tokio::select! {
        stream = handshake.complete() => stream,
        () = connection.closing() => None,
        () = stopping(&mut stopped) => None,
    };
    let Some(stream) = stream else { return };
    let inner = &server.inner;
    let chain = stream.get_ref().1.peer_certificates();
    let certificate = inner.authentication.verify_certificate(chain, inner.now().as_second()).map(Arc::new);
    let owner = certificate.as_ref().and_then(|certificate| certificate.owner.as_deref());
    if !connection.identify(owner) {
        debug!(user = owner.map(|user| user.name.as_str()), "closed a connection: too many connections");
        return;
    }
    let streams = inner.limits.max_streams_per_connection;
    let address = stream.get_ref().0.peer_addr().ok().map(|address| address.ip());
    let peer = Peer { certificate: certificate.clone(), address, connection: connection.clone() };
    let mut not_after = certificate.as_ref().map_or(i64::MAX, |certificate| certificate.not_after);
    let mut draining = false;
    let mut serving = pin!(serve(server, peer, TrackedStream::new(stream, registration), streams));
    loop {
        let result = tokio::select! {
            result = &mut serving => result,
            () = connection.closing() => {
                serving.as_mut().graceful_shutdown();
                let ended = tokio::time::timeout(EVICTION, &mut serving).await;
                ended.unwrap_or(Ok(()))
            }
            () = stopping(&mut stopped) => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
            () = connection.draining(), if !draining => {
                draining = true;
                serving.as_mut().graceful_shutdown();
                continue;
            }
            () = tokio::time::sleep(IDLE.min(remaining(not_after))) => {
                if remaining(not_after).is_zero() && let Some(certificate) = &certificate {
                    certificate.expire();
                    not_after = i64::MAX;
                }
                if connection.idle().is_some_and(|idle| idle >= IDLE) {
                    connection.close();
                }
                continue;
            }
        };
        if let Err(error) = result {
            debug!(%error, "connection ended");
        }
        return;
    }
}

/// Returns the time until a certificate expires.
fn remaining(not_after: i64) -> Duration {
    let seconds = not_after.saturating_sub(windlass_clock::now().as_second());
    Duration::from_secs(seconds.try_into().unwrap_or_default())
}

/// Resolves when the server stops.
async fn stopping(stopped: &mut watch::Receiver<bool>) {
    // An error means that the server was dropped.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Handles the requests of a connection.
fn serve(
    server: Server,
    peer: Peer,
    stream: TrackedStream<TlsStream<TcpStream>>,
    streams: u32,
) -> impl GracefulConnection<Error = BoxError> {
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        let active = peer.connection.begin();
        request.extensions_mut().insert(peer.clone());
        let inner = server.inner.clone();
        async move {
            let response = inner.handle(request).await;
            let upgraded = response.status() == StatusCode::SWITCHING_PROTOCOLS;
            let active = if upgraded { active.upgraded() } else { active };
            Ok::<_, Infallible>(response.map(|body| TrackedBody::new(body, active)))
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams)
        .max_header_list_size(MAX_HEADERS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(256 << 10)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned()
}
