//! Free space is returned to the file system.

use std::sync::Arc;

use bytes::Bytes;
use windlass_store::{EmbeddedStore, ListOptions, Store};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn free_space_in_the_middle_of_the_file_is_returned_when_it_is_opened() {
    let directory = tempfile::tempdir().expect("the temporary directory must be created");
    let path = directory.path().join("store");
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&path).expect("the store must open"));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..16 {
        let store = store.clone();
        writers.spawn(async move {
            for number in 0..60 {
                let key = format!("/{writer}/{number}");
                let revision = store.create(&key, Bytes::from(vec![7; 100_000])).await.expect("create must succeed");
                // One in twenty stays, so that there are holes everywhere.
                if number % 20 > 0 {
                    store.delete(&key, revision).await.expect("delete must succeed");
                }
            }
        });
    }
    writers.join_all().await;
    let newest = store.revision().await.expect("revision must succeed");
    store.compact(newest).await.expect("compact must succeed");
    let entries = store.list(ListOptions::default()).await.expect("list must succeed").entries;
    assert_eq!(entries.len(), 48);
    let in_use = store.usage().in_use;
    drop(store);
    let size = || std::fs::metadata(&path).expect("the file must exist").len();
    let before = size();
    assert!(before > 64 << 20, "the test must leave a file with free space: {before}");

    let store = EmbeddedStore::open(&path).expect("the store must open");
    assert_eq!(store.list(ListOptions::default()).await.expect("list must succeed").entries, entries);
    drop(store);
    assert!(size() < 4 * in_use, "{before} bytes became {} for {in_use}", size());
}
