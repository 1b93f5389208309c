//! HTTP server of probes, metrics and debug pages.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    body::{Bytes, Incoming},
    rt::{Read, Write},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use tokio::net::TcpListener;

#[cfg(feature = "pprof")]
use super::profile::{ProfileError, Profiler};
use super::{
    debug_state::DebugState,
    guard::{Guard, Verdict},
    health::Checks,
    https::Https,
    logs::LogLevel,
};
use crate::{
    metrics::{Metrics, TextFormat},
    shutdown::Shutdown,
};

/// Time that a client gets to send the head of its request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that a client gets to send the body of its request.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of the body of a request: a log filter.
const BODY_BYTES: usize = 4096;
/// Limit of the head of a request.
const HEAD_BYTES: usize = 64 << 10;
/// Maximum number of connections over TLS; others wait.
const MAX_CONNECTIONS: usize = 256;
/// Time that responses get to be sent once the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// Pause after a failure to accept a connection, for example because no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The endpoints of a listener.
#[derive(Clone, Default)]
pub(super) struct Pages {
    pub(super) live: Option<Checks>,
    pub(super) ready: Option<Checks>,
    pub(super) metrics: Option<Metrics>,
    pub(super) state: Option<DebugState>,
    /// Not served to other machines without a guard.
    pub(super) log_level: Option<LogLevel>,
    /// The same.
    #[cfg(feature = "pprof")]
    pub(super) profiler: Option<Profiler>,
    /// Decides about every request, if there is one.
    pub(super) guard: Option<Arc<Guard>>,
}

/// A response with a whole body.
type Answer = Response<Full<Bytes>>;

impl Pages {
    /// Responds to a request that arrived at `address`.
    async fn answer(&self, request: Request<Incoming>, address: Option<SocketAddr>) -> Answer {
        if let Some(guard) = &self.guard {
            let verdict = guard.check(request.method(), request.uri().path(), request.headers()).await;
            if let Some(rejection) = rejection(verdict, request.method(), request.uri().path()) {
                return rejection;
            }
        }
        if let ("/debug/log-level", Some(level)) = (request.uri().path(), &self.log_level) {
            return if self.is_protected(address) { log_level(level, request).await } else { unprotected() };
        }
        #[cfg(feature = "pprof")]
        if let ("/debug/pprof/profile", &Method::GET, Some(profiler)) =
            (request.uri().path(), request.method(), &self.profiler)
        {
            let query = request.uri().query().unwrap_or_default();
            return if self.is_protected(address) { profile(profiler, query).await } else { unprotected() };
        }
        self.read(&request)
    }

    /// Returns whether every request is local or authenticated.
    fn is_protected(&self, address: Option<SocketAddr>) -> bool {
        self.guard.is_some() || address.is_some_and(|address| address.ip().is_loopback())
    }

    /// Responds to a request that changes nothing.
    fn read(&self, request: &Request<Incoming>) -> Answer {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return not_allowed("GET, HEAD");
        }
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let mut segments = path.trim_start_matches('/').splitn(2, '/');
        let (first, rest) = (segments.next().unwrap_or_default(), segments.next().filter(|rest| !rest.is_empty()));
        let checks = match first {
            "healthz" | "livez" => self.live.as_ref(),
            "readyz" => self.ready.as_ref(),
            _ => None,
        };
        if let Some(checks) = checks {
            let verdict = checks.probe(first, rest, query);
            return plain(verdict.status, verdict.text);
        }
        match (path, &self.metrics, &self.state) {
            ("/metrics", Some(metrics), _) => {
                let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
                let format = TextFormat::accepted(accept);
                respond(StatusCode::OK, format.content_type(), metrics.encode_as(format))
            }
            ("/debug/state", _, Some(state)) => {
                respond(StatusCode::OK, "application/json", format!("{:#}\n", state.show()))
            }
            _ => plain(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
        }
    }

    /// Serves until drained, over TLS if it is given. Responses that are being sent then get one more second.
    pub(super) async fn serve(self, listener: TcpListener, https: Option<Https>, shutdown: Shutdown) {
        match https {
            None => self.serve_plain(listener, shutdown).await,
            Some(Https { config, source }) => {
                let (pages, address) = (Arc::new(self), listener.local_addr().ok());
                let connections = GracefulShutdown::new();
                let serving = async {
                    // Connections that remain at the end are cut off.
                    let _open = windlass_tls::accept(
                        listener,
                        config,
                        MAX_CONNECTIONS,
                        shutdown.draining(),
                        |_| {},
                        |handshake| {
                            let (pages, watcher) = (pages.clone(), connections.watcher());
                            async move {
                                let Some(stream) = handshake.complete().await else { return };
                                connection(pages, address, TokioIo::new(stream), watcher).await;
                            }
                        },
                    )
                    .await;
                    let _ = tokio::time::timeout(LAST_ANSWERS, connections.shutdown()).await;
                };
                tokio::select! {
                    () = serving => {}
                    () = source.run() => {}
                }
            }
        }
    }

    async fn serve_plain(self, listener: TcpListener, shutdown: Shutdown) {
        let (pages, address) = (Arc::new(self), listener.local_addr().ok());
        let connections = GracefulShutdown::new();
        let mut tasks = tokio::task::JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = tasks.join_next() => continue,
                () = shutdown.draining() => break,
            };
            match accepted {
                Ok((stream, _)) => {
                    tasks
                        .spawn(connection(pages.clone(), address, TokioIo::new(stream), connections.watcher()).boxed());
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        let _ = tokio::time::timeout(LAST_ANSWERS, connections.shutdown()).await;
    }
}

async fn connection<I>(pages: Arc<Pages>, address: Option<SocketAddr>, stream: I, watcher: Watcher)
where
    I: Read + Write + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let pages = pages.clone();
        async move { Ok::<_, Infallible>(pages.answer(request, address).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES);
    if let Err(error) = watcher.watch(builder.serve_connection(stream, service)).await {
        tracing::debug!(%error, "connection failed");
    }
}

/// Returns the response to a request that is not permitted.
fn rejection(verdict: Verdict, method: &Method, path: &str) -> Option<Answer> {
    let response = match verdict {
        Verdict::Permitted => return None,
        Verdict::Unauthorized => {
            let mut response = plain(StatusCode::UNAUTHORIZED, "Unauthorized\n".to_owned());
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            response
        }
        Verdict::Forbidden(user) => {
            let verb = method.as_str().to_ascii_lowercase();
            plain(StatusCode::FORBIDDEN, format!("Forbidden: User {user:?} cannot {verb} path {path:?}\n"))
        }
        Verdict::Undecided => {
            plain(StatusCode::INTERNAL_SERVER_ERROR, "failed to authenticate and authorize the request\n".to_owned())
        }
    };
    Some(response)
}

fn unprotected() -> Answer {
    let text = "served only with --metrics-secure, or on a loopback address\n";
    plain(StatusCode::FORBIDDEN, text.to_owned())
}

/// Shows or changes the log level.
async fn log_level(level: &LogLevel, request: Request<Incoming>) -> Answer {
    let shown = match *request.method() {
        Method::GET | Method::HEAD => level.shown(),
        Method::PUT => {
            let body =
                tokio::time::timeout(BODY_TIMEOUT, Limited::new(request.into_body(), BODY_BYTES).collect()).await;
            let filter = match body {
                Ok(Ok(body)) => String::from_utf8_lossy(&body.to_bytes()).trim().to_owned(),
                Ok(Err(error)) => {
                    return plain(StatusCode::BAD_REQUEST, format!("failed to read the filter: {error}\n"));
                }
                Err(_) => return plain(StatusCode::REQUEST_TIMEOUT, "the filter did not arrive in time\n".to_owned()),
            };
            match level.set(&filter) {
                Ok(shown) => Ok(shown),
                Err(error) => return plain(StatusCode::BAD_REQUEST, format!("{}\n", crate::Error::from(error))),
            }
        }
        _ => return not_allowed("GET, HEAD, PUT"),
    };
    match shown {
        Ok(shown) => plain(StatusCode::OK, shown + "\n"),
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

/// Records a profile.
#[cfg(feature = "pprof")]
async fn profile(profiler: &Profiler, query: &str) -> Answer {
    let error = match profiler.record(query).await {
        Ok(profile) => return respond(StatusCode::OK, "application/octet-stream", profile),
        Err(error) => error,
    };
    let status = match error {
        ProfileError::Seconds(_) => StatusCode::BAD_REQUEST,
        ProfileError::Busy => StatusCode::CONFLICT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    plain(status, format!("{error}\n"))
}

fn not_allowed(methods: &'static str) -> Answer {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n".to_owned());
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    response
}

fn plain(status: StatusCode, text: String) -> Answer {
    let mut response = respond(status, "text/plain; charset=utf-8", text);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn respond(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

#[cfg(test)]
mod tests;
