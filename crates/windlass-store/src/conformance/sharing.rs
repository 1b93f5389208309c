//! Checks of a store that several processes share: two handles on the same data, and writers elsewhere.

use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::{EVENT_TIMEOUT, Observed, below, events_through, listed, observed};
use crate::{Error, ListOptions, Revision, Store};

/// Number of writes that a watch is behind.
const BACKLOG: u64 = 5_000;

/// Runs all checks of a shared store on two handles, below a root such as `/shared`. No other client may write.
pub async fn check_shared(one: &Arc<dyn Store>, other: &Arc<dyn Store>, root: &str) {
    writes_through_one_handle_are_seen_through_the_other(one, other, &format!("{root}/handles/")).await;
    failed_writes_move_no_revision(one, &format!("{root}/failed/")).await;
    revisions_never_fall(one, other, &format!("{root}/revisions/")).await;
    a_watch_reaches_the_newest_revision(one, other, root).await;
    a_watch_that_is_not_read_is_told_everything_later(one, &format!("{root}/backlog/")).await;
    a_compaction_through_one_handle_hides_nothing_from_the_other(one, other, &format!("{root}/compacted/")).await;
    compactions_at_the_same_time_do_no_harm(one, other, &format!("{root}/compactors/")).await;
}

/// A write that was acknowledged through one handle is in everything that is read through the other.
pub async fn writes_through_one_handle_are_seen_through_the_other(
    one: &Arc<dyn Store>,
    other: &Arc<dyn Store>,
    root: &str,
) {
    for number in 0..50_u8 {
        let (writer, reader) = if number % 2 == 0 { (one, other) } else { (other, one) };
        let (key, value) = (format!("{root}{number}"), Bytes::from(vec![number]));
        let written = writer.create(&key, value.clone()).await.expect("create must succeed");
        assert!(reader.revision().await.expect("revision must succeed") >= written);
        let entry = reader.get(&key).await.expect("get must succeed").expect("the key must exist");
        assert_eq!((entry.revision, &entry.value), (written, &value));
        let page = reader.list(below(root)).await.expect("list must succeed");
        assert!(page.revision >= written && page.entries.len() == usize::from(number) + 1);
        let stale = reader.update(&key, Revision(written.0 - 1), Bytes::new()).await;
        assert!(matches!(stale, Err(Error::Conflict { actual, .. }) if actual == written), "{stale:?}");
    }
}

/// A write that is rejected because of the state of its key does not count as a write.
pub async fn failed_writes_move_no_revision(store: &Arc<dyn Store>, root: &str) {
    let key = format!("{root}key");
    let written = store.create(&key, Bytes::new()).await.expect("create must succeed");
    let stale = Revision(written.0 - 1);
    assert!(store.create(&key, Bytes::new()).await.is_err());
    assert!(store.update(&key, stale, Bytes::new()).await.is_err());
    assert!(store.delete(&key, stale).await.is_err());
    assert!(store.update(&format!("{root}none"), written, Bytes::new()).await.is_err());
    assert_eq!(store.revision().await.expect("revision must succeed"), written);
    assert!(store.known_revision().is_none_or(|known| known == written));
}

/// A later response of either handle is never older.
pub async fn revisions_never_fall(one: &Arc<dyn Store>, other: &Arc<dyn Store>, root: &str) {
    let writer = {
        let (store, root) = (one.clone(), root.to_owned());
        tokio::spawn(async move {
            for number in 0..100 {
                store.create(&format!("{root}{number}"), Bytes::new()).await.expect("create must succeed");
            }
        })
    };
    let mut newest = Revision(0);
    while !writer.is_finished() {
        for store in [one, other] {
            let revision = store.revision().await.expect("revision must succeed");
            let page = store.list(ListOptions { limit: Some(1), ..below(root) }).await.expect("list must succeed");
            assert!(newest <= revision && revision <= page.revision, "{newest} {revision} {}", page.revision);
            newest = page.revision;
        }
    }
    writer.await.expect("the writer must finish");
}

/// A watch reaches the newest revision that the store has returned, even if another process wrote it.
pub async fn a_watch_reaches_the_newest_revision(one: &Arc<dyn Store>, other: &Arc<dyn Store>, root: &str) {
    let start = one.revision().await.expect("revision must succeed");
    let mut watch = one.watch(&format!("{root}/inside/"), start).await.expect("watch must start");
    for number in 0..10 {
        other.create(&format!("{root}/outside/{number}"), Bytes::new()).await.expect("create must succeed");
        let newest = one.revision().await.expect("revision must succeed");
        let events = events_through(&mut *watch, newest).await.expect("the watch must continue");
        assert_eq!(events, []);
    }
}

/// A watch whose events are not read for a long time delivers all of them, and no batch is ahead of events that are
/// still to come.
pub async fn a_watch_that_is_not_read_is_told_everything_later(store: &Arc<dyn Store>, root: &str) {
    let start = store.revision().await.expect("revision must succeed");
    let mut watch = store.watch(root, start).await.expect("watch must start");
    let mut writers = JoinSet::new();
    for writer in 0..50_u64 {
        let (store, root) = (store.clone(), root.to_owned());
        writers.spawn(async move {
            let mut written: Vec<Observed> = Vec::new();
            for number in 0..BACKLOG / 50 {
                let (key, value) = (format!("{root}{writer}-{number}"), Bytes::from(vec![7; 1_000]));
                let revision = store.create(&key, value.clone()).await.expect("create must succeed");
                written.push((key, revision, Some(value)));
            }
            written
        });
    }
    let mut expected = writers.join_all().await.concat();
    expected.sort_by_key(|event| event.1);
    let last = store.revision().await.expect("revision must succeed");
    let events = events_through(&mut *watch, last).await.expect("the watch must continue");
    assert!(events == expected, "{} of {} events are as they were written", events.len(), expected.len());
}

/// A watch through one handle either delivers all events or reports that some were compacted through the other.
pub async fn a_compaction_through_one_handle_hides_nothing_from_the_other(
    one: &Arc<dyn Store>,
    other: &Arc<dyn Store>,
    root: &str,
) {
    let start = one.revision().await.expect("revision must succeed");
    let mut watch = one.watch(root, start).await.expect("watch must start");
    let mut expected: Vec<Observed> = Vec::new();
    for number in 0..20 {
        let key = format!("{root}{number}");
        let revision = one.create(&key, Bytes::new()).await.expect("create must succeed");
        expected.push((key, revision, Some(Bytes::new())));
    }
    let last = expected[19].1;
    other.compact(last).await.expect("compact must succeed");
    match events_through(&mut *watch, last).await {
        Ok(events) => assert_eq!(events, expected),
        Err(Error::Compacted { oldest, .. }) => assert!(oldest >= last),
        Err(error) => panic!("the watch must fail with `Compacted`: {error}"),
    }
    let old = one.watch(root, expected[3].1).await.err();
    assert!(matches!(old, Some(Error::Compacted { oldest, .. }) if oldest >= last), "{old:?}");
}

/// Handles that compact at the same time, even the same revisions, neither fail nor lose what is newer.
pub async fn compactions_at_the_same_time_do_no_harm(one: &Arc<dyn Store>, other: &Arc<dyn Store>, root: &str) {
    let mut newest = Revision(0);
    for number in 0..20 {
        newest = one.create(&format!("{root}{number}"), Bytes::new()).await.expect("create must succeed");
    }
    let expected = listed(one, below(root)).await;
    let mut compactors = JoinSet::new();
    for store in [one, other] {
        for back in [15, 10, 5] {
            let store = store.clone();
            compactors.spawn(async move { store.compact(Revision(newest.0 - back)).await });
        }
    }
    for result in compactors.join_all().await {
        result.expect("compact must succeed");
    }
    for store in [one, other] {
        assert_eq!(listed(store, below(root)).await, expected);
    }
}

/// Values of a megabyte are stored; values that are too large for etcd are rejected.
pub async fn large_values_are_stored_or_rejected(store: &Arc<dyn Store>, root: &str) {
    let (fits, large) = (Bytes::from(vec![1; 1 << 20]), Bytes::from(vec![2; 2 << 20]));
    let key = format!("{root}key");
    let written = store.create(&key, fits.clone()).await.expect("create must succeed");
    // The second is too large for etcd, but not for its client.
    for size in [large.len(), 1_800_000] {
        let value = large.slice(..size);
        let update = store.update(&key, written, value.clone()).await;
        assert!(matches!(update, Err(Error::TooLarge { .. })), "{update:?}");
        let create = store.create(&format!("{root}other"), value).await;
        assert!(matches!(create, Err(Error::TooLarge { .. })), "{create:?}");
    }
    let entries = listed(store, below(root)).await;
    assert!(entries == [(key, written, Some(fits))], "{} entries", entries.len());
}

/// A backlog of large events is delivered.
pub async fn a_backlog_of_large_events_is_delivered(store: &Arc<dyn Store>, root: &str) {
    let start = store.revision().await.expect("revision must succeed");
    let mut expected: Vec<(String, Revision)> = Vec::new();
    for number in 0..100_u8 {
        let key = format!("{root}{}", number % 10);
        let value = Bytes::from(vec![number; 1_400_000]);
        let revision = match expected.iter().rev().find(|event| event.0 == key) {
            None => store.create(&key, value).await,
            Some((_, last)) => store.update(&key, *last, value).await,
        };
        expected.push((key, revision.expect("the write must succeed")));
    }
    let mut watch = store.watch(root, start).await.expect("watch must start");
    let (mut events, deadline) = (Vec::new(), tokio::time::Instant::now() + EVENT_TIMEOUT);
    while events.len() < expected.len() {
        let batch = tokio::time::timeout_at(deadline, watch.next()).await.expect("a watch must deliver every event");
        for event in batch.expect("the watch must continue").events {
            let (key, revision, value) = observed(&event);
            let value = value.expect("no key was deleted");
            let number = u8::try_from(events.len()).expect("there must be no more events than writes");
            assert!(value.len() == 1_400_000 && value.iter().all(|byte| *byte == number), "the value of {key}");
            events.push((key, revision));
        }
    }
    assert_eq!(events, expected);
}
