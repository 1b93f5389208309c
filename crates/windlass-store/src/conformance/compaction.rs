//! Checks which history compaction discards and which it must keep.

use std::sync::Arc;

use bytes::Bytes;

use super::{Observed, below, events_through, listed};
use crate::{Error, ListOptions, Revision, Store};

/// After a compaction the newest state, the state at the compacted revision and all events since are unchanged; older
/// revisions are rejected.
pub async fn compaction_discards_history_and_nothing_else(store: &Arc<dyn Store>, root: &str) {
    let mut events: Vec<Observed> = Vec::new();
    let keep = format!("{root}keep");
    let kept = store.create(&keep, Bytes::from_static(b"kept")).await.expect("create must succeed");
    for round in 0..10_u8 {
        for name in 0..5 {
            let (key, value) = (format!("{root}{name}"), Bytes::from(vec![round; 10]));
            let current = store.get(&key).await.expect("get must succeed").map(|entry| entry.revision);
            let (revision, value) = match current {
                None => (store.create(&key, value.clone()).await, Some(value)),
                Some(current) if (round + name) % 4 == 0 => (store.delete(&key, current).await, None),
                Some(current) => (store.update(&key, current, value.clone()).await, Some(value)),
            };
            events.push((key, revision.expect("this key must have no other writer"), value));
        }
    }
    let (past, middle, last) = (events[3].1, events[27].1, events[49].1);
    let at = |at: Revision| ListOptions { at: Some(at), ..below(root) };
    let (middle_state, newest_state) = (listed(store, at(middle)).await, listed(store, below(root)).await);
    let mut behind = store.watch(root, middle).await.expect("watch must start");

    // Repeating the compaction, and compacting an earlier revision, have no effect.
    for revision in [middle, middle, past] {
        store.compact(revision).await.expect("compact must succeed");
        assert_eq!(listed(store, below(root)).await, newest_state);
        assert_eq!(listed(store, at(middle)).await, middle_state);
        assert_eq!(listed(store, at(last)).await, newest_state);
        let entry = store.get(&keep).await.expect("get must succeed").expect("an old key must still exist");
        assert_eq!((entry.revision, &entry.value[..]), (kept, &b"kept"[..]));
        for old in [past, Revision(middle.0 - 1)] {
            rejected(store.list(at(old)).await.err(), old, middle);
            rejected(store.watch(root, old).await.err(), old, middle);
        }
        let mut watch = store.watch(root, middle).await.expect("watch must start at the compacted revision");
        assert_eq!(events_through(&mut *watch, last).await.expect("the watch must continue"), events[28..]);
    }
    assert_eq!(events_through(&mut *behind, last).await.expect("the watch must continue"), events[28..]);

    store.compact(last).await.expect("compact must succeed");
    assert_eq!(listed(store, below(root)).await, newest_state);
    assert!(store.revision().await.expect("revision must succeed") >= last);
    let next = store.create(&format!("{root}next"), Bytes::new()).await.expect("create must succeed");
    assert!(next > last);
}

fn rejected(error: Option<Error>, old: Revision, compacted: Revision) {
    let Some(Error::Compacted { requested, oldest }) = error else {
        panic!("a compacted revision must be rejected: {error:?}")
    };
    assert_eq!(requested, old);
    assert!(oldest >= compacted);
}

/// A watch that has not yet read the compacted events either delivers all of them or fails; it never skips any.
pub async fn a_watch_overtaken_by_compaction_skips_nothing(store: &Arc<dyn Store>, root: &str) {
    let start = store.revision().await.expect("revision must succeed");
    let mut watch = store.watch(root, start).await.expect("watch must start");
    let mut expected = Vec::new();
    for number in 0..10 {
        let key = format!("{root}{number}");
        let revision = store.create(&key, Bytes::new()).await.expect("create must succeed");
        expected.push((key, revision, Some(Bytes::new())));
    }
    let last = expected[9].1;
    store.compact(last).await.expect("compact must succeed");
    match events_through(&mut *watch, last).await {
        Ok(events) => assert_eq!(events, expected),
        Err(Error::Compacted { requested, oldest }) => assert!(requested < oldest && oldest >= last),
        Err(Error::WatchInterrupted) => {}
        Err(error) => panic!("the watch must fail with `Compacted` or `WatchInterrupted`: {error}"),
    }
}

/// A watch that starts at the compacted revision delivers the next event, a deletion.
pub async fn a_watch_starts_right_at_the_compacted_revision(store: &Arc<dyn Store>, root: &str) {
    let key = format!("{root}key");
    let created = store.create(&key, Bytes::new()).await.expect("create must succeed");
    let deleted = store.delete(&key, created).await.expect("delete must succeed");
    store.compact(created).await.expect("compact must succeed");
    let mut watch = store.watch(root, created).await.expect("watch must start at the compacted revision");
    let events = events_through(&mut *watch, deleted).await.expect("the watch must continue");
    assert_eq!(events, [(key, deleted, None)]);
}
