//! Upgrades a connection: negotiates the protocol with the client, and serves it.

use std::{collections::HashMap, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use ring::digest;
use tokio::sync::mpsc;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::protocol::{Role, WebSocketConfig},
};

use super::{
    Target,
    channels::{self, OUTGOING},
    pieces, port_forward as forwarding,
    remote::{self, Client},
    spdy::session::{self, Stream},
};
use crate::{
    body::{Body, Chunks},
    call::{Answer, Call},
    pod_connections::{Process, Streams},
    status::{ApiError, Result},
};

/// Commands over channels or streams. Version 5 can close a channel over a WebSocket as well.
const COMMAND_PROTOCOLS: &[&str] = &["v5.channel.k8s.io", "v4.channel.k8s.io"];
/// Commands over channels. The first version reports failures as text, and nothing else.
const COMMAND_CHANNELS: &[&str] = &["v5.channel.k8s.io", "v4.channel.k8s.io", FIRST_VERSION];
const FIRST_VERSION: &str = "channel.k8s.io";
/// Logs as messages without a channel.
const LOG_PROTOCOLS: &[&str] = &["binary.k8s.io"];
/// Ports over SPDY streams.
const PORTS: &str = "portforward.k8s.io";
/// Ports over SPDY streams within a WebSocket.
const PORTS_TUNNELED: &str = "SPDY/3.1+portforward.k8s.io";
/// Ports over channels.
const PORTS_CHANNELS: &str = "v4.channel.k8s.io";
/// The header in which protocols over SPDY are offered and chosen.
const STREAM_PROTOCOL: &str = "x-stream-protocol-version";
/// The GUID that RFC 6455 appends to a client's key.
const WEBSOCKET_GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The largest message a client may send, which is held in memory until it is complete.
const MESSAGE_MAX: usize = 4 << 20;
/// Maximum time for a client to open the streams of its command.
const STREAMS_DEADLINE: Duration = Duration::from_secs(30);
/// Maximum time for a client to disconnect after its command has ended.
const GOODBYE: Duration = Duration::from_secs(10);

/// The protocol of the upgraded connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    WebSocket(&'static str),
    Spdy(&'static str),
}

/// Responds with the upgrade and serves a command on the connection. The command is started when the connection is
/// upgraded; failures to start it are reported there.
pub(super) fn remote_command(
    call: &Call<'_>,
    streams: Streams,
    start: impl Future<Output = Result<Process>> + Send + 'static,
) -> Result<Answer> {
    let protocol = negotiate(call.headers, COMMAND_CHANNELS, COMMAND_PROTOCOLS)?;
    upgrade(call, protocol, async move |upgraded| match protocol {
        Protocol::WebSocket(version) => {
            let (outgoing, to_client) = mpsc::channel(OUTGOING);
            let (stdin, from_stdin) = pieces::queue();
            let (resize, from_resize) = pieces::queue();
            let client = Client {
                stdin: streams.stdin.then_some(from_stdin),
                resize: streams.tty.then_some(from_resize),
                outgoing,
                stdout: streams.stdout.then_some(1),
                stderr: streams.stderr.then_some(2),
                error: 3,
                reports_status: version != FIRST_VERSION,
            };
            let incoming = HashMap::from([(0, stdin), (4, resize)]);
            let carrying =
                channels::run(websocket(upgraded).await, incoming, to_client, version == COMMAND_PROTOCOLS[0]);
            tokio::pin!(carrying);
            tokio::select! {
                () = &mut carrying => {}
                () = async { remote::serve(start.await, client).await } => carrying.await,
            }
        }
        Protocol::Spdy(_) => {
            let (opened, carrying) = session::session(TokioIo::new(upgraded));
            let serving = async {
                let Some(client) = command_streams(opened, streams).await else { return };
                remote::serve(start.await, client).await;
                tokio::time::sleep(GOODBYE).await;
            };
            tokio::select! {
                () = carrying => {}
                () = serving => {}
            }
        }
    })
}

/// Responds with the upgrade and connects the client with ports of a pod.
pub(super) fn port_forward(call: &Call<'_>, target: Target) -> Result<Answer> {
    let protocol = negotiate(call.headers, &[PORTS_TUNNELED, PORTS_CHANNELS], &[PORTS])?;
    let ports = match protocol {
        Protocol::WebSocket(PORTS_CHANNELS) => ports(&call.query.all("ports"))?,
        _ => Vec::new(),
    };
    upgrade(call, protocol, async move |upgraded| match protocol {
        Protocol::WebSocket(PORTS_CHANNELS) => {
            let (outgoing, to_client) = mpsc::channel(OUTGOING);
            let (senders, receivers): (Vec<_>, Vec<_>) = ports.iter().map(|_| pieces::queue()).unzip();
            let incoming = senders.into_iter().enumerate().map(|(index, sender)| (index as u8 * 2, sender)).collect();
            let carrying = channels::run(websocket(upgraded).await, incoming, to_client, false);
            tokio::pin!(carrying);
            tokio::select! {
                () = &mut carrying => {}
                () = forwarding::over_channels(target, ports, receivers, outgoing) => carrying.await,
            }
        }
        Protocol::WebSocket(_) => {
            let (io, tunnel) = channels::tunnel(websocket(upgraded).await);
            let (opened, carrying) = session::session(io);
            tokio::select! {
                () = tunnel => {}
                () = carrying => {}
                () = forwarding::over_streams(target, opened) => {}
            }
        }
        Protocol::Spdy(_) => {
            let (opened, carrying) = session::session(TokioIo::new(upgraded));
            tokio::select! {
                () = carrying => {}
                () = forwarding::over_streams(target, opened) => {}
            }
        }
    })
}

/// Parses the ports that a client names, one per parameter or all in one.
fn ports(parameters: &[&str]) -> Result<Vec<u16>> {
    let numbers = parameters.iter().flat_map(|text| text.split(',')).map(str::trim);
    let ports: Option<Vec<u16>> = numbers.map(|text| text.parse().ok().filter(|port| *port > 0)).collect();
    // Channel numbers are bytes, and the last one has another meaning.
    ports.filter(|ports| (1..=127).contains(&ports.len())).ok_or_else(|| {
        ApiError::bad_request("query parameter \"ports\" must have between 1 and 127 numbers from 1 to 65535")
    })
}

/// Returns the streams of a command, when the client has opened all that it requested.
async fn command_streams(mut opened: mpsc::Receiver<Stream>, wanted: Streams) -> Option<Client> {
    let mut streams: HashMap<String, Stream> = HashMap::new();
    let expected =
        1 + [wanted.stdin, wanted.stdout, wanted.stderr, wanted.tty].into_iter().filter(|wanted| *wanted).count();
    let collecting = async {
        while streams.len() < expected {
            let stream = opened.recv().await?;
            streams.insert(stream.header("streamtype").to_owned(), stream);
        }
        Some(())
    };
    tokio::time::timeout(STREAMS_DEADLINE, collecting).await.ok()??;
    let error = streams.remove("error")?;
    Some(Client {
        stdin: streams.remove("stdin").map(|stream| stream.incoming),
        resize: streams.remove("resize").map(|stream| stream.incoming),
        outgoing: error.outgoing,
        stdout: streams.remove("stdout").map(|stream| stream.id),
        stderr: streams.remove("stderr").map(|stream| stream.id),
        error: error.id,
        reports_status: true,
    })
}

/// Chooses the protocol that the client offers and the server supports.
fn negotiate(headers: &HeaderMap, websocket: &[&'static str], spdy: &[&'static str]) -> Result<Protocol> {
    let has = |name: header::HeaderName, token: &str| {
        tokens(headers, name.as_str()).any(|have| have.eq_ignore_ascii_case(token))
    };
    let choose = |header: &str, known: &[&'static str]| -> Result<&'static str> {
        let offered: Vec<&str> = tokens(headers, header).collect();
        let chosen = offered.iter().find_map(|offer| known.iter().find(|known| *known == offer));
        chosen.copied().ok_or_else(|| {
            let message = format!(
                "unable to upgrade: unable to negotiate protocol: client supports [{}], server accepts [{}]",
                offered.join(" "),
                known.join(" ")
            );
            ApiError::new(StatusCode::FORBIDDEN, "Forbidden", message)
        })
    };
    if !has(header::CONNECTION, "upgrade") {
        return Err(ApiError::bad_request("Upgrade request required"));
    }
    if has(header::UPGRADE, "websocket") {
        return choose(header::SEC_WEBSOCKET_PROTOCOL.as_str(), websocket).map(Protocol::WebSocket);
    }
    if has(header::UPGRADE, "SPDY/3.1") {
        return choose(STREAM_PROTOCOL, spdy).map(Protocol::Spdy);
    }
    Err(ApiError::bad_request("Upgrade request required"))
}

/// Returns the tokens of a header that may occur several times, each time with several tokens.
fn tokens<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|token| !token.is_empty())
}

/// Returns the response that upgrades the connection; `serve` then owns it, until the server stops.
fn upgrade<F>(call: &Call<'_>, protocol: Protocol, serve: impl FnOnce(Upgraded) -> F + Send + 'static) -> Result<Answer>
where
    F: Future<Output = ()> + Send + 'static,
{
    let upgrade: OnUpgrade = call
        .upgrade
        .clone()
        .ok_or_else(|| ApiError::bad_request("this connection cannot be upgraded: it takes HTTP/1.1 and a socket"))?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    match protocol {
        Protocol::WebSocket(chosen) => {
            let key = call.headers.get(header::SEC_WEBSOCKET_KEY);
            let key = key.ok_or_else(|| ApiError::bad_request("the header Sec-WebSocket-Key is missing"))?;
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept(key));
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(chosen));
        }
        Protocol::Spdy(chosen) => {
            headers.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
            headers.insert(STREAM_PROTOCOL, HeaderValue::from_static(chosen));
        }
    }
    let stopped = call.server.stopped();
    let audit = call.audit.cloned();
    let task = async move {
        // The request is complete when the connection ends.
        let _audit = audit;
        let serving = async move {
            match upgrade.await {
                Ok(upgraded) => serve(upgraded).await,
                Err(error) => tracing::debug!(%error, "failed to upgrade a connection"),
            }
        };
        tokio::select! {
            () = serving => {}
            () = stopped => {}
        }
    };
    tokio::spawn(task.boxed());
    Ok(Answer::Response(Box::new(response)))
}

/// Returns whether a request asks for a WebSocket.
pub(super) fn is_websocket(headers: &HeaderMap) -> bool {
    tokens(headers, header::UPGRADE.as_str()).any(|token| token.eq_ignore_ascii_case("websocket"))
}

/// Responds with the upgrade and sends a log as messages.
pub(super) fn log(call: &Call<'_>, chunks: Chunks) -> Result<Answer> {
    let protocol = negotiate(call.headers, LOG_PROTOCOLS, &[])?;
    upgrade(call, protocol, async move |upgraded| channels::send(websocket(upgraded).await, chunks).await)
}

/// Returns the proof that the server has read the client's key.
fn accept(key: &HeaderValue) -> HeaderValue {
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &[key.as_bytes(), WEBSOCKET_GUID].concat());
    HeaderValue::try_from(STANDARD.encode(digest.as_ref())).expect("base64 must be a header value")
}

async fn websocket(upgraded: Upgraded) -> WebSocketStream<TokioIo<Upgraded>> {
    WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(websocket_config())).await
}

/// Returns the limits of a WebSocket.
pub(crate) fn websocket_config() -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(Some(MESSAGE_MAX)).max_frame_size(Some(MESSAGE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs =
            pairs.iter().map(|(name, value)| (header::HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    #[test]
    fn the_first_known_protocol_is_chosen() {
        let websocket = headers(&[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-protocol", "v9.channel.k8s.io, v5.channel.k8s.io,v4.channel.k8s.io"),
        ]);
        let chosen = negotiate(&websocket, COMMAND_PROTOCOLS, COMMAND_PROTOCOLS).unwrap();
        assert_eq!(chosen, Protocol::WebSocket("v5.channel.k8s.io"));
        let spdy = headers(&[
            ("connection", "Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
        ]);
        let chosen = negotiate(&spdy, COMMAND_PROTOCOLS, COMMAND_PROTOCOLS).unwrap();
        assert_eq!(chosen, Protocol::Spdy("v4.channel.k8s.io"));
        assert_eq!(negotiate(&spdy, &[], &[PORTS]).unwrap_err().code, StatusCode::FORBIDDEN);
        let plain = negotiate(&HeaderMap::new(), COMMAND_PROTOCOLS, COMMAND_PROTOCOLS).unwrap_err();
        assert_eq!(plain.message, "Upgrade request required");
    }

    #[test]
    fn a_websocket_key_is_answered_as_the_standard_shows() {
        let key = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept(&key), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn ports_are_numbers() {
        assert_eq!(ports(&["80,443", "8080"]).unwrap(), [80, 443, 8080]);
        for bad in [&[][..], &["x"], &["0"], &["70000"], &[""]] {
            ports(bad).unwrap_err();
        }
    }
}
