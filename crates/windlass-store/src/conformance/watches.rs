//! Checks of watches: every event once and in order.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::task::JoinSet;

use super::{EVENT_TIMEOUT, Observed, events_through, observed};
use crate::{Revision, Store};

/// A watch delivers the events of its prefix and of no other key.
pub async fn a_watch_delivers_only_its_prefix(store: &Arc<dyn Store>, root: &str) {
    let start = store.revision().await.expect("revision must succeed");
    let mut watch = store.watch(&format!("{root}in/"), start).await.expect("watch must start");
    let inside = format!("{root}in/a");
    let created = store.create(&inside, Bytes::from_static(b"1")).await.expect("create must succeed");
    for outside in ["in", "in-a", "in0", "im/a", "io/a"] {
        store.create(&format!("{root}{outside}"), Bytes::new()).await.expect("create must succeed");
    }
    let deleted = store.delete(&inside, created).await.expect("delete must succeed");
    let events = events_through(&mut *watch, deleted).await.expect("the watch must continue");
    let expected = [(inside.clone(), created, Some(Bytes::from_static(b"1"))), (inside, deleted, None)];
    assert_eq!(events, expected);
}

/// A watch may start at any revision that is not compacted, and delivers the events after it.
pub async fn a_watch_starts_anywhere_in_history(store: &Arc<dyn Store>, root: &str) {
    let mut expected: Vec<Observed> = Vec::new();
    let start = store.revision().await.expect("revision must succeed");
    for number in 0..20 {
        let (key, value) = (format!("{root}{number}"), Bytes::from(vec![number; 100]));
        let revision = store.create(&key, value.clone()).await.expect("create must succeed");
        expected.push((key, revision, Some(value)));
    }
    let last = expected[19].1;
    let starts = [start].into_iter().chain(expected.iter().map(|event| event.1)).take(20);
    for (index, after) in starts.enumerate() {
        let mut watch = store.watch(root, after).await.expect("watch must start");
        let events = events_through(&mut *watch, last).await.expect("the watch must continue");
        assert_eq!(events, expected[index..], "after {after}");
    }
}

/// A new watch from the revision of any batch continues exactly there.
pub async fn a_watch_resumes_after_any_batch(store: &Arc<dyn Store>, root: &str) {
    let mut at = store.revision().await.expect("revision must succeed");
    let (mut expected, mut events): (Vec<Observed>, Vec<Observed>) = (Vec::new(), Vec::new());
    for number in 0..60 {
        let (key, value) = (format!("{root}{number}"), Bytes::from(vec![number; 10]));
        let revision = store.create(&key, value.clone()).await.expect("create must succeed");
        expected.push((key, revision, Some(value)));
        if number % 3 == 0 {
            let mut watch = store.watch(root, at).await.expect("watch must start");
            let batch =
                tokio::time::timeout(EVENT_TIMEOUT, watch.next()).await.expect("a watch must deliver every event");
            let batch = batch.expect("the watch must continue");
            events.extend(batch.events.iter().map(observed));
            at = batch.revision;
        }
    }
    let last = expected[59].1;
    if at < last {
        let mut watch = store.watch(root, at).await.expect("watch must start");
        events.extend(events_through(&mut *watch, last).await.expect("the watch must continue"));
    }
    assert_eq!(events, expected);
}

/// Dropping a pending call of `next` loses no event.
pub async fn a_wait_that_is_cancelled_loses_nothing(store: &Arc<dyn Store>, root: &str) {
    let start = store.revision().await.expect("revision must succeed");
    let mut watch = store.watch(root, start).await.expect("watch must start");
    let writer = {
        let (store, root) = (store.clone(), root.to_owned());
        tokio::spawn(async move {
            let mut written = Vec::new();
            for number in 0..50 {
                let key = format!("{root}{number}");
                let revision = store.create(&key, Bytes::new()).await.expect("create must succeed");
                written.push((key, revision, Some(Bytes::new())));
                tokio::task::yield_now().await;
            }
            written
        })
    };
    let mut events = Vec::new();
    let deadline = tokio::time::Instant::now() + EVENT_TIMEOUT;
    while events.len() < 50 {
        assert!(tokio::time::Instant::now() < deadline, "a watch must deliver every event");
        tokio::select! {
            biased;
            batch = watch.next() => {
                events.extend(batch.expect("the watch must continue").events.iter().map(observed));
            }
            () = tokio::time::sleep(Duration::from_micros(50)) => {}
        }
    }
    assert_eq!(events, writer.await.expect("the writer must finish"));
}

/// While many tasks write, watches that start at different times deliver every event once, in order, as written.
pub async fn watches_deliver_every_event_once_and_in_order(store: &Arc<dyn Store>, root: &str) {
    let start = store.revision().await.expect("revision must succeed");
    let mut writers = JoinSet::new();
    for writer in 0..6 {
        writers.spawn(write_a_lot(store.clone(), format!("{root}{writer}/")));
    }
    let done = tokio::sync::watch::Sender::new(None::<Revision>);
    let mut watchers = JoinSet::new();
    for _ in 0..6 {
        // Each watch starts at the store's current revision.
        let after = store.revision().await.expect("revision must succeed");
        for after in [start, after] {
            let mut watch = store.watch(root, after).await.expect("watch must start");
            let mut done = done.subscribe();
            watchers.spawn(async move {
                let last = *done.wait_for(Option::is_some).await.expect("the last revision must be announced");
                let last = last.expect("the last revision must be announced");
                let events = if last > after {
                    events_through(&mut *watch, last).await.expect("the watch must continue")
                } else {
                    Vec::new()
                };
                (after, events)
            });
            tokio::task::yield_now().await;
        }
    }
    // This watch reads while the writers write.
    let mut live = store.watch(root, start).await.expect("watch must start");
    let mut expected: Vec<Observed> = Vec::new();
    let mut live_events = Vec::new();
    while !writers.is_empty() {
        tokio::select! {
            written = writers.join_next() => {
                expected.extend(written.into_iter().flat_map(|written| written.expect("a writer must finish")));
            }
            batch = live.next() => live_events.extend(batch.expect("the watch must continue").events.iter().map(observed)),
        }
    }
    expected.sort_by_key(|event| event.1);
    let last = expected.last().expect("there must be events").1;
    done.send_replace(Some(last));
    if live_events.last().is_none_or(|event| event.1 < last) {
        live_events.extend(events_through(&mut *live, last).await.expect("the watch must continue"));
    }
    assert_eq!(live_events, expected);
    for (after, events) in watchers.join_all().await {
        let expected: Vec<Observed> = expected.iter().filter(|event| event.1 > after).cloned().collect();
        assert_eq!(events, expected, "after {after}");
    }
}

/// Creates, updates and deletes keys; returns the acknowledged writes.
async fn write_a_lot(store: Arc<dyn Store>, root: String) -> Vec<Observed> {
    let mut written = Vec::new();
    for number in 0..40_u32 {
        let key = format!("{root}{}", number % 7);
        let value = Bytes::from(number.to_string());
        let current = store.get(&key).await.expect("get must succeed").map(|entry| entry.revision);
        let (revision, value) = match current {
            None => (store.create(&key, value.clone()).await, Some(value)),
            Some(current) if number % 3 == 0 => (store.delete(&key, current).await, None),
            Some(current) => (store.update(&key, current, value.clone()).await, Some(value)),
        };
        written.push((key, revision.expect("this key must have no other writer"), value));
    }
    written
}
