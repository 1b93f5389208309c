//! Tests with a real etcd, which `cargo xtask etcd` starts: `ETCD_SERVERS` has the URLs of its members.
//!
//! They run one after the other: some compact the whole history, and others must be the only writers.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use base64::Engine as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use windlass_etcd::{EtcdError, EtcdOptions, EtcdStore};
use windlass_store::{Error, ListOptions, Revision, Store, conformance};

fn servers() -> Vec<String> {
    let servers = std::env::var("ETCD_SERVERS").expect("run these tests with `cargo xtask etcd`");
    servers.split(',').map(str::to_owned).collect()
}

/// A prefix that no other test uses, nor an earlier run.
fn prefix(name: &str) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("/{name}-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

async fn open(prefix: &str) -> Arc<dyn Store> {
    let options = EtcdOptions { prefix: prefix.to_owned(), ..EtcdOptions::new(servers()) };
    Arc::new(EtcdStore::open(options).await.expect("etcd must be reachable"))
}

/// Opens a store at the last server first.
async fn open_elsewhere(prefix: &str) -> Arc<dyn Store> {
    let servers = servers().into_iter().rev();
    let options = EtcdOptions { prefix: prefix.to_owned(), ..EtcdOptions::new(servers) };
    Arc::new(EtcdStore::open(options).await.expect("etcd must be reachable"))
}

/// Calls etcd's JSON API, as another program.
async fn call(path: &str, body: &Value) -> Value {
    let server = servers().remove(0);
    let authority = server.strip_prefix("http://").expect("the server must be reached without TLS").to_owned();
    let stream = tokio::net::TcpStream::connect(&authority).await.expect("etcd must listen");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("etcd must speak HTTP");
    let driver = tokio::spawn(connection);
    let request = Request::post(path).header("host", authority).body(Full::new(Bytes::from(body.to_string())));
    let answer = sender.send_request(request.expect("the request must be valid")).await.expect("etcd must answer");
    assert!(answer.status().is_success(), "{answer:?}");
    let body = answer.into_body().collect().await.expect("the answer must arrive").to_bytes();
    driver.abort();
    serde_json::from_slice(&body).expect("the answer must be JSON")
}

fn base64(bytes: impl AsRef<[u8]>) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Writes keys at one revision, which it returns.
async fn write_together(keys: &[Vec<u8>], value: &[u8]) -> Revision {
    let put = |key: &Vec<u8>| json!({"requestPut": {"key": base64(key), "value": base64(value)}});
    let answer = call("/v3/kv/txn", &json!({"success": keys.iter().map(put).collect::<Vec<_>>()})).await;
    assert_eq!(answer["succeeded"], true, "{answer}");
    let revision = answer["header"]["revision"].as_str().and_then(|revision| revision.parse().ok());
    Revision(revision.expect("the answer must have a revision"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs etcd: cargo xtask etcd"]
async fn the_store_conforms() {
    let prefix = prefix("conformance");
    let (one, other) = (open(&prefix).await, open_elsewhere(&prefix).await);
    conformance::check_all(&one, "/conformance").await;
    conformance::check_shared(&one, &other, "/shared").await;
    conformance::large_values_are_stored_or_rejected(&one, "/large/").await;
    conformance::a_backlog_of_large_events_is_delivered(&one, "/backlog/").await;
    one.health().expect("the store must be healthy");
    assert!(one.usage().file > 0, "{:?}", one.usage());
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask etcd"]
async fn events_of_one_revision_are_in_one_batch_although_etcd_splits_its_answers() {
    let prefix = prefix("together");
    let store = open(&prefix).await;
    let start = store.revision().await.unwrap();
    let keys: Vec<Vec<u8>> = (0..100).map(|number| format!("{prefix}/a/{number:03}").into_bytes()).collect();
    let mut written = Vec::new();
    for _ in 0..5 {
        // Together more than the two megabytes above which etcd splits a response.
        written.push(write_together(&keys, &[7; 10_000]).await);
    }
    let mut watch = store.watch("/a/", start).await.unwrap();
    let mut delivered = Vec::new();
    while delivered.len() < written.len() * keys.len() {
        let batch = watch.next().await.unwrap();
        for chunk in batch.events.chunk_by(|one, next| one.revision == next.revision) {
            assert_eq!(chunk.len(), keys.len(), "events at revision {}", chunk[0].revision);
        }
        delivered.extend(batch.events.into_iter().map(|event| event.revision));
    }
    delivered.dedup();
    assert_eq!(delivered, written);
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask etcd"]
async fn keys_outside_the_store_are_ignored() {
    let prefix = prefix("foreign");
    let store = open(&prefix).await;
    let start = store.revision().await.unwrap();
    let foreign = [&b"/a/\xff\xfe"[..], b"2/a/x", b""].map(|rest| [prefix.as_bytes(), rest].concat());
    write_together(&foreign, b"foreign").await;
    let mut watch = store.watch("/", start).await.unwrap();
    let written = store.create("/a/b", "ours".into()).await.unwrap();
    let mut events = Vec::new();
    while events.is_empty() {
        events = watch.next().await.unwrap().events;
    }
    assert_eq!((events.len(), &*events[0].key, events[0].revision), (1, "/a/b", written));
    let page = store.list(ListOptions::default()).await.unwrap();
    let keys: Vec<&str> = page.entries.iter().map(|entry| &*entry.key).collect();
    assert_eq!(keys, ["/a/b"]);
    let error = store.create("no-slash", Bytes::new()).await.unwrap_err();
    assert!(matches!(error, Error::Storage { .. }), "{error}");
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask etcd"]
async fn the_data_of_kube_apiserver_are_left_alone() {
    for (key, value) in [("/namespaces/default", &b"{}"[..]), ("/a.example/things/x", b"k8s\0...")] {
        let prefix = prefix("registry");
        write_together(&[format!("{prefix}{key}").into_bytes()], value).await;
        let error = EtcdStore::open(EtcdOptions { prefix, ..EtcdOptions::new(servers()) }).await.err();
        assert!(matches!(&error, Some(EtcdError::Kubernetes { key: named, .. }) if named.ends_with(key)), "{error:?}");
    }
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask etcd"]
async fn another_server_is_used_if_one_does_not_listen() {
    let unused = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", unused.local_addr().unwrap());
    drop(unused);
    let list = std::iter::once(address.clone()).chain(servers());
    let options = EtcdOptions { prefix: prefix("failover"), ..EtcdOptions::new(list) };
    let store = EtcdStore::open(options).await.unwrap();
    assert!(store.create("/a", Bytes::new()).await.unwrap() > Revision::INITIAL);
    let error = EtcdStore::open(EtcdOptions::new([address])).await.err();
    assert!(matches!(&error, Some(EtcdError::Unreachable { .. })), "{error:?}");
}
