use std::{path::Path, sync::Arc};

use bytes::Bytes;
use windlass_store::{
    EmbeddedOptions, EmbeddedStore, Error, MemoryStore, Retention, Revision, Store,
    conformance::{check_all, failed_writes_move_no_revision, leave_a_history, the_history_is_still_there},
};

/// So little memory that nearly every watch must read the file.
const SMALL: EmbeddedOptions = EmbeddedOptions {
    cache_bytes: 64 << 10,
    recent: Retention { events: 3, bytes: 1 << 10 },
    ..EmbeddedOptions::DEFAULT
};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("the temporary directory must be created")
}

fn open(path: &Path, options: EmbeddedOptions) -> Arc<dyn Store> {
    Arc::new(EmbeddedStore::open_file(path, options).expect("the store must open"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_memory_store_conforms() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    check_all(&store, "/conformance").await;
    failed_writes_move_no_revision(&store, "/failed/").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_embedded_store_conforms() {
    let directory = directory();
    let store = open(&directory.path().join("store"), EmbeddedOptions::default());
    check_all(&store, "/conformance").await;
    failed_writes_move_no_revision(&store, "/failed/").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_embedded_store_conforms_without_fsync_and_keeps_what_is_written() {
    let directory = directory();
    let path = directory.path().join("store");
    let unsynced = || -> Arc<dyn Store> {
        let store = EmbeddedStore::open_file_without_fsync(&path, EmbeddedOptions::default());
        Arc::new(store.expect("the store must open"))
    };
    let store = unsynced();
    check_all(&store, "/conformance").await;
    let checkpoint = leave_a_history(&store, "/kept/").await;
    let second = EmbeddedStore::open_file_without_fsync(&path, EmbeddedOptions::default());
    assert!(matches!(second, Err(Error::Locked { .. })), "{second:?}");
    drop(store);
    the_history_is_still_there(&unsynced(), "/kept/", &checkpoint).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_embedded_store_conforms_with_hardly_any_memory() {
    let directory = directory();
    check_all(&open(&directory.path().join("store"), SMALL), "/conformance").await;
}

#[tokio::test]
async fn the_embedded_store_conforms_on_a_single_thread() {
    let directory = directory();
    check_all(&open(&directory.path().join("store"), EmbeddedOptions::default()), "/conformance").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_survives_reopening() {
    let directory = directory();
    let path = directory.path().join("store");
    let mut newest = Revision(0);
    for round in 0..3 {
        let root = format!("/round{round}/");
        let store = open(&path, SMALL);
        let checkpoint = leave_a_history(&store, &root).await;
        drop(store);
        let store = open(&path, EmbeddedOptions::default());
        the_history_is_still_there(&store, &root, &checkpoint).await;
        let before = store.revision().await.expect("revision must succeed");
        drop(store);
        // All that remains of the last writes is the fact that they were compacted.
        let store = open(&path, SMALL);
        assert_eq!(store.revision().await.expect("revision must succeed"), before);
        assert!(before > newest);
        newest = before;
    }
}

#[tokio::test]
async fn the_memory_store_compacts_itself_when_it_keeps_too_much() {
    let store = MemoryStore::with_retention(Retention { events: 10, bytes: 1 << 20 });
    let start = store.revision().await.expect("revision must succeed");
    let mut watch = store.watch("/", start).await.expect("watch must start");
    let mut revision = store.create("/a", Bytes::from_static(b"0")).await.expect("create must succeed");
    for number in 1..20 {
        revision = store.update("/a", revision, Bytes::from(vec![number])).await.expect("update must succeed");
    }
    let overtaken = watch.next().await.err();
    let oldest = Revision(revision.0 - 10);
    assert!(
        matches!(overtaken, Some(Error::Compacted { oldest: reported, .. }) if reported == oldest),
        "{overtaken:?}"
    );
    let mut watch = store.watch("/", oldest).await.expect("watch must start");
    assert_eq!(watch.next().await.expect("the watch must continue").events.len(), 10);
}

#[tokio::test]
async fn values_are_shared_and_not_copied() {
    let store = MemoryStore::new();
    let value = Bytes::from(vec![7; 1000]);
    store.create("/a", value.clone()).await.expect("create must succeed");
    let entry = store.get("/a").await.expect("get must succeed").expect("the key must exist");
    assert_eq!(entry.value.as_ptr(), value.as_ptr());
    let mut watch = store.watch("", Revision::INITIAL).await.expect("watch must start");
    let batch = watch.next().await.expect("the watch must continue");
    assert_eq!(batch.events[0].value.as_ref().map(|value| value.as_ptr()), Some(value.as_ptr()));
}
