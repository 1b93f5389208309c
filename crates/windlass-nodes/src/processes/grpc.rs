//! The health check of gRPC servers: one call of `grpc.health.v1.Health/Check`, without TLS.

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderMap, Request, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{net::TcpStream, task::JoinSet};

/// The largest accepted response.
const ANSWER_MAX: usize = 4096;
/// The status of a service that works.
const SERVING: u64 = 1;
const STATUSES: [&str; 4] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];

/// Checks a service of a server; the server itself if the service is empty.
pub(super) async fn check(host: &str, port: u16, service: &str) -> Result<(), String> {
    let failed = |error: &dyn std::error::Error| {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("failed to connect service {host}:{port}: {error}{cause}")
    };
    let stream = TcpStream::connect((host, port)).await.map_err(|error| failed(&error))?;
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut requests, connection) = handshake.map_err(|error| failed(&error))?;
    // The connection ends with the check.
    let mut task = JoinSet::new();
    let driver = async move {
        let _ = connection.await;
    };
    task.spawn(driver.boxed());
    let request = Request::post(format!("http://{host}:{port}/grpc.health.v1.Health/Check"))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .header(header::USER_AGENT, "kube-probe/1.36")
        .body(Full::new(Bytes::from(message(service))))
        .map_err(|error| error.to_string())?;
    let response = requests.send_request(request).await.map_err(|error| failed(&error))?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, ANSWER_MAX).collect().await.map_err(|error| error.to_string())?;
    // A response without a message has the status among its headers.
    let status = body.trailers().and_then(grpc_status).or_else(|| grpc_status(&head.headers));
    match status.unwrap_or_else(|| format!("HTTP status {}", head.status.as_u16())).as_str() {
        "0" => {}
        "12" => {
            return Err("this server does not implement the grpc health protocol (grpc.health.v1.Health)".to_owned());
        }
        code => return Err(format!("rpc error: code = {code}")),
    }
    match serving_status(&body.to_bytes()) {
        Some(SERVING) => Ok(()),
        Some(other) => {
            let name = usize::try_from(other).ok().and_then(|index| STATUSES.get(index)).unwrap_or(&"UNKNOWN");
            Err(format!("service unhealthy (responded with \"{name}\")"))
        }
        None => Err("the response is not a health check".to_owned()),
    }
}

fn grpc_status(headers: &HeaderMap) -> Option<String> {
    headers.get("grpc-status")?.to_str().ok().map(str::to_owned)
}

/// The request: a message with the name of the service in its first field, after its length.
fn message(service: &str) -> Vec<u8> {
    let mut field = Vec::new();
    if !service.is_empty() {
        field.push(10);
        let mut length = service.len();
        while length >= 0x80 {
            field.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        field.push(length as u8);
        field.extend_from_slice(service.as_bytes());
    }
    let mut message = vec![0];
    message.extend_from_slice(&(field.len() as u32).to_be_bytes());
    message.extend_from_slice(&field);
    message
}

/// The first field of the message in a response, which is 0 if absent; `None` if there is no message.
fn serving_status(response: &[u8]) -> Option<u64> {
    let (prefix, message) = response.split_at_checked(5)?;
    if prefix[0] != 0 || u32::from_be_bytes(prefix[1..].try_into().ok()?) as usize != message.len() {
        return None;
    }
    match message {
        [] => Some(0),
        [8, value, ..] if *value < 0x80 => Some((*value).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{HeaderValue, Response};
    use http_body_util::StreamBody;
    use hyper::{body::Incoming, service::service_fn};
    use proptest::prelude::*;

    use super::*;

    /// A server with the services `up` and `down`.
    async fn answer(
        request: Request<Incoming>,
    ) -> Result<Response<impl http_body::Body<Data = Bytes, Error = Infallible>>, Infallible> {
        assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
        assert_eq!(request.headers()["te"], "trailers");
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let (status, value) = match &body[..] {
            [0, 0, 0, 0, 0] => ("0", Some(&[8, 1][..])),
            [0, 0, 0, 0, 4, 10, 2, b'u', b'p'] => ("0", Some(&[8, 1][..])),
            [0, 0, 0, 0, 6, 10, 4, b'd', b'o', b'w', b'n'] => ("0", Some(&[8, 2][..])),
            [.., b'0'] => ("0", Some(&[][..])),
            [.., b'x'] => ("12", None),
            _ => ("5", None),
        };
        let trailers =
            HeaderMap::from_iter([(header::HeaderName::from_static("grpc-status"), HeaderValue::from_static(status))]);
        let data = value.map(|value| [&[0, 0, 0, 0, value.len() as u8][..], value].concat());
        let frames = data.into_iter().map(|data| http_body::Frame::data(data.into()));
        let frames = frames.chain([http_body::Frame::trailers(trailers)]).map(Ok);
        Ok(Response::new(StreamBody::new(futures_util::stream::iter(frames))))
    }

    #[tokio::test]
    async fn a_service_is_healthy_if_it_says_so() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
            }
        });
        for (service, expected) in [
            ("", Ok(())),
            ("up", Ok(())),
            ("down", Err("service unhealthy (responded with \"NOT_SERVING\")")),
            ("s0", Err("service unhealthy (responded with \"UNKNOWN\")")),
            ("x", Err("this server does not implement the grpc health protocol (grpc.health.v1.Health)")),
            ("none", Err("rpc error: code = 5")),
        ] {
            assert_eq!(check("127.0.0.1", port, service).await, expected.map_err(str::to_owned), "{service}");
        }
        serving.shutdown().await;
        let refused = check("127.0.0.1", port, "").await.unwrap_err();
        assert!(refused.starts_with(&format!("failed to connect service 127.0.0.1:{port}: ")), "{refused}");
    }

    proptest! {
        #[test]
        fn no_response_panics(response in proptest::collection::vec(any::<u8>(), 0..12)) {
            serving_status(&response);
        }

        #[test]
        fn the_length_of_a_message_is_complete(service in "[a-z]{0,300}") {
            let message = message(&service);
            prop_assert_eq!(u32::from_be_bytes(message[1..5].try_into().unwrap()) as usize, message.len() - 5);
            prop_assert!(message.ends_with(service.as_bytes()));
        }
    }
}
