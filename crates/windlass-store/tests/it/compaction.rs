//! Records that a compaction leaves in the file.

use std::{path::Path, time::Duration};

use bytes::Bytes;
use redb::{ReadableDatabase, ReadableTableMetadata, TableDefinition};
use windlass_store::{EmbeddedStore, ListOptions, Revision, Store};

/// Updates ten keys in turn, `rounds` times.
async fn churn(store: &dyn Store, rounds: u32) -> Revision {
    let mut revisions = Vec::new();
    for index in 0..10 {
        revisions.push(store.get(&format!("/{index}")).await.expect("get must succeed").map(|entry| entry.revision));
    }
    for _ in 0..rounds {
        let writes = revisions.iter().enumerate().map(|(index, current)| async move {
            let (key, value) = (format!("/{index}"), Bytes::from_static(&[7; 500]));
            match current {
                None => store.create(&key, value).await,
                Some(current) => store.update(&key, *current, value).await,
            }
        });
        // All ten share a transaction.
        let written = futures(writes).await;
        revisions = written.into_iter().map(|written| Some(written.expect("the write must succeed"))).collect();
    }
    revisions.into_iter().flatten().max().expect("there must be writes")
}

/// Runs futures concurrently and collects their outputs.
async fn futures<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut pending: Vec<_> = all.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, done) in &mut pending {
            if done.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *done = Some(value);
            }
        }
        let ready = pending.iter().all(|(_, done)| done.is_some());
        if ready { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    pending.into_iter().filter_map(|(_, done)| done).collect()
}

/// Number of records in the tables `log` and `values` of a closed store.
fn records(path: &Path) -> (u64, u64) {
    let transaction = redb::Database::open(path).expect("the file must open").begin_read().expect("must read");
    let count = |name| {
        let table: TableDefinition<'_, u64, &[u8]> = TableDefinition::new(name);
        transaction.open_table(table).expect("the table must exist").len().expect("must count")
    };
    (count("log"), count("values"))
}

#[tokio::test]
async fn superseded_versions_are_removed_from_the_file() {
    let directory = tempfile::tempdir().expect("the temporary directory must be created");
    let path = directory.path().join("store");
    let store = EmbeddedStore::open(&path).expect("the store must open");
    let newest = churn(&store, 100).await;
    let entry = store.get("/3").await.expect("get must succeed").expect("the key must exist");
    store.delete("/3", entry.revision).await.expect("delete must succeed");
    store.compact(Revision(newest.0 - 15)).await.expect("compact must succeed");
    drop(store);
    // Ten versions at the compacted revision, and fifteen updates and the deletion after it.
    assert_eq!(records(&path), (26, 25));

    let store = EmbeddedStore::open(&path).expect("the store must open");
    let newest = store.revision().await.expect("revision must succeed");
    store.compact(newest).await.expect("compact must succeed");
    assert_eq!(store.list(ListOptions::default()).await.expect("list must succeed").entries.len(), 9);
    drop(store);
    assert_eq!(records(&path), (9, 9));
    let store = EmbeddedStore::open(&path).expect("the store must open");
    assert_eq!(store.revision().await.expect("revision must succeed"), newest);
}

#[tokio::test]
async fn an_interrupted_sweep_continues_after_reopening() {
    let directory = tempfile::tempdir().expect("the temporary directory must be created");
    let path = directory.path().join("store");
    let mut newest = Revision(0);
    let mut interrupted = false;
    for _ in 0..20 {
        let store = EmbeddedStore::open(&path).expect("the store must open");
        newest = churn(&store, 200).await;
        let _ = tokio::time::timeout(Duration::from_millis(1), store.compact(newest)).await;
        drop(store);
        // On a busy machine the sweep may have finished before the store was dropped.
        interrupted = records(&path).0 > 10;
        if interrupted {
            break;
        }
    }
    assert!(interrupted, "dropping the store must not wait for the sweep");

    let store = EmbeddedStore::open(&path).expect("the store must open");
    // Returns once the sweep has reached this revision.
    store.compact(newest).await.expect("compact must succeed");
    assert!(store.list(ListOptions { at: Some(Revision(newest.0 - 1)), ..ListOptions::default() }).await.is_err());
    drop(store);
    assert_eq!(records(&path), (10, 10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_continue_during_a_sweep() {
    let directory = tempfile::tempdir().expect("the temporary directory must be created");
    let store = EmbeddedStore::open(directory.path().join("store")).expect("the store must open");
    let newest = churn(&store, 1000).await;
    let mut compaction = std::pin::pin!(store.compact(newest));
    let mut written = 0;
    loop {
        let key = format!("/during/{written}");
        tokio::select! {
            biased;
            done = &mut compaction => break done.expect("compact must succeed"),
            created = store.create(&key, Bytes::new()) => drop(created.expect("create must succeed")),
        }
        written += 1;
    }
    // 10,000 versions need 40 transactions, each of which includes the waiting writes.
    assert!(written >= 4, "only {written} writes were admitted");
}
