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
use windlass_etcd::{EtcdError, EtcdOptions, EtcdStore, EtcdTarget, ImportError};
use windlass_store::{Entry, Error, ListOptions, Revision, Store, conformance};

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
    let foreign = [&b"/a/\xff\xfe"[..], b"2/a/x"].map(|rest| [prefix.as_bytes(), rest].concat());
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

fn options(prefix: &str) -> EtcdOptions {
    EtcdOptions { prefix: prefix.to_owned(), ..EtcdOptions::new(servers()) }
}

async fn target(prefix: &str) -> Result<EtcdTarget, ImportError> {
    EtcdTarget::open(&options(prefix)).await
}

fn entries(count: u64) -> Vec<Entry> {
    let entry = |number| Entry {
        key: format!("/a/{number:04}").into(),
        value: format!("value {number}").into(),
        revision: Revision(number + 2),
    };
    (0..count).map(entry).collect()
}

/// Imports entries after a revision; returns the first revision of the store.
async fn import(prefix: &str, count: u64, newest: Revision) -> Revision {
    let import =
        target(prefix).await.expect("the prefix must be empty").begin(newest).await.expect("the import must begin");
    import.write(entries(count)).await.expect("the entries must be written");
    import.complete().await.expect("the import must be completed")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs etcd: cargo xtask etcd"]
async fn a_store_with_imported_objects_conforms_and_continues_after_their_revisions() {
    let prefix = prefix("imported");
    let seen = Revision(7_000_000_000);
    let first = import(&prefix, 2500, seen).await;
    assert!(first > seen);
    let (one, other) = (open(&prefix).await, open_elsewhere(&prefix).await);
    assert_eq!(one.revision().await.unwrap(), first);
    let page = one.list(ListOptions::default()).await.unwrap();
    let content = |entries: &[Entry]| entries.iter().map(|it| (it.key.clone(), it.value.clone())).collect::<Vec<_>>();
    assert_eq!(content(&page.entries), content(&entries(2500)));
    assert!(page.entries.iter().all(|entry| entry.revision > seen && entry.revision <= first));
    for earlier in [Revision(1), seen, Revision(first.0 - 1)] {
        let watched = one.watch("/a/", earlier).await.err();
        assert!(matches!(watched, Some(Error::Compacted { oldest, .. }) if oldest == first), "{earlier}: {watched:?}");
        let listed = one.list(ListOptions { at: Some(earlier), ..ListOptions::default() }).await;
        assert!(matches!(listed, Err(Error::Compacted { .. })), "{earlier}: {listed:?}");
    }
    assert_eq!(
        one.list(ListOptions { at: Some(first), ..ListOptions::default() }).await.unwrap().entries,
        page.entries
    );
    // A client that has an object of before the import must not overwrite it, nor create it.
    for stale in [Revision(2), seen] {
        for key in ["/a/0000", "/a/none"] {
            let written = one.update(key, stale, "lost".into()).await;
            assert!(matches!(written, Err(Error::Conflict { .. } | Error::NotFound { .. })), "{stale}: {written:?}");
        }
    }
    let mut watch = one.watch("/a/", first).await.unwrap();
    let updated = other.update("/a/0000", page.entries[0].revision, "new".into()).await.unwrap();
    let event = watch.next().await.unwrap().events.remove(0);
    assert_eq!((&*event.key, event.revision), ("/a/0000", updated));
    assert!(updated > first);
    conformance::check_all(&one, "/conformance").await;
    conformance::check_shared(&one, &other, "/shared").await;
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask etcd"]
async fn an_update_at_the_revision_before_the_first_one_of_etcd_does_not_create_the_key() {
    let prefix = prefix("offset");
    let before = open(&self::prefix("other")).await.revision().await.unwrap();
    let seen = Revision(before.0 + 1_000_000);
    import(&prefix, 1, seen).await;
    let store = open(&prefix).await;
    // This revision is 0 in etcd, by which transactions recognize a key that does not exist.
    for stale in 999_960..=1_000_010 {
        let written = store.update("/a/none", Revision(stale), "lost".into()).await;
        assert!(matches!(written, Err(Error::NotFound { .. })), "{stale}: {written:?}");
    }
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask etcd"]
async fn an_incomplete_import_cannot_be_opened_and_is_replaced_by_the_next_one() {
    let prefix = prefix("incomplete");
    let first = target(&prefix).await.unwrap().begin(Revision(500)).await.unwrap();
    first.write(entries(30)).await.unwrap();
    let refused = EtcdStore::open(options(&prefix)).await.err();
    assert!(matches!(refused, Some(EtcdError::Incomplete { .. })), "{refused:?}");
    // The second one takes over, and whatever the first one still sends has no effect.
    let second = target(&prefix).await.unwrap();
    assert!(second.is_incomplete());
    let second = second.begin(Revision(500)).await.unwrap();
    let written = first.write(entries(30)).await;
    assert!(matches!(written, Err(ImportError::Interrupted { .. })), "{written:?}");
    second.write(entries(10)).await.unwrap();
    let completed = first.complete().await;
    assert!(matches!(completed, Err(ImportError::Interrupted { .. })), "{completed:?}");
    let mut count = 0;
    second.read_back(&mut |_| count += 1).await.unwrap();
    assert_eq!(count, 10);
    second.complete().await.unwrap();
    assert_eq!(open(&prefix).await.list(ListOptions::default()).await.unwrap().entries.len(), 10);
    let again = target(&prefix).await.err();
    assert!(matches!(again, Some(ImportError::NotEmpty { .. })), "{again:?}");
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask etcd"]
async fn an_import_does_not_begin_if_an_object_was_created_after_the_check() {
    let prefix = prefix("late");
    let target = target(&prefix).await.unwrap();
    let store = open(&prefix).await;
    store.create("/a/b", "mine".into()).await.unwrap();
    let begun = target.begin(Revision(1)).await.err();
    assert!(matches!(begun, Some(ImportError::NotEmpty { .. })), "{begun:?}");
    assert_eq!(store.get("/a/b").await.unwrap().unwrap().value, "mine");
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask etcd"]
async fn a_store_that_was_opened_before_an_import_fails_for_good() {
    let prefix = prefix("running");
    let store = open(&prefix).await;
    assert!(store.revision().await.is_ok());
    import(&prefix, 1, Revision(1)).await;
    assert!(store.revision().await.is_err());
    let failed = store.failed().await;
    assert!(failed.to_string().contains("replaced by a migration"), "{failed}");
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask etcd"]
async fn a_prefix_of_an_unknown_format_is_rejected() {
    let prefix = prefix("format");
    write_together(&[prefix.clone().into_bytes()], b"windlass store format=2").await;
    let refused = EtcdStore::open(options(&prefix)).await.err();
    assert!(matches!(refused, Some(EtcdError::Format { .. })), "{refused:?}");
}
