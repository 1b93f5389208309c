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
fn a_file_of_a_later_format_is_rejected() {
    let directory = directory();
    let path = directory.path().join("store");
    drop(EmbeddedStore::open(&path).expect("the store must open"));
    let database = redb::Database::open(&path).expect("the file must open");
    let transaction = database.begin_write().expect("must write");
    let meta: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("meta");
    transaction.open_table(meta).expect("the table must exist").insert("format", 2).expect("must write");
    transaction.commit().expect("must write");
    drop(database);
    let rejected = EmbeddedStore::open(&path).err();
    assert!(matches!(&rejected, Some(Error::Storage { cause }) if cause.contains("has format 2")), "{rejected:?}");
}

#[test]
fn a_missing_directory_is_named_in_the_error() {
    let directory = directory();
    let path = directory.path().join("missing").join("store");
    let rejected = EmbeddedStore::open(&path).err();
    assert!(matches!(&rejected, Some(Error::Storage { cause }) if cause.contains("missing/store")), "{rejected:?}");
}
