//! Saving and restoring a store.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use tokio::task::JoinSet;
use windlass_store::{
    EmbeddedStore, Entry, Error, ListOptions, Revision, Store,
    conformance::check_all,
    embedded::{RestoreError, Restoring},
    snapshot::{Decoder, Encoder, SnapshotError},
};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("the temporary directory must be created")
}

/// Encodes the current state of a store.
async fn save(store: &dyn Store) -> Vec<u8> {
    let mut encoder = Encoder::new(store.snapshot().await.expect("a snapshot must start"));
    let mut saved = Vec::new();
    while let Some(piece) = encoder.next_piece().expect("the snapshot must be read") {
        saved.extend_from_slice(&piece);
    }
    saved
}

async fn entries(store: &dyn Store) -> Vec<Entry> {
    store.list(ListOptions::default()).await.expect("list must succeed").entries
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_taken_while_writes_go_on_is_the_state_at_its_revision() {
    let directory = directory();
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(directory.path().join("store")).expect("must open"));
    let mut writers = JoinSet::new();
    for writer in 0..4_u32 {
        let store = store.clone();
        writers.spawn(async move {
            // Both keys of a pair are written in turn, so that they differ by at most one.
            let (one, other) = (format!("/{writer}/one"), format!("/{writer}/other"));
            let mut revisions = (None, None);
            for number in 0..300_u32 {
                for (key, revision) in [(&one, &mut revisions.0), (&other, &mut revisions.1)] {
                    let value = Bytes::from(number.to_le_bytes().to_vec());
                    let written = match *revision {
                        None => store.create(key, value).await,
                        Some(current) => store.update(key, current, value).await,
                    };
                    *revision = Some(written.expect("the write must succeed"));
                }
            }
        });
    }
    let mut taken = 0;
    while !writers.is_empty() {
        let saved = save(&*store).await;
        let mut decoder = Decoder::new(&saved[..]).expect("the header must be intact");
        let mut found = BTreeMap::new();
        while let Some(entry) = decoder.next_entry().expect("the snapshot must be intact") {
            assert!(entry.revision <= decoder.revision());
            let number = u32::from_le_bytes(entry.value[..].try_into().expect("a value must have four bytes"));
            found.insert(entry.key.to_string(), number);
        }
        for (key, other) in found.iter().filter(|(key, _)| key.ends_with("other")) {
            let one = found[&key.replace("other", "one")];
            assert!(one == *other || one == other + 1, "{key}: {one} and {other}");
        }
        taken += 1;
        while let Some(done) = writers.try_join_next() {
            done.expect("a writer must not panic");
        }
    }
    assert!(taken > 1, "a snapshot must not wait for the writers");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_store_has_the_same_objects_and_a_later_revision() {
    let directory = directory();
    let store = EmbeddedStore::open(directory.path().join("store")).expect("the store must open");
    for number in 0..50 {
        let value = Bytes::from(vec![b'x'; number * 400]);
        let revision = store.create(&format!("/{number}"), value).await.expect("create must succeed");
        if number % 7 == 0 {
            store.delete(&format!("/{number}"), revision).await.expect("delete must succeed");
        }
    }
    let saved = save(&store).await;
    let revision = store.revision().await.expect("revision must succeed");
    // Clients see more writes, which are lost with the store.
    let lost = store.create("/later", Bytes::new()).await.expect("create must succeed");

    let path = directory.path().join("restored");
    let mut progress = Vec::new();
    let restored = EmbeddedStore::restore(&path, &saved[..], 1000, &mut |bytes| progress.push(bytes));
    assert_eq!(restored.expect("the snapshot must be restored"), Revision(revision.0 + 1000));
    assert_eq!(progress.last(), Some(&(saved.len() as u64)));
    let restored: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&path).expect("the store must open"));
    let expected: Vec<_> = entries(&store).await.into_iter().filter(|entry| &*entry.key != "/later").collect();
    assert_eq!(entries(&*restored).await, expected);
    assert_eq!(restored.revision().await.expect("revision must succeed"), Revision(revision.0 + 1000));
    for seen in [Revision(2), revision, lost, Revision(revision.0 + 999)] {
        let rejected = restored.watch("/", seen).await.err();
        assert!(matches!(rejected, Some(Error::Compacted { .. })), "{seen}: {rejected:?}");
    }
    let next = restored.create("/next", Bytes::new()).await.expect("create must succeed");
    assert_eq!(next, Revision(revision.0 + 1001));
    check_all(&restored, "/conformance").await;
}

#[tokio::test]
async fn a_damaged_snapshot_and_an_existing_file_leave_nothing_behind() {
    let directory = directory();
    let store = EmbeddedStore::open(directory.path().join("store")).expect("the store must open");
    store.create("/a", Bytes::from_static(b"1")).await.expect("create must succeed");
    let saved = save(&store).await;
    let path = directory.path().join("restored");
    let restore = |bytes: &[u8], bump| EmbeddedStore::restore(&path, bytes, bump, &mut |_| ());
    let cut_off = restore(&saved[..saved.len() - 1], 1);
    assert!(matches!(cut_off, Err(RestoreError::Snapshot(SnapshotError::CutOff { .. }))), "{cut_off:?}");
    let mut damaged = saved.clone();
    damaged[60] ^= 1;
    assert!(matches!(restore(&damaged, 1), Err(RestoreError::Snapshot(SnapshotError::Damaged { .. }))));
    assert!(matches!(restore(&saved, u64::MAX), Err(RestoreError::Revision { .. })));
    let left: Vec<_> = std::fs::read_dir(directory.path()).expect("must read").flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    restore(&saved, 0).expect("an intact snapshot must be restored");
    let again = restore(&saved, 0);
    assert!(matches!(again, Err(RestoreError::Exists { .. })), "{again:?}");
}

#[tokio::test]
async fn a_store_appears_when_it_is_placed_and_leaves_nothing_behind_before() {
    let directory = directory();
    let path = directory.path().join("store");
    let entry = |number: u64| Entry {
        key: format!("/{number}").into(),
        value: Bytes::from(vec![b'x'; 10_000_000]),
        revision: Revision(number),
    };
    let names = || std::fs::read_dir(directory.path()).expect("must read").count();
    let mut restoring = Restoring::create(&path).expect("must be created");
    let written: Vec<bool> = (2..5).map(|number| restoring.append(entry(number)).expect("must be written")).collect();
    assert_eq!((written, path.exists(), names()), (vec![false, true, false], false, 1));
    drop(restoring);
    assert_eq!(names(), 0);
    // The remains of a process that was killed.
    std::fs::write(directory.path().join("store.restoring"), "garbage").expect("must be written");
    let mut restoring = Restoring::create(&path).expect("must be created");
    restoring.append(entry(7)).expect("must be written");
    let finished = restoring.finish(Revision(9)).expect("must be finished");
    assert!(!path.exists() && finished.temporary().exists());
    finished.place().expect("must be placed");
    assert_eq!(names(), 1);
    let store = EmbeddedStore::open(&path).expect("the store must open");
    assert_eq!(entries(&store).await, [entry(7)]);
    assert_eq!(store.revision().await.expect("revision must succeed"), Revision(9));
}
