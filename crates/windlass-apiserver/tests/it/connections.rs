//! Limits on connections and on the memory of request bodies.

use bytes::Bytes;
use futures_util::{StreamExt as _, future::select_all, stream};
use http::{Request, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, Either, Full, StreamBody};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use windlass_apiserver::Limits;

use crate::tls_server::{RequestBody, TIMEOUT, TlsServer};

const WATCH: &str = "/api/v1/configmaps?watch=true";
const REVIEWS: &str = "https://127.0.0.1/apis/authentication.k8s.io/v1/selfsubjectreviews";

#[tokio::test]
async fn idle_connections_over_the_limit_are_closed_in_favour_of_new_ones() {
    let server = TlsServer::start(Limits { max_connections: 4, ..Limits::default() }).await;
    let mut watching = server.admin().await;
    let watch = watching.get(WATCH).await.unwrap();
    let mut idle = Vec::new();
    for _ in 0..10 {
        idle.push(server.connect("eve", &[]).await);
    }
    assert_eq!(server.admin().await.get("/api").await.unwrap().status(), 200);
    // The oldest are closed, and the connection with the watch is not.
    for connection in &mut idle[..6] {
        let read = tokio::time::timeout(TIMEOUT, connection.read(&mut [0; 64])).await.expect("the end in time");
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
    assert_eq!(watching.get("/api").await.unwrap().status(), 200);
    drop(watch);
}

#[tokio::test]
async fn busy_connections_do_not_lock_the_administrator_out() {
    let server = TlsServer::start(Limits { max_connections: 4, ..Limits::default() }).await;
    let mut busy = Vec::new();
    for _ in 0..4 {
        let mut connection = server.admin().await;
        busy.push((connection.get(WATCH).await.unwrap(), connection));
    }
    let mut other = server.connect("eve", &[]).await;
    let read = tokio::time::timeout(TIMEOUT, other.read(&mut [0; 64])).await.expect("the end in time");
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    assert_eq!(server.admin().await.get("/api").await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_client_with_too_many_connections_loses_its_own() {
    let server = TlsServer::start(Limits { max_connections_per_client: 2, ..Limits::default() }).await;
    let mut bob = server.http2("bob", &[]).await;
    assert_eq!(bob.get("/api").await.unwrap().status(), 200);
    let mut first = server.http2("eve", &[]).await;
    assert_eq!(first.get("/api").await.unwrap().status(), 200);
    let _second = server.http2("eve", &[]).await;
    let mut third = server.http2("eve", &[]).await;
    assert_eq!(third.get("/api").await.unwrap().status(), 200);
    tokio::time::timeout(TIMEOUT, first.ended.join_next()).await.expect("the first connection is closed");
    assert_eq!(bob.get("/api").await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_client_that_does_not_read_its_list_loses_its_connection() {
    let server = TlsServer::start(Limits::default()).await;
    let mut admin = server.admin().await;
    // More than the buffers of a connection hold.
    for number in 0..24 {
        let data = json!({"a": "x".repeat(1_000_000)});
        let object = json!({"metadata": {"name": format!("c{number}")}, "data": data}).to_string();
        let request = Request::post("https://127.0.0.1/api/v1/namespaces/default/configmaps");
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let request = request.body(Either::Left(Full::new(Bytes::from(object)))).unwrap();
        assert_eq!(admin.send(request).await.unwrap().status(), 201);
    }
    let mut stalled = server.connect("admin", &["system:masters"]).await;
    stalled.write_all(b"GET /api/v1/configmaps?timeout=2s HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    stalled.flush().await.unwrap();
    let closed = async {
        loop {
            let metrics = admin.get("/metrics").await.unwrap().into_body().collect().await.unwrap().to_bytes();
            if String::from_utf8_lossy(&metrics).contains("\nwindlass_open_connections 1\n") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, closed).await.expect("the connection is closed");
    // The response is incomplete.
    let mut read = Vec::new();
    let _ = stalled.read_to_end(&mut read).await;
    assert!(read.starts_with(b"HTTP/1.1 200 OK\r\n") && !read.ends_with(b"\r\n0\r\n\r\n"), "{} bytes", read.len());
}

/// A body that sends this many bytes and then nothing more.
fn stalled(bytes: usize) -> RequestBody {
    let frame = Ok(Frame::data(Bytes::from(vec![b' '; bytes])));
    Either::Right(StreamBody::new(stream::once(async { frame }).chain(stream::pending()).boxed()))
}

#[tokio::test]
async fn a_client_that_holds_many_large_bodies_is_stopped() {
    let server = TlsServer::start(Limits { max_body_memory: 8 << 20, ..Limits::default() }).await;
    let mut eve = server.http2("eve", &[]).await;
    let mut requests = Vec::new();
    for _ in 0..8 {
        eve.requests.ready().await.unwrap();
        let request = Request::post(REVIEWS).header(header::CONTENT_TYPE, "application/json");
        requests.push(Box::pin(eve.requests.send_request(request.body(stalled(1 << 20)).unwrap())));
    }
    // A quarter of the memory is for one user: two of the bodies, so that at least six requests are rejected.
    for _ in 0..6 {
        let (response, _, rest) =
            tokio::time::timeout(TIMEOUT, select_all(requests)).await.expect("a response in time");
        requests = rest;
        let response = response.unwrap();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }
    // Others are not affected.
    for (user, groups) in [("bob", vec![]), ("admin", vec!["system:masters"])] {
        let body = Either::Left(Full::new(Bytes::from(format!("{{\"kind\":\"x\"}}{}", " ".repeat(1 << 20)))));
        let request = Request::post(REVIEWS).header(header::CONTENT_TYPE, "application/json").body(body).unwrap();
        let response = server.http2(user, &groups).await.send(request).await.unwrap();
        assert_eq!(response.status(), 400, "{user}: the body is read, and is of an unknown kind");
    }
}
