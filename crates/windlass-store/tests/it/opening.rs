//! Opening a file: exclusive access, supported contents, and files that are left untouched.

use std::path::Path;

use bytes::Bytes;
use windlass_store::{EmbeddedStore, Error, Revision, Store};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder must be made")
}

#[tokio::test]
async fn a_second_open_of_a_file_is_refused_until_the_first_is_dropped() {
    let folder = folder();
    let path = folder.path().join("store");
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
    assert_eq!(second.get("/a").await.expect("get must succeed").expect("the key must be there").revision, revision);
    let mut last = Ok(());
    for _ in 0..3 {
        last = watch.next().await.map(|_| ());
    }
    assert!(matches!(last, Err(Error::WatchCut)), "{last:?}");
}

#[cfg(unix)]
#[test]
fn only_its_owner_can_read_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let path = folder.path().join("store");
    drop(EmbeddedStore::open(&path).expect("the store must open"));
    let mode = std::fs::metadata(&path).expect("the file must be there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Checks that opening fails with an error that contains `said`, and leaves the file unchanged.
fn refused(path: &Path, content: &[u8], said: &str) {
    std::fs::write(path, content).expect("the file must be written");
    let refused = EmbeddedStore::open(path).err();
    assert!(matches!(&refused, Some(Error::Storage { cause }) if cause.contains(said)), "{refused:?}");
    assert!(std::fs::read(path).expect("the file must be read") == content, "the file must not be touched");
}

#[test]
fn a_file_of_something_else_is_refused_and_left_alone() {
    let folder = folder();
    refused(&folder.path().join("text"), b"kind: ConfigMap", "redb");
    // No magic number, but some data.
    let mut content = vec![0; 1 << 20];
    content[5000] = 1;
    refused(&folder.path().join("zeros"), &content, "redb");
}

#[test]
fn a_file_whose_creation_was_interrupted_is_made_anew() {
    let folder = folder();
    for (name, content) in [("empty", vec![]), ("short", vec![0; 7]), ("zeros", vec![0; 1 << 20])] {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("the file must be written");
        EmbeddedStore::open(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn a_file_of_a_later_format_is_refused() {
    let folder = folder();
    let path = folder.path().join("store");
    drop(EmbeddedStore::open(&path).expect("the store must open"));
    let database = redb::Database::open(&path).expect("the file must open");
    let transaction = database.begin_write().expect("must write");
    let meta: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("meta");
    transaction.open_table(meta).expect("the table must be there").insert("format", 2).expect("must write");
    transaction.commit().expect("must write");
    drop(database);
    let refused = EmbeddedStore::open(&path).err();
    assert!(matches!(&refused, Some(Error::Storage { cause }) if cause.contains("has format 2")), "{refused:?}");
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let folder = folder();
    let path = folder.path().join("missing").join("store");
    let refused = EmbeddedStore::open(&path).err();
    assert!(matches!(&refused, Some(Error::Storage { cause }) if cause.contains("missing/store")), "{refused:?}");
}
