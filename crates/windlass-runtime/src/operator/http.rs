//! HTTP server of probes, metrics and debug state.

use std::{convert::Infallible, sync::Arc, time::Duration};

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Bytes, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::net::TcpListener;

use super::{debug_state::DebugState, health::Checks};
use crate::{
    metrics::{Metrics, TextFormat},
    shutdown::Shutdown,
};

/// Time that a client gets to send the head of its request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that responses get to be sent once the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// Pause after failed to accept a connection, for example because no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The endpoints of a listener.
#[derive(Clone, Default)]
pub(super) struct Pages {
    pub(super) live: Option<Checks>,
    pub(super) ready: Option<Checks>,
    pub(super) metrics: Option<Metrics>,
    pub(super) state: Option<DebugState>,
}

impl Pages {
    /// Responds to a request.
    pub(super) fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n".to_owned());
            response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("GET, HEAD"));
            return response;
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

    /// Serves until drained. Responses that are being sent then get one more second.
    pub(super) async fn serve(self, listener: TcpListener, shutdown: Shutdown) {
        let pages = Arc::new(self);
        let connections = GracefulShutdown::new();
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        let mut tasks = tokio::task::JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = tasks.join_next() => continue,
                () = shutdown.draining() => break,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let pages = pages.clone();
            let service = service_fn(move |request| {
                let response = pages.answer(&request);
                async move { Ok::<_, Infallible>(response) }
            });
            let connection = connections.watch(builder.serve_connection(TokioIo::new(stream), service));
            tasks.spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "connection failed");
                }
            });
        }
        drop(listener);
        let _ = tokio::time::timeout(LAST_ANSWERS, connections.shutdown()).await;
    }
}

fn plain(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = respond(status, "text/plain; charset=utf-8", text);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    response
}

fn respond(status: StatusCode, content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-cache, private"));
    response
}
