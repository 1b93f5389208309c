//! Forwards requests to the server of their group version.
//!
//! Requests have been authenticated and authorized, and occupy a seat, before they get here. Bodies of responses are
//! passed on in the pieces in which they arrive; a client that disconnects drops the body, which cancels the request at
//! the other server.

use std::{net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header, request::Parts};
use http_body::Body as _;
use http_body_util::{BodyDataStream, Full};
use hyper::{
    body::Incoming,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWriteExt as _, copy};

use super::{Entry, headers, link::Link};
use crate::{
    audit::{self, RequestAudit},
    body::{Body, BodyError, ForwardedChunks},
    represent,
    server::Inner,
    user::User,
    webhooks::{HttpVersions, hold_time},
};

const UNAVAILABLE: &str = "service unavailable\n";
const REDIRECTED: &str = "the backend attempted to redirect this request, which is not permitted";
/// Time for which virtual time stands still for a response.
const MAX_HOLD_TIME: Duration = Duration::from_secs(60);

/// A request to forward.
pub(crate) struct Forwarded<'a> {
    pub(crate) parts: &'a Parts,
    /// The address of the client.
    pub(crate) address: Option<IpAddr>,
    pub(crate) body: Bytes,
    pub(crate) user: &'a User,
    /// Whether the response may last for any time.
    pub(crate) long_running: bool,
    pub(crate) audit: Option<&'a Arc<RequestAudit>>,
    pub(crate) audit_id: &'a HeaderValue,
}

impl Entry {
    /// Forwards a request and returns the response. Failures are responses too.
    pub(crate) async fn forward(&self, server: &Arc<Inner>, request: Forwarded<'_>) -> Response<Body> {
        let Some(link) = self.link.as_ref().filter(|_| self.available) else {
            return represent::text(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE.to_owned());
        };
        let upgrade = request.parts.extensions.get::<OnUpgrade>().cloned();
        match upgrade.filter(|_| headers::is_upgrade(&request.parts.headers)) {
            Some(upgrade) => forward_upgrade(server, link, request, upgrade).await,
            None => forward(server, link, request).await,
        }
    }
}

/// Returns the request as the other server gets it.
fn prepare(link: &Link, request: &Forwarded<'_>) -> Result<Request<Full<Bytes>>, String> {
    let Forwarded { parts, address, body, user, audit_id, .. } = request;
    let mut forwarded = Request::new(Full::new(body.clone()));
    *forwarded.method_mut() = parts.method.clone();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    *forwarded.uri_mut() = link.url(path).parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    *forwarded.headers_mut() = headers::forwarded(parts, *address, user, &link.host());
    forwarded.headers_mut().insert(audit::ID, (*audit_id).clone());
    Ok(forwarded)
}

async fn forward(server: &Arc<Inner>, link: &Link, request: Forwarded<'_>) -> Response<Body> {
    let _hold = hold_time(MAX_HOLD_TIME);
    let sent = async { link.send(&server.aggregation, prepare(link, &request)?, HttpVersions::All).await };
    match sent.await {
        Ok(response) => passed_on(server, response, request.long_running),
        Err(error) => unreachable_service(&format!("error trying to reach service: {error}")),
    }
}

/// Forwards a request that takes over its connection: WebSocket or SPDY.
async fn forward_upgrade(
    server: &Arc<Inner>,
    link: &Link,
    request: Forwarded<'_>,
    client: OnUpgrade,
) -> Response<Body> {
    let _hold = hold_time(MAX_HOLD_TIME);
    let sent = async { link.send(&server.aggregation, prepare(link, &request)?, HttpVersions::Upgradable).await };
    let mut response = match sent.await {
        Ok(response) => response,
        Err(error) => return unreachable_service(&format!("error dialing backend: {error}")),
    };
    match response.status() {
        StatusCode::SWITCHING_PROTOCOLS => {}
        code if code.as_u16() < 400 => {
            return unreachable_service(&format!("invalid upgrade response: status code {}", code.as_u16()));
        }
        _ => return passed_on(server, response, true),
    }
    let backend = hyper::upgrade::on(&mut response);
    let stopped = server.stopped();
    let audit = request.audit.cloned();
    let task = async move {
        // The request is complete when the connection ends.
        let _audit = audit;
        let carrying = async move {
            match tokio::try_join!(client, backend) {
                Ok((client, backend)) => carry(client, backend).await,
                Err(error) => tracing::debug!(%error, "failed to upgrade a forwarded connection"),
            }
        };
        tokio::select! {
            () = carrying => {}
            () = stopped => {}
        }
    };
    tokio::spawn(task.boxed());
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *answer.headers_mut() = std::mem::take(response.headers_mut());
    answer
}

/// Carries bytes in both directions until one side closes its connection.
pub(crate) async fn carry(client: Upgraded, backend: Upgraded) {
    let (mut from_client, mut to_client) = tokio::io::split(TokioIo::new(client));
    let (mut from_backend, mut to_backend) = tokio::io::split(TokioIo::new(backend));
    tokio::select! {
        _ = copy(&mut from_client, &mut to_backend) => {}
        _ = copy(&mut from_backend, &mut to_client) => {}
    }
    // A side that has disconnected cannot be notified.
    let _ = to_backend.shutdown().await;
    let _ = to_client.shutdown().await;
}

/// Returns a response of the other server as one of this server.
fn passed_on(server: &Arc<Inner>, response: Response<Incoming>, long_running: bool) -> Response<Body> {
    let (parts, body) = response.into_parts();
    if parts.status.is_redirection() && parts.headers.contains_key(header::LOCATION) {
        return represent::text(StatusCode::BAD_GATEWAY, REDIRECTED.to_owned());
    }
    let body = match body.is_end_stream() {
        true => Body::empty(),
        false => Body::Forwarded(chunks(server, body, long_running)),
    };
    let mut answer = Response::new(body);
    *answer.status_mut() = parts.status;
    *answer.headers_mut() = without_hop_by_hop(parts.headers);
    answer
}

fn without_hop_by_hop(mut headers: HeaderMap) -> HeaderMap {
    headers::remove_hop_by_hop(&mut headers);
    headers
}

/// Returns the pieces of a body, as they arrive. Bodies that may last for any time end when the server stops. A body that
/// breaks off must not look complete, so the connection or stream of the client is reset.
fn chunks(server: &Arc<Inner>, body: Incoming, long_running: bool) -> ForwardedChunks {
    let pieces = BodyDataStream::new(body).map_err(|error| {
        tracing::debug!(%error, "a forwarded response broke off");
        BodyError::BrokenOff
    });
    match long_running {
        true => Box::pin(pieces.take_until(server.stopped())),
        false => Box::pin(pieces),
    }
}

fn unreachable_service(message: &str) -> Response<Body> {
    represent::text(StatusCode::SERVICE_UNAVAILABLE, format!("{message}\n"))
}
