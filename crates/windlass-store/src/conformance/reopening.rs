//! Checks which state survives closing and reopening a store.

use std::sync::Arc;

use bytes::Bytes;

use super::{Observed, below, events_through, listed};
use crate::{Error, ListOptions, Revision, Store};

/// State that a store must still have after it was closed and reopened.
#[derive(Debug)]
pub struct Checkpoint {
    events: Vec<Observed>,
    states: Vec<(Revision, Vec<Observed>)>,
    compacted: Revision,
    revision: Revision,
}

/// Writes a history, compacts some of it, and records the rest.
pub async fn leave_a_history(store: &Arc<dyn Store>, root: &str) -> Checkpoint {
    let mut events: Vec<Observed> = Vec::new();
    for number in 0..60_u32 {
        let (key, value) = (format!("{root}{}", number % 11), Bytes::from(number.to_string()));
        let current = store.get(&key).await.expect("get must succeed").map(|entry| entry.revision);
        let (revision, value) = match current {
            None => (store.create(&key, value.clone()).await, Some(value)),
            Some(current) if number % 4 == 0 => (store.delete(&key, current).await, None),
            Some(current) => (store.update(&key, current, value.clone()).await, Some(value)),
        };
        events.push((key, revision.expect("this key must have no other writer"), value));
    }
    // The very last write is a deletion that leaves nothing in the newest state.
    let key = format!("{root}gone");
    let created = store.create(&key, Bytes::new()).await.expect("create must succeed");
    events.push((key.clone(), created, Some(Bytes::new())));
    let revision = store.delete(&key, created).await.expect("delete must succeed");
    events.push((key, revision, None));

    let compacted = events[20].1;
    store.compact(compacted).await.expect("compact must succeed");
    let mut states = Vec::new();
    for at in [compacted, events[30].1, events[45].1, revision] {
        states.push((at, listed(store, ListOptions { at: Some(at), ..below(root) }).await));
    }
    Checkpoint { events: events.split_off(21), states, compacted, revision }
}

/// Checks everything in a checkpoint: states, events, the compacted revision, and a revision that did not go back.
pub async fn the_history_is_still_there(store: &Arc<dyn Store>, root: &str, checkpoint: &Checkpoint) {
    let Checkpoint { events, states, compacted, revision } = checkpoint;
    assert!(store.revision().await.expect("revision must succeed") >= *revision);
    for (at, state) in states {
        assert_eq!(listed(store, ListOptions { at: Some(*at), ..below(root) }).await, *state, "at {at}");
    }
    let mut watch = store.watch(root, *compacted).await.expect("watch must start");
    let mut events_seen = events_through(&mut *watch, *revision).await.expect("the watch must continue");
    events_seen.retain(|event| event.1 <= *revision);
    assert_eq!(events_seen, *events);
    let old = Revision(compacted.0 - 1);
    assert!(matches!(store.watch(root, old).await.err(), Some(Error::Compacted { .. })));

    // Even when compacted up to its last write, the store does not reuse a revision.
    store.compact(*revision).await.expect("compact must succeed");
    let (_, newest) = states.last().expect("there must be states");
    assert_eq!(listed(store, below(root)).await, *newest);
}
