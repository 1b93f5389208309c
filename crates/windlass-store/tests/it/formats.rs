//! Files of other versions.

use std::{io::Read as _, path::Path};

use bytes::Bytes;
use windlass_store::{EmbeddedStore, Error, ListOptions, Revision, Store};

/// Written by the first version: 20 keys, a large one, a compaction to revision 5, an update and a deletion.
const FIRST: &[u8] = include_bytes!("../data/format-1.redb.gz");

fn unpack(path: &Path) {
    let mut content = Vec::new();
    flate2::read::GzDecoder::new(FIRST).read_to_end(&mut content).expect("the file must be unpacked");
    std::fs::write(path, content).expect("the file must be written");
}

/// Returns the format that a closed file records.
fn format(path: &Path) -> u64 {
    let database = redb::Database::open(path).expect("the file must open");
    let transaction = redb::ReadableDatabase::begin_read(&database).expect("must read");
    let meta: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("meta");
    let table = transaction.open_table(meta).expect("the table must exist");
    table.get("format").expect("must read").expect("the format must be recorded").value()
}

#[tokio::test]
async fn a_file_of_the_first_version_is_opened_and_migrated() {
    let directory = tempfile::tempdir().expect("the temporary directory must be created");
    let path = directory.path().join("store");
    unpack(&path);
    assert_eq!(format(&path), 1);
    // The second time it has been migrated already.
    for round in 0..2 {
        let store = EmbeddedStore::open(&path).expect("the store must open");
        assert_eq!(store.revision().await.expect("revision must succeed"), Revision(24 + round));
        let key = |number| format!("/core/configmaps/default/{number:02}");
        let entries = store.list(ListOptions::default()).await.expect("list must succeed").entries;
        assert_eq!(entries.len() as u64, 20 + round);
        assert_eq!(store.get(&key(0)).await.expect("get must succeed"), None);
        let seven = store.get(&key(7)).await.expect("get must succeed").expect("the key must exist");
        assert_eq!((seven.revision, &seven.value[..]), (Revision(9), &br#"{"kind":"ConfigMap","number":7}"#[..]));
        let updated = store.get(&key(19)).await.expect("get must succeed").expect("the key must exist");
        assert_eq!((updated.revision, &updated.value[..]), (Revision(23), &b"updated"[..]));
        // The history since the compaction is there, too.
        let past = ListOptions { at: Some(Revision(22)), ..ListOptions::default() };
        assert_eq!(store.list(past).await.expect("list must succeed").entries.len(), 21);
        let compacted = store.watch("/", Revision(4)).await.err();
        assert!(matches!(compacted, Some(Error::Compacted { oldest: Revision(5), .. })), "{compacted:?}");
        let in_use = store.usage().in_use;
        assert!((11_000..13_000).contains(&in_use), "{in_use}");
        store.create(&format!("/new/{round}"), Bytes::new()).await.expect("create must succeed");
        drop(store);
        assert_eq!(format(&path), 2);
    }
}

#[test]
fn a_file_of_a_later_version_is_rejected_and_left_unchanged() {
    let directory = tempfile::tempdir().expect("the temporary directory must be created");
    let path = directory.path().join("store");
    drop(EmbeddedStore::open(&path).expect("the store must open"));
    let database = redb::Database::open(&path).expect("the file must open");
    let transaction = database.begin_write().expect("must write");
    let meta: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("meta");
    transaction.open_table(meta).expect("the table must exist").insert("format", 3).expect("must write");
    transaction.commit().expect("must write");
    drop(database);
    let rejected = EmbeddedStore::open(&path).err();
    let Some(Error::Storage { cause }) = rejected else { panic!("{rejected:?}") };
    assert!(cause.contains("has format 3") && cause.contains("written by a later version"), "{cause}");
    assert_eq!(format(&path), 3);
}
