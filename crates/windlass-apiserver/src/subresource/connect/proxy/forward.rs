//! Forwards a request to a port of a pod, over a connection of its own.
//!
//! The connection ends with the response: a client that disconnects drops the request or the body of the response, which
//! own the task of the connection.

use std::{
    io::{Read as _, Write as _},
    sync::Arc,
};

use bytes::{Bytes, BytesMut};
use flate2::{
    Compression,
    read::{DeflateDecoder, MultiGzDecoder},
    write::{DeflateEncoder, GzEncoder},
};
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use http_body::Body as _;
use http_body_util::{BodyDataStream, Full};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
    upgrade::OnUpgrade,
};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinSet,
};
use tokio_rustls::TlsConnector;

use super::{links::Links, location::Location, paths, unreachable};
use crate::{
    aggregation::{carry, headers},
    authentication::remove_subprotocol_tokens,
    blocking,
    body::{Body, BodyError},
    call::{Answer, Call},
    query::unescape_path,
    status::{ApiError, Result},
    webhooks::unverified,
};

/// The largest page in which links are changed. Its plain text may be eight times as long.
const PAGE_MAX: usize = 4 << 20;
/// The headers by which a server allows pages of others to use its responses. The proxy of many pods allows none.
const CROSS_ORIGIN: [&str; 4] = [
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
];

/// A connection to a pod, which is closed when this is dropped.
struct Connected {
    requests: SendRequest<Full<Bytes>>,
    task: JoinSet<()>,
}

/// Forwards a request, and returns the response.
pub(super) async fn forward(call: &Call<'_>, location: &Location) -> Result<Answer> {
    let parts = call.parts.ok_or_else(|| ApiError::unexpected("there is no request to forward"))?;
    let whole = unescape_path(parts.uri.path()).unwrap_or_default();
    let path = paths::at_pod(call.target.rest, &whole);
    let answering = async {
        if headers::is_upgrade(&parts.headers) {
            return upgrade(call, location, parts, &path).await;
        }
        if path.is_empty() && matches!(parts.method, Method::GET | Method::HEAD) {
            return Ok(with_slash(parts));
        }
        plain(call, location, parts, &whole, &path).await
    };
    let response = tokio::select! {
        response = answering => response?,
        () = call.server.stopped() => return Err(unreachable("the server is stopping")),
    };
    Ok(Answer::Response(Box::new(response)))
}

/// Redirects to the root of the pod, so that relative links of its page lead there.
fn with_slash(parts: &Parts) -> Response<Body> {
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(location) = HeaderValue::try_from(format!("{}/{query}", parts.uri.path())) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

async fn plain(call: &Call<'_>, location: &Location, parts: &Parts, whole: &str, path: &str) -> Result<Response<Body>> {
    let prefix = paths::prefix(whole, path);
    let mut request = request(call, location, parts, path)?;
    let mut forwarded = paths::clean(&format!("{prefix}/{}", paths::escape(path)));
    if !path.ends_with('/') && forwarded.ends_with('/') {
        forwarded.pop();
    }
    if let Ok(forwarded) = HeaderValue::try_from(forwarded) {
        request.headers_mut().insert("x-forwarded-uri", forwarded);
    }
    let server = host(parts);
    let links = Links { prefix, pod: &location.host, server: &server };
    let (response, task) = async {
        let mut connected = connect(location).await?;
        let response = connected.requests.send_request(request).await.map_err(|error| text_of(&error))?;
        Ok::<_, String>((response, connected.task))
    }
    .await
    .map_err(unreachable)?;
    let (mut head, body) = response.into_parts();
    headers::remove_hop_by_hop(&mut head.headers);
    CROSS_ORIGIN.iter().for_each(|name| drop(head.headers.remove(*name)));
    if let Some(through) = head.headers.get(header::LOCATION).map(|target| target.to_str().map(|to| links.through(to)))
    {
        if let Some(Ok(through)) = through.ok().flatten().map(HeaderValue::try_from) {
            head.headers.insert(header::LOCATION, through);
        }
    } else if is_page(&head.headers) {
        let body = page(call, &mut head.headers, body, task, &links).await?;
        return Ok(Response::from_parts(head, body));
    }
    let body = if body.is_end_stream() { Body::empty() } else { rest(call, Bytes::new(), body, task) };
    Ok(Response::from_parts(head, body))
}

/// Forwards a request that takes over its connection: WebSocket or SPDY.
async fn upgrade(call: &Call<'_>, location: &Location, parts: &Parts, path: &str) -> Result<Response<Body>> {
    let client: OnUpgrade = call
        .upgrade
        .clone()
        .ok_or_else(|| ApiError::bad_request("this connection cannot be upgraded: it takes HTTP/1.1 and a socket"))?;
    let mut request = request(call, location, parts, path)?;
    remove_subprotocol_tokens(request.headers_mut());
    let dialed = connect(location).await.map_err(|error| format!("error dialing backend: {error}"));
    let mut connected = dialed.map_err(ApiError::unexpected)?;
    let sent = connected.requests.send_request(request).await.map_err(|error| text_of(&error));
    let mut response = sent.map_err(ApiError::unexpected)?;
    match response.status() {
        StatusCode::SWITCHING_PROTOCOLS => {}
        code if code.as_u16() < 400 => {
            return Err(ApiError::unexpected(format!("invalid upgrade response: status code {}", code.as_u16())));
        }
        _ => {
            let (mut head, body) = response.into_parts();
            headers::remove_hop_by_hop(&mut head.headers);
            return Ok(Response::from_parts(head, rest(call, Bytes::new(), body, connected.task)));
        }
    }
    let pod = hyper::upgrade::on(&mut response);
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *answer.headers_mut() = std::mem::take(response.headers_mut());
    let stopped = call.server.stopped();
    let audit = call.audit.cloned();
    let task = async move {
        // The request is complete when the connection ends.
        let _kept = (audit, connected);
        let carrying = async move {
            match tokio::try_join!(client, pod) {
                Ok((client, pod)) => carry(client, pod).await,
                Err(error) => tracing::debug!(%error, "failed to upgrade a connection to a pod"),
            }
        };
        tokio::select! {
            () = carrying => {}
            () = stopped => {}
        }
    };
    tokio::spawn(task.boxed());
    Ok(answer)
}

/// Returns the request as the pod gets it.
fn request(call: &Call<'_>, location: &Location, parts: &Parts, path: &str) -> Result<Request<Full<Bytes>>> {
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let path = if path.is_empty() { "/" } else { path };
    let uri = format!("{}{query}", paths::escape(path));
    let mut request = Request::new(Full::new(call.body.clone()));
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() =
        uri.parse().map_err(|error: http::uri::InvalidUri| ApiError::unexpected(format!("{uri}: {error}")))?;
    *request.headers_mut() = headers::without_credentials(parts, call.peer.and_then(|peer| peer.address));
    let host = Some(host(parts)).filter(|host| !host.is_empty()).unwrap_or_else(|| location.host.clone());
    if let Ok(host) = HeaderValue::try_from(host) {
        request.headers_mut().insert(header::HOST, host);
    }
    Ok(request)
}

/// Returns the host and port by which the client knows this server.
fn host(parts: &Parts) -> String {
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    host.or_else(|| parts.uri.authority().map(|authority| authority.as_str())).unwrap_or_default().to_owned()
}

async fn connect(location: &Location) -> Result<Connected, String> {
    let opened = location.connections.port_forward(&location.pod, location.port).await;
    let connection = opened.map_err(|error| error.message)?;
    if !location.is_tls {
        return over(connection).await;
    }
    let tls = TlsConnector::from(Arc::new(unverified()?));
    let name = ServerName::IpAddress(location.address.into());
    over(tls.connect(name, connection).await.map_err(|error| error.to_string())?).await
}

async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Connected, String> {
    let (requests, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| text_of(&error))?;
    let mut task = JoinSet::new();
    let driver = async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a pod failed");
        }
    };
    task.spawn(driver.boxed());
    Ok(Connected { requests, task })
}

/// Returns the message of an error with its causes.
fn text_of(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Returns a body of which some bytes have been read, with the connection that it comes from. It ends when the server
/// stops. A body that breaks off must not look complete, so the connection or stream of the client is reset.
fn rest(call: &Call<'_>, read: Bytes, body: Incoming, task: JoinSet<()>) -> Body {
    let pieces = BodyDataStream::new(body).map_err(|error| {
        tracing::debug!(%error, "the response of a pod broke off");
        BodyError::BrokenOff
    });
    let pieces = stream::iter((!read.is_empty()).then_some(Ok(read))).chain(pieces).take_until(call.server.stopped());
    Body::Forwarded(Box::pin(pieces.inspect_ok(move |_| {
        let _kept = &task;
    })))
}

fn is_page(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim() == "text/html")
}

/// Returns the body of a page, whose links lead through the proxy if it can be read as a whole.
async fn page(
    call: &Call<'_>,
    headers: &mut HeaderMap,
    mut body: Incoming,
    task: JoinSet<()>,
    links: &Links<'_>,
) -> Result<Body> {
    let mut read = BytesMut::new();
    loop {
        if read.len() > PAGE_MAX {
            return Ok(rest(call, read.freeze(), body, task));
        }
        let mut pieces = BodyDataStream::new(&mut body);
        match pieces.next().await {
            Some(Ok(piece)) => read.extend_from_slice(&piece),
            Some(Err(error)) => return Err(unreachable(text_of(&error))),
            None => break,
        }
    }
    let encoding = headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes).unwrap_or_default().to_vec();
    let changed = match read.is_empty() {
        true => None,
        false => blocking::run(|| recoded(&encoding, &read, |page| links.in_page(page))),
    };
    let Some(changed) = changed else { return Ok(read.freeze().into()) };
    headers.remove(header::CONTENT_LENGTH);
    Ok(Bytes::from(changed).into())
}

/// Changes the text behind an encoding. Returns `None` if the encoding is unknown, or the text damaged or too long.
fn recoded(encoding: &[u8], body: &[u8], change: impl FnOnce(&[u8]) -> Vec<u8>) -> Option<Vec<u8>> {
    let most = PAGE_MAX as u64 * 8;
    let mut text = Vec::new();
    match encoding {
        b"" => return Some(change(body)),
        b"gzip" => MultiGzDecoder::new(body).take(most + 1).read_to_end(&mut text).ok()?,
        b"deflate" => DeflateDecoder::new(body).take(most + 1).read_to_end(&mut text).ok()?,
        _ => return None,
    };
    if text.len() as u64 > most {
        return None;
    }
    let changed = change(&text);
    match encoding {
        b"gzip" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(&changed).ok()?;
            encoder.finish().ok()
        }
        _ => {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(&changed).ok()?;
            encoder.finish().ok()
        }
    }
}
