//! Opening a file: exclusive access, supported contents, and files that are left untouched.

use std::path::Path;

use bytes::Bytes;
use windlass_store::{EmbeddedStore, Error, Revision, Store};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("the temporary directory must be created")
}

#[tokio::test]
async fn a_second_open_of_a_file_is_rejected_until_the_first_is_dropped() {
    let directory = directory();
    let path = directory.path().join("store");
    let first = EmbeddedStore::open(&path).expect("the store must open");
    let revision = first.create("/a", Bytes::from_static(b"1")).await.expect("create must succeed");
    let second = EmbeddedStore::open(&path).err();
    assert!(
        matches!(&second, Some(Error::Locked { path: named }) if *named == path.display().to_string()),
        "{second:?}"
    );
    // A watch that is still held does not keep the file open.
    let mut watch = first.watch("/", Revision(0)).await.expect("watch must start");
    drop(first);
    let second = EmbeddedStore::open(&path).expect("the store must open again");
    assert_eq!(second.get("/a").await.expect("get must succeed").expect("the key must exist").revision, revision);
    let mut last = Ok(());
    for _ in 0..3 {
        last = watch.next().await.map(|_| ());
    }
    assert!(matches!(last, Err(Error::WatchInterrupted)), "{last:?}");
}

#[cfg(unix)]
#[test]
fn only_its_owner_can_read_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let directory = directory();
    let path = directory.path().join("store");
    drop(EmbeddedStore::open(&path).expect("the store must open"));
    let mode = std::fs::metadata(&path).expect("the file must exist").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Checks that opening fails with an error that contains `said`, and leaves the file unchanged.
fn rejected(path: &Path, content: &[u8], said: &str) {
    std::fs::write(path, content).expect("the file must be written");
    let rejected = EmbeddedStore::open(path).err();
    assert!(matches!(&rejected, Some(Error::Storage { cause }) if cause.contains(said)), "{rejected:?}");
    assert!(std::fs::read(path).expect("the file must be read") == content, "the file must not be touched");
}

#[test]
fn a_file_of_another_program_is_rejected_and_left_unchanged() {
    let directory = directory();
    rejected(&directory.path().join("text"), b"kind: ConfigMap", "redb");
    // No magic number, but some data.
    let mut content = vec![0; 1 << 20];
    content[5000] = 1;
    rejected(&directory.path().join("zeros"), &content, "redb");
}

#[test]
fn a_file_whose_creation_was_interrupted_is_recreated() {
    let directory = directory();
    for (name, content) in [("empty", vec![]), ("short", vec![0; 7]), ("zeros", vec![0; 1 << 20])] {
        let path = directory.path().join(name);
        std::fs::write(&path, content).expect("the file must be written");
        EmbeddedStore::open(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn a_missing_directory_is_named_in_the_error() {
    let directory = directory();
    let path = directory.path().join("missing").join("store");
    let rejected = EmbeddedStore::open(&path).err();
    assert!(matches!(&rejected, Some(Error::Storage { cause }) if cause.contains("missing/store")), "{rejected:?}");
}

#[tokio::test]
async fn writes_to_a_file_that_was_removed_or_replaced_are_not_acknowledged() {
    let directory = directory();
    for (name, replaced) in [("removed", false), ("replaced", true)] {
        let path = directory.path().join(name);
        let store = EmbeddedStore::open(&path).expect("the store must open");
        store.create("/a", Bytes::from_static(b"1")).await.expect("create must succeed");
        store.health().expect("the store must be healthy");
        std::fs::remove_file(&path).expect("the file must be removed");
        if replaced {
            drop(EmbeddedStore::open(&path).expect("another store must open"));
        }
        let rejected = store.create("/b", Bytes::new()).await.err();
        let said = format!("{} was {name}", path.display());
        assert!(matches!(&rejected, Some(Error::Failed { cause }) if cause.starts_with(&said)), "{rejected:?}");
        assert!(matches!(store.failed().await, Error::Failed { .. }));
        assert!(store.get("/a").await.expect("reads must continue").is_some());
    }
}

#[test]
fn a_file_that_was_removed_is_noticed_without_a_write() {
    let directory = directory();
    let path = directory.path().join("data").join("store");
    std::fs::create_dir(directory.path().join("data")).expect("the directory must be created");
    let store = EmbeddedStore::open(&path).expect("the store must open");
    std::fs::rename(directory.path().join("data"), directory.path().join("moved")).expect("it must be moved");
    assert!(matches!(store.health(), Err(Error::Failed { .. })));
    // Moving it back is too late: others may have seen the failure.
    std::fs::rename(directory.path().join("moved"), directory.path().join("data")).expect("it must be moved");
    assert!(matches!(store.health(), Err(Error::Failed { .. })));
}

#[tokio::test]
async fn sizes_are_known_after_reopening_and_shrink_with_compaction() {
    let directory = directory();
    let path = directory.path().join("store");
    let store = EmbeddedStore::open(&path).expect("the store must open");
    let empty = store.usage();
    assert_eq!((empty.in_use, empty.quota), (0, None));
    let mut revision = store.create("/a", Bytes::from(vec![0; 10_000])).await.expect("create must succeed");
    let one = store.usage().in_use;
    assert!((10_000..10_100).contains(&one), "{one}");
    for _ in 0..4 {
        revision = store.update("/a", revision, Bytes::from(vec![0; 10_000])).await.expect("update must succeed");
    }
    assert_eq!(store.usage().in_use, 5 * one);
    drop(store);
    let store = EmbeddedStore::open(&path).expect("the store must open");
    assert_eq!(store.usage().in_use, 5 * one);
    store.compact(revision).await.expect("compact must succeed");
    let usage = store.usage();
    assert_eq!(usage.in_use, one);
    assert_eq!(usage.file, std::fs::metadata(&path).expect("the file must exist").len());
    assert!(usage.available.is_some_and(|available| available > 0));
}
