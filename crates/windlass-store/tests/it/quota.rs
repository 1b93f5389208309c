//! The quota of a store.

use bytes::Bytes;
use windlass_store::{EmbeddedOptions, EmbeddedStore, Error, Revision, Store};

#[tokio::test]
async fn at_the_quota_creates_fail_deletes_succeed_and_compaction_makes_room() {
    let directory = tempfile::tempdir().expect("the temporary directory must be created");
    let path = directory.path().join("store");
    let options = EmbeddedOptions { quota_bytes: Some(1_000_000), ..EmbeddedOptions::DEFAULT };
    let store = EmbeddedStore::open_file(&path, options).expect("the store must open");
    let value = Bytes::from(vec![0; 100_000]);
    let mut revisions = Vec::new();
    let rejected = loop {
        match store.create(&format!("/{}", revisions.len()), value.clone()).await {
            Ok(revision) => revisions.push(revision),
            Err(error) => break error,
        }
    };
    assert!(matches!(rejected, Error::NoSpace), "{rejected:?}");
    assert_eq!(rejected.to_string(), "etcdserver: mvcc: database space exceeded");
    assert_eq!(revisions.len(), 9);
    store.health().expect("a used quota is no failure of the store");

    // An update such as the removal of a finalizer still fits, and so does the deletion after it.
    let updated = store.update("/0", revisions[0], Bytes::from_static(b"small")).await.expect("update must succeed");
    let deleted = store.delete("/0", updated).await.expect("delete must succeed");
    // A small object fits, a large one does not, until the history is compacted.
    store.create("/small", Bytes::from_static(b"1")).await.expect("create must succeed");
    assert!(matches!(store.create("/large", value.clone()).await, Err(Error::NoSpace)));
    store.compact(deleted).await.expect("compact must succeed");
    store.create("/large", value.clone()).await.expect("create must succeed");

    // The quota is counted in the same way after reopening.
    let newest = store.revision().await.expect("revision must succeed");
    let before = store.usage();
    drop(store);
    let store = EmbeddedStore::open_file(&path, options).expect("the store must open");
    assert_eq!(store.usage().in_use, before.in_use);
    assert!(matches!(store.create("/another", value).await, Err(Error::NoSpace)));
    assert_eq!(store.revision().await.expect("revision must succeed"), newest, "a rejected write has no revision");
    assert!(newest > Revision(0));
}
