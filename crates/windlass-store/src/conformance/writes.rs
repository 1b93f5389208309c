//! Checks of writes: compare-and-swap, including under contention.

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;
use tokio::task::JoinSet;

use super::events_through;
use crate::{Error, Revision, Store};

/// Create, update and delete succeed only in the state that the writer expects, and are visible immediately after.
pub async fn writes_are_compare_and_swap(store: &Arc<dyn Store>, root: &str) {
    let key = &format!("{root}key");
    let value = |text: &'static str| Bytes::from_static(text.as_bytes());
    let before = store.revision().await.expect("revision must succeed");
    assert!(store.get(key).await.expect("get must succeed").is_none());

    let missing = store.update(key, before, value("x")).await;
    assert!(matches!(&missing, Err(Error::NotFound { key: named }) if named == key), "{missing:?}");
    let missing = store.delete(key, before).await;
    assert!(matches!(&missing, Err(Error::NotFound { key: named }) if named == key), "{missing:?}");

    let first = store.create(key, value("one")).await.expect("create must succeed");
    assert!(first > before);
    let exists = store.create(key, value("two")).await;
    assert!(matches!(&exists, Err(Error::Exists { key: named }) if named == key), "{exists:?}");

    let entry = store.get(key).await.expect("get must succeed").expect("the key must exist");
    assert_eq!((&*entry.key, entry.value, entry.revision), (key.as_str(), value("one"), first));

    let second = store.update(key, first, value("")).await.expect("update must succeed");
    assert!(second > first);
    for stale in [first, Revision(second.0 + 1)] {
        let update = store.update(key, stale, value("x")).await;
        assert_conflict(&update, stale, second);
        let delete = store.delete(key, stale).await;
        assert_conflict(&delete, stale, second);
    }
    let entry = store.get(key).await.expect("get must succeed").expect("the key must exist");
    assert_eq!((entry.value, entry.revision), (value(""), second), "an empty value is a value");

    let third = store.delete(key, second).await.expect("delete must succeed");
    assert!(third > second);
    assert!(store.get(key).await.expect("get must succeed").is_none());
    assert!(matches!(store.delete(key, second).await, Err(Error::NotFound { .. })));

    let fourth = store.create(key, value("again")).await.expect("a deleted key must be available again");
    assert!(fourth > third);
    assert!(store.revision().await.expect("revision must succeed") >= fourth);
}

/// A key is updated and deleted at once, or not at all; watches get both events.
pub async fn an_update_and_a_deletion_are_one_write(store: &Arc<dyn Store>, root: &str) {
    let key = &format!("{root}key");
    let value = |text: &'static str| Bytes::from_static(text.as_bytes());
    let before = store.revision().await.expect("revision must succeed");
    let missing = store.update_and_delete(key, before, value("x")).await;
    assert!(matches!(&missing, Err(Error::NotFound { key: named }) if named == key), "{missing:?}");
    let first = store.create(key, value("one")).await.expect("create must succeed");
    let second = store.update(key, first, value("two")).await.expect("update must succeed");
    assert_conflict(&store.update_and_delete(key, first, value("x")).await, first, second);
    let mut watch = store.watch(root, second).await.expect("watch must succeed");
    let deleted = store.update_and_delete(key, second, value("last")).await.expect("update and delete must succeed");
    assert!(deleted > second);
    assert!(store.get(key).await.expect("get must succeed").is_none());
    let events = events_through(&mut *watch, deleted).await.expect("the watch must go on");
    let [(_, updated, Some(last)), (_, gone, None)] = events.as_slice() else { panic!("unexpected {events:?}") };
    assert!(second < *updated && updated < gone);
    assert_eq!((&**last, *gone), (&b"last"[..], deleted));
    let third = store.create(key, value("again")).await.expect("a deleted key must be available again");
    assert!(third > deleted);
}

fn assert_conflict(result: &Result<Revision, Error>, stale: Revision, newest: Revision) {
    let Err(Error::Conflict { expected, actual, .. }) = result else { panic!("expected a conflict: {result:?}") };
    assert_eq!((*expected, *actual), (stale, newest));
}

/// Many tasks increment one counter with compare-and-swap: no increment is lost, and each has its own revision.
pub async fn racing_increments_lose_nothing(store: &Arc<dyn Store>, root: &str) {
    const TASKS: u64 = 8;
    const STEPS: u64 = 25;
    let key = format!("{root}counter");
    store.create(&key, Bytes::from_static(b"0")).await.expect("create must succeed");
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (store, key) = (store.clone(), key.clone());
        tasks.spawn(async move {
            let mut revisions = Vec::new();
            for _ in 0..STEPS {
                revisions.push(increment(&store, &key).await);
            }
            revisions
        });
    }
    let revisions = tasks.join_all().await.concat();
    let distinct: HashSet<Revision> = revisions.iter().copied().collect();
    assert_eq!(distinct.len(), revisions.len(), "every write must have a revision of its own");
    let entry = store.get(&key).await.expect("get must succeed").expect("the counter must exist");
    assert_eq!(count(&entry.value), TASKS * STEPS);
    assert_eq!(Some(entry.revision), revisions.into_iter().max());
}

async fn increment(store: &Arc<dyn Store>, key: &str) -> Revision {
    loop {
        let entry = store.get(key).await.expect("get must succeed").expect("the counter must exist");
        let next = (count(&entry.value) + 1).to_string();
        match store.update(key, entry.revision, next.into()).await {
            Ok(revision) => return revision,
            Err(Error::Conflict { expected, actual, .. }) => assert!(expected < actual),
            Err(error) => panic!("an update must win or conflict: {error}"),
        }
    }
}

fn count(value: &Bytes) -> u64 {
    std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).expect("the counter must hold a number")
}

/// Of many tasks that create the same key exactly one succeeds.
pub async fn racing_creates_have_one_winner(store: &Arc<dyn Store>, root: &str) {
    for round in 0..10 {
        let mut tasks = JoinSet::new();
        for task in 0..8_u8 {
            let (store, key) = (store.clone(), format!("{root}{round}"));
            tasks.spawn(async move { (task, store.create(&key, Bytes::copy_from_slice(&[task])).await) });
        }
        let mut winner = None;
        for (task, result) in tasks.join_all().await {
            match result {
                Ok(revision) => assert_eq!(winner.replace((task, revision)), None, "only one create must succeed"),
                Err(error) => assert!(matches!(error, Error::Exists { .. }), "{error}"),
            }
        }
        let entry = store.get(&format!("{root}{round}")).await.expect("get must succeed").expect("one must have won");
        assert_eq!(winner, Some((entry.value[0], entry.revision)));
    }
}
