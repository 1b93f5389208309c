//! The webhook that receives events.

use std::{convert::Infallible, fs, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::mpsc,
    task::{JoinHandle, JoinSet},
};
use windlass_apiserver::{
    BuildError, Server,
    audit::{AuditOptions, Batching, Mode, WebhookOptions},
};
use windlass_store::memory::MemoryStore;

use super::policy;
use crate::{
    client::{CONFIG_MAPS, Client},
    webhook_server::WebhookServer,
};

/// A request to the receiver: its line, the credentials and the body.
struct Received {
    uri: String,
    credentials: String,
    list: Value,
}

/// A receiver of events without TLS, which responds with the given codes and then with 200.
struct Receiver {
    received: mpsc::UnboundedReceiver<Received>,
    serving: JoinHandle<()>,
}

impl Receiver {
    fn start(listener: TcpListener, codes: Vec<u16>) -> Self {
        let (sender, received) = mpsc::unbounded_channel();
        let codes = Arc::new(parking_lot::Mutex::new(codes.into_iter()));
        let serving = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (sender, codes) = (sender.clone(), codes.clone());
                let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let (sender, codes) = (sender.clone(), codes.clone());
                    async move {
                        let uri = request.uri().to_string();
                        let credentials = request.headers().get("authorization");
                        let credentials = credentials.map_or("", |value| value.to_str().unwrap()).to_owned();
                        let body = request.collect().await.unwrap().to_bytes();
                        let list = serde_json::from_slice(&body).unwrap();
                        let code = codes.lock().next().unwrap_or(200);
                        let _ = sender.send(Received { uri, credentials, list });
                        let answer = Response::builder().status(code).body(Full::new(Bytes::new())).unwrap();
                        Ok::<_, Infallible>(answer)
                    }
                });
                open.spawn(async move {
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { received, serving }
    }

    async fn next(&mut self) -> Received {
        tokio::time::timeout(Duration::from_secs(30), self.received.recv()).await.expect("a request in time").unwrap()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn kubeconfig(path: &Path, cluster: &Value, user: &Value) {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "audit",
        "contexts": [{"name": "audit", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    });
    fs::write(path, config.to_string()).unwrap();
}

/// Returns options that send an event at once, and retry soon.
fn options(config: &Path) -> WebhookOptions {
    let batching = Batching { max_wait: Duration::ZERO, throttle: None, ..Batching::default() };
    WebhookOptions { initial_backoff: Duration::from_millis(50), batching, ..WebhookOptions::new(config) }
}

async fn server(webhook: WebhookOptions) -> Result<Client, BuildError> {
    let policy = policy("omitStages: [RequestReceived]\nrules: [{level: Metadata, users: [admin]}]");
    let options = AuditOptions { policy, log: None, webhook: Some(webhook) };
    Server::builder(Arc::new(MemoryStore::new())).audit(options).build().await.map(Client::of)
}

async fn get(client: &Client, id: &str) {
    client.ask(http::Method::GET, CONFIG_MAPS, &[("audit-id", id)], "").await.expect(200);
}

fn ids(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|event| event["auditID"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn events_are_sent_when_a_receiver_that_was_down_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = closed.local_addr().unwrap();
    drop(closed);
    kubeconfig(&config, &json!({"server": format!("http://{address}/audit")}), &json!({"token": "secret"}));
    let client = server(options(&config)).await.unwrap();
    get(&client, "first").await;
    // The request is answered although no receiver listens. The receiver fails twice more after it has come back.
    let mut receiver = Receiver::start(TcpListener::bind(address).await.unwrap(), vec![500, 429]);
    for _ in 0..3 {
        let Received { uri, credentials, list } = receiver.next().await;
        assert_eq!((uri.as_str(), credentials.as_str()), ("/audit?timeout=30s", "Bearer secret"));
        assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("EventList"), &json!("audit.k8s.io/v1")));
        assert_eq!(ids(&list), ["first"]);
        assert!(list["items"][0]["kind"].is_null(), "items have no kind");
    }
    client.server.flush_audit().await;
    get(&client, "second").await;
    assert_eq!(ids(&receiver.next().await.list), ["second"]);
    let metrics = String::from_utf8(client.get("/metrics").await.raw.to_vec()).unwrap();
    assert!(metrics.contains("apiserver_audit_error_total{plugin=\"webhook\"} 0\n"), "{metrics}");
}

#[tokio::test]
async fn a_batch_is_abandoned_after_five_attempts() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    kubeconfig(&config, &json!({"server": format!("http://{}", listener.local_addr().unwrap())}), &json!({}));
    let mut receiver = Receiver::start(listener, vec![500; 5]);
    let client =
        server(WebhookOptions { initial_backoff: Duration::from_millis(1), ..options(&config) }).await.unwrap();
    get(&client, "lost").await;
    for _ in 0..5 {
        assert_eq!(ids(&receiver.next().await.list), ["lost"]);
    }
    client.server.flush_audit().await;
    let metrics = String::from_utf8(client.get("/metrics").await.raw.to_vec()).unwrap();
    assert!(metrics.contains("apiserver_audit_error_total{plugin=\"webhook\"} 1\n"), "{metrics}");
}

#[tokio::test]
async fn events_are_sent_in_batches() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    kubeconfig(&config, &json!({"server": format!("http://{}", listener.local_addr().unwrap())}), &json!({}));
    let mut receiver = Receiver::start(listener, Vec::new());
    let batching = Batching { max_size: 3, max_wait: Duration::from_secs(3600), ..Batching::default() };
    let client = server(WebhookOptions { batching, ..options(&config) }).await.unwrap();
    for id in ["a", "b", "c", "d"] {
        get(&client, id).await;
    }
    assert_eq!(ids(&receiver.next().await.list), ["a", "b", "c"]);
    client.server.flush_audit().await;
    assert_eq!(ids(&receiver.next().await.list), ["d"], "a flush does not wait for a full batch");
}

#[tokio::test]
async fn in_a_blocking_mode_a_request_waits_for_the_webhook_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    let webhook = WebhookServer::start(&[], |_, _| (200, json!({}))).await;
    let cluster = json!({
        "server": format!("https://{}/events", webhook.address), "certificate-authority-data": webhook.ca_bundle,
    });
    kubeconfig(&config, &cluster, &json!({}));
    let client = server(WebhookOptions { mode: Mode::BlockingStrict, ..options(&config) }).await.unwrap();
    get(&client, "mine").await;
    let seen = webhook.take_seen();
    assert_eq!((seen.len(), seen[0].0.as_str(), ids(&seen[0].1)), (1, "/events?timeout=30s", vec!["mine"]));
}

#[tokio::test]
async fn a_kubeconfig_that_names_no_webhook_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    let message = async |cluster: Value| {
        kubeconfig(&config, &cluster, &json!({}));
        match server(options(&config)).await.err() {
            Some(BuildError::Audit(error)) => error.to_string().rsplit("config: ").next().unwrap().to_owned(),
            _ => "none".to_owned(),
        }
    };
    for (cluster, why) in [
        (json!({"server": "http://localhost"}), "none"),
        (json!({"server": "localhost"}), "server \"localhost\" is not a URL of http or https"),
        (json!({"server": "http://h", "proxy-url": "http://p"}), "proxy-url is not supported"),
    ] {
        assert_eq!(message(cluster.clone()).await, why, "{cluster}");
    }
}
