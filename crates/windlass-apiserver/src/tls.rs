//! Serves over TLS: connections, the users of their certificates, and graceful shutdown.

mod streams;

use std::{convert::Infallible, future::Future, io, pin::pin, sync::Arc, time::Duration};

use futures_util::{
    StreamExt as _,
    future::{BoxFuture, FutureExt as _},
    stream::FuturesUnordered,
};
use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulConnection},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::server::TlsStream;
use tracing::{debug, warn};
use windlass_tls::Handshake;

use self::streams::{Serving, Streams};
use crate::{
    connections::{Connection, Peer, Registration, TrackedBody, TrackedStream},
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
    let max_streams = inner.limits.max_streams_per_connection;
    let address = stream.get_ref().0.peer_addr().ok().map(|address| address.ip());
    let peer = Peer { certificate: certificate.clone(), address, connection: connection.clone() };
    let mut not_after = certificate.as_ref().map_or(i64::MAX, |certificate| certificate.not_after);
    let mut draining = false;
    let streams = Streams::default();
    let serving = serve(server, peer, TrackedStream::new(stream, registration), max_streams, streams.clone());
    let serving = pin!(serving);
    let mut serving = Serving::new(serving, streams);
    // Polled only when an event has occurred, and not whenever the connection is polled.
    let mut events = FuturesUnordered::new();
    loop {
        if events.is_empty() {
            let wait = IDLE.min(remaining(not_after));
            events.push(event(connection.clone(), stopped.clone(), draining, wait).boxed());
        }
        let event = tokio::select! {
            biased;
            result = &mut serving => Err(result),
            event = events.select_next_some() => Ok(event),
        };
        let result = match event {
            Err(result) => result,
            Ok(Event::Closing) => {
                serving.shut_down();
                let ended = tokio::time::timeout(EVICTION, &mut serving).await;
                ended.unwrap_or(Ok(()))
            }
            Ok(Event::Stopping) => {
                serving.shut_down();
                serving.await
            }
            Ok(Event::Draining) => {
                draining = true;
                serving.shut_down();
                continue;
            }
            Ok(Event::Waited) => {
                if remaining(not_after).is_zero()
                    && let Some(certificate) = &certificate
                {
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

/// An event that a connection responds to, other than requests.
enum Event {
    /// The connection should be closed.
    Closing,
    /// The server stops.
    Stopping,
    /// The connection should accept no more requests.
    Draining,
    /// It is time to check whether the connection is idle, and whether its certificate has expired.
    Waited,
}

/// Waits for the next event.
async fn event(
    connection: Arc<Connection>,
    mut stopped: watch::Receiver<bool>,
    draining: bool,
    wait: Duration,
) -> Event {
    tokio::select! {
        () = connection.closing() => Event::Closing,
        () = stopping(&mut stopped) => Event::Stopping,
        () = connection.draining(), if !draining => Event::Draining,
        () = tokio::time::sleep(wait) => Event::Waited,
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
    max_streams: u32,
    streams: Streams,
) -> impl GracefulConnection<Error = BoxError> {
    let executor = streams.clone();
    let peer = Arc::new(peer);
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        streams.expect(&request);
        let (inner, peer) = (server.inner.clone(), peer.clone());
        let active = peer.connection.begin();
        // Boxed, because hyper and tokio move the future of a request ten times before they poll it.
        Box::pin(async move {
            let response = inner.handle(request, Some(&*peer)).await;
            let upgraded = response.status() == StatusCode::SWITCHING_PROTOCOLS;
            let active = if upgraded { active.upgraded() } else { active };
            Ok::<_, Infallible>(response.map(|body| TrackedBody::new(body, active)))
        })
    });
    let mut builder = auto::Builder::new(executor);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(max_streams)
        .max_header_list_size(MAX_HEADERS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(256 << 10)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned()
}
