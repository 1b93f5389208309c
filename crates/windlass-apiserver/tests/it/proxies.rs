//! Requests that are forwarded to pods, services and nodes.

use std::{convert::Infallible, io::Write as _, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use futures_util::StreamExt as _;
use http::{Method, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, Either, Full, StreamBody};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy},
    sync::{
        Notify,
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    },
};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;
use windlass_apiserver::{
    Limits, Server,
    body::Chunks,
    pod_connections::{Connection, LogOptions, PodConnections, Process, Streams},
    status::{ApiError, Result},
    user::User,
};
use windlass_store::memory::MemoryStore;

use crate::client::Client;

const NAMESPACE: &str = "/api/v1/namespaces/default";
/// The port of a pod that refuses connections.
const CLOSED: u16 = 9;
/// The port of a pod that serves TLS.
const SECURE: u16 = 8443;

type Pieces = StreamBody<futures_util::stream::BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

/// Pods with a server in this process.
struct Pods {
    /// Gets a message when a connection has ended.
    ended: UnboundedSender<()>,
    /// Notified when a request has arrived that is never answered.
    arrived: Arc<Notify>,
}

/// The other sides of [`Pods`].
struct Observed {
    ended: UnboundedReceiver<()>,
    arrived: Arc<Notify>,
}

#[async_trait]
impl PodConnections for Pods {
    async fn log(&self, _: &Value, _: &str, _: LogOptions) -> Result<Chunks> {
        unreachable!("no log is read")
    }

    async fn exec(&self, _: &Value, _: &str, _: Vec<String>, _: Streams) -> Result<Process> {
        unreachable!("no command is run")
    }

    async fn attach(&self, _: &Value, _: &str, _: Streams) -> Result<Process> {
        unreachable!("no container is attached to")
    }

    async fn port_forward(&self, pod: &Value, port: u16) -> Result<Connection> {
        if port == CLOSED {
            return Err(ApiError::internal("connection refused"));
        }
        let (near, far) = tokio::io::duplex(1024);
        let (pod, ended) = (pod["metadata"]["name"].as_str().unwrap().to_owned(), self.ended.clone());
        let arrived = self.arrived.clone();
        tokio::spawn(async move {
            match port {
                SECURE => serve(acceptor().accept(far).await.unwrap(), pod, port, arrived).await,
                _ => serve(far, pod, port, arrived).await,
            }
            let _ = ended.send(());
        });
        Ok(Box::pin(near))
    }
}

fn acceptor() -> TlsAcceptor {
    let certified = rcgen::generate_simple_self_signed(vec!["pod".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    pod: String,
    port: u16,
    arrived: Arc<Notify>,
) {
    let service = hyper::service::service_fn(move |request| answer(request, pod.clone(), port, arrived.clone()));
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let _ = connection.with_upgrades().await;
}

/// The server of a pod: shows the request, except for some paths.
async fn answer(
    mut request: Request<Incoming>,
    pod: String,
    port: u16,
    arrived: Arc<Notify>,
) -> Result<Response<Either<Full<Bytes>, Pieces>>, Infallible> {
    let full = |text: String| Either::Left(Full::new(Bytes::from(text)));
    let mut response = Response::new(full(String::new()));
    let page = r#"<html><a href="/next">next</a> <a href="http://other/next">other</a></html>"#;
    let headers = response.headers_mut();
    match request.uri().path() {
        "/page" => {
            headers.insert(header::CONTENT_TYPE, "text/html; charset=utf-8".parse().unwrap());
            *response.body_mut() = full(page.to_owned());
        }
        "/packed" => {
            headers.insert(header::CONTENT_TYPE, "text/html".parse().unwrap());
            headers.insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(page.as_bytes()).unwrap();
            *response.body_mut() = Either::Left(Full::new(encoder.finish().unwrap().into()));
        }
        "/moved" => {
            headers.insert(header::LOCATION, "/page?x=1".parse().unwrap());
            headers.insert("access-control-allow-origin", "*".parse().unwrap());
            *response.status_mut() = StatusCode::FOUND;
        }
        "/never" => {
            arrived.notify_one();
            std::future::pending().await
        }
        "/late" => {
            tokio::time::sleep(Duration::from_secs(100)).await;
            *response.body_mut() = full("at last".to_owned());
        }
        "/endless" => {
            let first = futures_util::stream::iter([Ok(Frame::data(Bytes::from("first")))]);
            let pieces = first.chain(futures_util::stream::pending()).boxed();
            *response.body_mut() = Either::Right(StreamBody::new(pieces));
        }
        "/echo" => {
            let upgrade = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let (mut read, mut write) = tokio::io::split(TokioIo::new(upgrade.await.unwrap()));
                let _ = copy(&mut read, &mut write).await;
            });
            headers.insert(header::CONNECTION, "Upgrade".parse().unwrap());
            headers.insert(header::UPGRADE, "echo".parse().unwrap());
            headers.insert(
                "x-protocols",
                format!("{:?}", request.headers().get("sec-websocket-protocol")).parse().unwrap(),
            );
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        }
        _ => {
            let shown = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            let (method, uri) = (request.method().to_string(), request.uri().to_string());
            let names = ["host", "authorization", "x-forwarded-uri", "x-remote-user", "impersonate-user", "x-own"];
            let headers: Vec<_> = names.iter().filter_map(|name| Some(format!("{name}: {}", shown(name)?))).collect();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let body = String::from_utf8_lossy(&body);
            let text =
                json!({"pod": pod, "port": port, "method": method, "uri": uri, "headers": headers, "body": body});
            response.headers_mut().insert("x-method", method.parse().unwrap());
            *response.body_mut() = full(text.to_string());
        }
    }
    Ok(response)
}

/// Returns a server with the running pods `p` and `q`.
async fn with_pods(limits: Limits) -> (Client, Observed) {
    let (sender, ended) = unbounded_channel();
    let arrived = Arc::new(Notify::new());
    let pods = Pods { ended: sender, arrived: arrived.clone() };
    let server = Server::builder(Arc::new(MemoryStore::new())).limits(limits).pod_connections(Arc::new(pods));
    let client = Client::of(server.build().await.unwrap());
    add_pods(&client).await;
    (client, Observed { ended, arrived })
}

async fn add_pods(client: &Client) {
    for (name, ip) in [("p", "10.1.0.1"), ("q", "10.1.0.2")] {
        let container = json!({"name": "c", "image": "i", "ports": [{"containerPort": 8080}]});
        let spec = json!({"nodeName": "node-1", "containers": [{"name": "first", "image": "i"}, container]});
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        client.post(&format!("{NAMESPACE}/pods"), &pod).await.expect(201);
        let status = json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}]}});
        client.merge(&format!("{NAMESPACE}/pods/{name}/status"), &status).await.expect(200);
    }
}

#[tokio::test]
async fn requests_of_every_method_reach_a_pod() {
    let (client, _observed) = with_pods(Limits::default()).await;
    let path = format!("{NAMESPACE}/pods/p/proxy/a%20b/c?x=1&y=%2F");
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"] {
        let headers = [
            ("host", "localhost:6443"),
            ("accept", "text/plain"),
            ("authorization", "Basic c2VjcmV0"),
            ("x-remote-user", "admin"),
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("x-own", "2"),
        ];
        let answer = client.ask(method.parse().unwrap(), &path, &headers, "body").await;
        assert_eq!(answer.code, 200, "{method}: {}", String::from_utf8_lossy(&answer.raw));
        assert_eq!(answer.headers["x-method"].to_str().unwrap(), method);
        if method == "HEAD" {
            assert!(answer.raw.is_empty());
            continue;
        }
        let expected = json!({
            "pod": "p", "port": 8080, "method": method, "uri": "/a%20b/c?x=1&y=%2F",
            "headers": [
                "host: localhost:6443",
                format!("x-forwarded-uri: {NAMESPACE}/pods/p/proxy/a%20b/c"),
                "x-own: 2",
            ],
            "body": if method == "GET" { "" } else { "body" },
        });
        assert_eq!(answer.json(), expected);
    }
}

#[tokio::test]
async fn a_name_may_have_a_scheme_and_a_port() {
    let (client, _observed) = with_pods(Limits::default()).await;
    for (name, port) in [("p", 8080), ("p:81", 81), ("http:p:82", 82), (&*format!("https:q:{SECURE}"), SECURE)] {
        let shown = client.get(&format!("{NAMESPACE}/pods/{name}/proxy/")).await.expect(200);
        assert_eq!((&shown["port"], &shown["uri"]), (&json!(port), &json!("/")), "{name}");
    }
    client
        .post(
            &format!("{NAMESPACE}/pods"),
            &json!({"metadata": {"name": "new"}, "spec": {"containers": [
        {"name": "c", "image": "i"}]}}),
        )
        .await
        .expect(201);
    let refused = "error trying to reach service: Internal error occurred: connection refused";
    for (name, code, reason, message) in [
        ("ftp:p:80", 400, "BadRequest", "invalid pod request \"ftp:p:80\""),
        ("none", 404, "NotFound", "pods \"none\" not found"),
        ("new", 400, "BadRequest", "address not allowed"),
        ("p:web", 503, "ServiceUnavailable", "error trying to reach service: dial tcp: lookup tcp/web: unknown port"),
        (&format!("p:{CLOSED}"), 503, "ServiceUnavailable", refused),
    ] {
        let answer = client.get(&format!("{NAMESPACE}/pods/{name}/proxy/")).await;
        assert_eq!((answer.code, answer.json()["reason"].as_str()), (code, Some(reason)), "{name}");
        assert_eq!(answer.message(), message, "{name}");
    }
}

#[tokio::test]
async fn links_to_a_pod_lead_through_the_proxy() {
    let (client, _observed) = with_pods(Limits::default()).await;
    let proxy = format!("{NAMESPACE}/pods/p:80/proxy");
    for method in [Method::GET, Method::HEAD] {
        let root = client.ask(method, &format!("{proxy}?x=1"), &[], "").await;
        let target = root.headers[header::LOCATION].to_str().unwrap();
        assert_eq!((root.code, target), (301, &*format!("{proxy}/?x=1")));
    }
    assert_eq!(client.post(&proxy, &json!({})).await.expect(200)["uri"], "/");
    let moved = client.get(&format!("{proxy}/moved")).await;
    assert_eq!((moved.code, moved.headers[header::LOCATION].to_str().unwrap()), (302, &*format!("{proxy}/page?x=1")));
    assert!(!moved.headers.contains_key("access-control-allow-origin"));
    let expected = format!(r#"<html><a href="{proxy}/next">next</a> <a href="http://other/next">other</a></html>"#);
    let page = client.get(&format!("{proxy}/page")).await;
    assert_eq!(String::from_utf8_lossy(&page.raw), expected);
    let packed = client.get(&format!("{proxy}/packed")).await;
    let unpacked = std::io::read_to_string(GzDecoder::new(&*packed.raw)).unwrap();
    assert_eq!((packed.headers[header::CONTENT_ENCODING].to_str().unwrap(), unpacked), ("gzip", expected));
}

#[tokio::test]
async fn a_service_is_one_of_its_pods() {
    let (client, _observed) = with_pods(Limits::default()).await;
    let services = format!("{NAMESPACE}/services");
    let ports = json!([{"name": "web", "port": 80}, {"name": "admin", "port": 81}]);
    client.post(&services, &json!({"metadata": {"name": "s"}, "spec": {"ports": ports}})).await.expect(201);
    let none = client.get(&format!("{services}/s:web/proxy/")).await;
    assert_eq!((none.code, none.message().as_str()), (404, "services \"s\" not found"));
    let unused = json!({"metadata": {"name": "s"}});
    client.post(&format!("{NAMESPACE}/endpoints"), &unused).await.expect(201);
    let unavailable = async |name: &str, message: &str| {
        let answer = client.get(&format!("{services}/{name}/proxy/")).await;
        assert_eq!((answer.code, answer.json()["reason"].as_str()), (503, Some("ServiceUnavailable")), "{name}");
        assert_eq!(answer.message(), message, "{name}");
    };
    unavailable("s:web", "no endpoints available for service \"s\"").await;
    let pod =
        |name: &str, ip: &str| json!({"ip": ip, "targetRef": {"kind": "Pod", "namespace": "default", "name": name}});
    // Neither an address without a pod nor one that a pod had earlier is connected to.
    let addresses = json!([pod("p", "10.1.0.1"), pod("q", "10.1.0.2"), {"ip": "10.1.0.3"}, pod("q", "10.1.0.9")]);
    let subset = json!({"addresses": addresses, "ports": [{"name": "web", "port": 8080}]});
    client.merge(&format!("{NAMESPACE}/endpoints/s"), &json!({"subsets": [subset]})).await.expect(200);
    let mut chosen = std::collections::BTreeSet::new();
    for attempt in 0..100 {
        let name = ["s:web", "s:80", "http:s:web"][attempt % 3];
        let shown = client.get(&format!("{services}/{name}/proxy/a")).await.expect(200);
        assert_eq!((&shown["port"], &shown["uri"]), (&json!(8080), &json!("/a")));
        chosen.insert(shown["pod"].as_str().unwrap().to_owned());
    }
    assert_eq!(chosen.into_iter().collect::<Vec<_>>(), ["p", "q"]);
    unavailable("s:82", "no service port 82 found for service \"s\"").await;
    unavailable("s:admin", "no endpoints available for service \"s:admin\"").await;
    unavailable("s", "no endpoints available for service \"s\"").await;
    let invalid = client.get(&format!("{services}/a:b:c:d/proxy/")).await;
    assert_eq!((invalid.code, invalid.message().as_str()), (400, "invalid service request \"a:b:c:d\""));
}

#[tokio::test]
async fn an_upgraded_connection_reaches_the_pod() {
    let (client, Observed { mut ended, .. }) = with_pods(Limits::default()).await;
    let (mut stream, serving) = tokio::io::duplex(1024);
    let server = client.server.clone();
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Arc::new(User::admin()));
        let server = server.clone();
        async move { Ok::<_, Infallible>(server.oneshot(request).await.unwrap()) }
    });
    tokio::spawn(async move {
        let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(serving), service);
        let _ = connection.with_upgrades().await;
    });
    let head = format!(
        "GET {NAMESPACE}/pods/p/proxy/echo HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\
         Sec-WebSocket-Protocol: chat, base64url.bearer.authorization.k8s.io.c2VjcmV0\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    let answer = String::from_utf8(answer).unwrap().to_lowercase();
    assert!(answer.starts_with("http/1.1 101") && answer.contains("upgrade: echo"), "{answer}");
    assert!(answer.contains("x-protocols: some(\"chat\")"), "{answer}");
    for text in ["hello", "again"] {
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut echo = [0; 5];
        stream.read_exact(&mut echo).await.unwrap();
        assert_eq!(echo, text.as_bytes());
    }
    drop(stream);
    ended.recv().await.unwrap();
    let refused = [("connection", "Upgrade"), ("upgrade", "echo")];
    let answer = client.ask(Method::GET, &format!("{NAMESPACE}/pods/p/proxy/echo"), &refused, "").await;
    assert_eq!(answer.code, 400);
}

#[tokio::test]
async fn a_client_that_disconnects_closes_the_connection_to_the_pod() {
    let (client, Observed { mut ended, arrived }) = with_pods(Limits::default()).await;
    let get = |path: &str| Request::get(format!("{NAMESPACE}/pods/p/proxy/{path}")).body(Full::default()).unwrap();
    tokio::select! {
        _ = client.send(get("never")) => unreachable!("there is no answer"),
        () = arrived.notified() => {}
    }
    ended.recv().await.unwrap();
    let mut response = client.send(get("endless")).await;
    let first = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!((&*first, ended.try_recv().is_err()), (&b"first"[..], true));
    drop(response);
    ended.recv().await.unwrap();
    // A response that has been read closes its connection as well.
    client.get(&format!("{NAMESPACE}/pods/p/proxy/")).await.expect(200);
    ended.recv().await.unwrap();
}

#[tokio::test]
async fn a_response_without_end_ends_when_the_server_stops() {
    let (client, Observed { mut ended, arrived }) = with_pods(Limits::default()).await;
    let get = |path: &str| Request::get(format!("{NAMESPACE}/pods/p/proxy/{path}")).body(Full::default()).unwrap();
    let mut response = client.send(get("endless")).await;
    response.body_mut().frame().await.unwrap().unwrap();
    let waiting = async { client.send(get("never")).await.status() };
    let stopping = async {
        arrived.notified().await;
        client.server.stop();
    };
    assert_eq!(tokio::join!(waiting, stopping).0, 503);
    assert!(response.body_mut().frame().await.is_none());
    drop(response);
    ended.recv().await.unwrap();
    ended.recv().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pod_may_take_longer_than_the_time_limit_of_requests() {
    let (client, _observed) = with_pods(Limits { request_timeout: Duration::from_secs(5), ..Limits::default() }).await;
    let answer = client.get(&format!("{NAMESPACE}/pods/p/proxy/late?timeout=1s")).await;
    assert_eq!((answer.code, &*answer.raw), (200, &b"at last"[..]));
}

#[tokio::test]
async fn a_simulated_pod_is_unavailable() {
    let client = Client::new().await;
    add_pods(&client).await;
    let answer = client.get(&format!("{NAMESPACE}/pods/p/proxy/")).await;
    assert_eq!((answer.code, answer.json()["reason"].as_str()), (503, Some("ServiceUnavailable")));
    let expected = "error trying to reach service: cannot connect to pod p: node node-1 is simulated, ";
    assert!(answer.message().starts_with(expected), "{}", answer.message());
    assert!(answer.message().contains("windlass up --runtime process"), "{}", answer.message());
}

#[tokio::test]
async fn a_service_without_endpoints_and_a_node_without_addresses_cannot_be_reached() {
    let client = Client::new().await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    client.post(&format!("{NAMESPACE}/services"), &service).await.expect(201);
    let missing = client.get(&format!("{NAMESPACE}/services/s/proxy/")).await.expect(404);
    assert_eq!(missing["message"], "services \"s\" not found");
    let mut node = json!({"metadata": {"name": "n"}, "status": {"addresses": [{"type": "Other", "address": "x"}]}});
    client.post("/api/v1/nodes", &node).await.expect(201);
    let unknown = client.get("/api/v1/nodes/n/proxy/").await.expect(500);
    assert_eq!(unknown["message"], "no preferred addresses found; known addresses: [{Other x}]");
    node["status"]["addresses"][0]["type"] = "Hostname".into();
    client.merge("/api/v1/nodes/n/status", &node).await.expect(200);
    assert_eq!(client.get("/api/v1/nodes/n/proxy/").await.code, 503);
}
