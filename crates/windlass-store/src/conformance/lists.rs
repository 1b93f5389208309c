//! Checks of lists: order, pages, one revision.

use std::sync::Arc;

use bytes::Bytes;

use super::{Observed, below, listed};
use crate::{Error, ListOptions, Revision, Store};

/// Pages are in key order, continue where the last one ended, count the remaining keys, and stay at their revision.
pub async fn lists_are_ordered_pages_of_one_revision(store: &Arc<dyn Store>, root: &str) {
    let mut expected = Vec::new();
    // Not written in key order; `-` sorts before `/`, and `0` after it.
    for name in ["m", "b/x", "b-x", "a", "b", "z", "b0x", "é"] {
        let key = format!("{root}{name}");
        let revision = store.create(&key, Bytes::from(name)).await.expect("create must succeed");
        expected.push((key, revision, Some(Bytes::from(name))));
    }
    expected.sort();
    // Neighbors of the prefix on both sides.
    let outside = root.trim_end_matches('/');
    store.create(&format!("{outside}.a"), Bytes::new()).await.expect("create must succeed");
    store.create(&format!("{outside}0"), Bytes::new()).await.expect("create must succeed");
    assert_eq!(listed(store, below(root)).await, expected);

    let mut pages: Vec<Observed> = Vec::new();
    let mut at = None;
    loop {
        let after = pages.last().map(|last| last.0.clone());
        let page = store.list(ListOptions { after, limit: Some(3), at, count: true, ..below(root) }).await;
        let page = page.expect("list must succeed");
        assert_eq!(*at.get_or_insert(page.revision), page.revision, "all pages must be of one revision");
        let uncounted =
            ListOptions { after: pages.last().map(|last| last.0.clone()), limit: Some(3), at, ..below(root) };
        let uncounted = store.list(uncounted).await.expect("list must succeed");
        assert_eq!((&uncounted.entries, uncounted.remaining), (&page.entries, page.remaining.min(1)));
        pages.extend(page.entries.into_iter().map(|entry| (entry.key.to_string(), entry.revision, Some(entry.value))));
        assert_eq!(page.remaining, expected.len() - pages.len());
        if page.remaining == 0 {
            break;
        }
        // Writes between two pages do not appear in them.
        let key = format!("{root}between{}", pages.len());
        store.create(&key, Bytes::new()).await.expect("create must succeed");
    }
    assert_eq!(pages, expected);

    let page = store.list(ListOptions { limit: Some(0), at, count: true, ..below(root) }).await;
    let page = page.expect("list must succeed");
    assert_eq!((page.entries.len(), page.remaining), (0, expected.len()));
    let page = store.list(ListOptions { after: Some(format!("{root}é")), at, ..below(root) }).await;
    let page = page.expect("list must succeed");
    assert_eq!((page.entries.len(), page.remaining), (0, 0));
}

/// A list at a revision is the state right after the write of that revision, regardless of later writes.
pub async fn lists_go_back_in_time(store: &Arc<dyn Store>, root: &str) {
    let (a, b) = (format!("{root}a"), format!("{root}b"));
    let value = |text: &'static str| Bytes::from_static(text.as_bytes());
    let before = store.revision().await.expect("revision must succeed");
    let one = store.create(&a, value("a1")).await.expect("create must succeed");
    let two = store.create(&b, value("b1")).await.expect("create must succeed");
    let three = store.update(&a, one, value("a2")).await.expect("update must succeed");
    let four = store.delete(&b, two).await.expect("delete must succeed");
    let five = store.create(&b, value("b2")).await.expect("create must succeed");
    let six = store.delete(&a, three).await.expect("delete must succeed");
    let a1 = (a.clone(), one, Some(value("a1")));
    let a2 = (a.clone(), three, Some(value("a2")));
    let b1 = (b.clone(), two, Some(value("b1")));
    let b2 = (b.clone(), five, Some(value("b2")));
    let states = [
        (before, vec![]),
        (one, vec![a1.clone()]),
        (two, vec![a1, b1.clone()]),
        (three, vec![a2.clone(), b1]),
        (four, vec![a2.clone()]),
        (five, vec![a2, b2.clone()]),
        (six, vec![b2]),
    ];
    for (at, expected) in states {
        let page = store.list(ListOptions { at: Some(at), ..below(root) }).await.expect("list must succeed");
        assert_eq!(page.revision, at);
        assert_eq!(listed(store, ListOptions { at: Some(at), ..below(root) }).await, expected, "at {at}");
    }
}

/// A future revision can be neither listed, watched nor compacted.
pub async fn a_future_revision_is_rejected(store: &Arc<dyn Store>, root: &str) {
    let current = store.revision().await.expect("revision must succeed");
    let future = Revision(current.0 + 1_000_000);
    let rejected = |error: Option<Error>| match error {
        Some(Error::Future { requested, current: newest }) => {
            assert_eq!(requested, future);
            assert!(newest >= current);
        }
        other => panic!("a future revision must be rejected: {other:?}"),
    };
    rejected(store.list(ListOptions { at: Some(future), ..below(root) }).await.err());
    rejected(store.watch(root, future).await.err());
    rejected(store.compact(future).await.err());
}

/// While others write and compact, a list is either the state of one revision or fails with `Compacted`.
pub async fn lists_are_consistent_while_others_write_and_compact(store: &Arc<dyn Store>, root: &str) {
    const KEYS: usize = 400;
    // In every state that a list may show, all keys exist, and their values are the number of a round or the next one.
    for number in 0..KEYS {
        store.create(&format!("{root}{number:03}"), Bytes::from_static(&[0])).await.expect("create must succeed");
    }
    let writer = {
        let (store, root) = (store.clone(), root.to_owned());
        tokio::spawn(async move {
            for round in 1..4_u8 {
                for number in 0..KEYS {
                    let key = format!("{root}{number:03}");
                    let entry = store.get(&key).await.expect("get must succeed").expect("the key must exist");
                    let written = store.update(&key, entry.revision, Bytes::from(vec![round])).await;
                    let written = written.expect("this key must have no other writer");
                    if number % 20 == 0 {
                        store.compact(written).await.expect("compact must succeed");
                    }
                }
            }
        })
    };
    let (mut whole, mut paged) = (0, 0);
    while !writer.is_finished() || paged == 0 {
        // A store that never waits would keep a single thread from the writer.
        tokio::task::yield_now().await;
        let entries = listed(store, below(root)).await;
        is_one_state(&entries, KEYS);
        whole += 1;
        let mut pages: Vec<Observed> = Vec::new();
        let mut at = None;
        let complete = loop {
            let after = pages.last().map(|last| last.0.clone());
            let page = match store.list(ListOptions { after, limit: Some(150), at, ..below(root) }).await {
                Ok(page) => page,
                Err(Error::Compacted { .. }) => break false,
                Err(error) => panic!("a list must fail with `Compacted` or succeed: {error}"),
            };
            at = Some(page.revision);
            let remaining = page.remaining;
            pages.extend(
                page.entries.into_iter().map(|entry| (entry.key.to_string(), entry.revision, Some(entry.value))),
            );
            if remaining == 0 {
                break true;
            }
        };
        if complete {
            is_one_state(&pages, KEYS);
            paged += 1;
        }
    }
    writer.await.expect("the writer must finish");
    assert!(whole > 0);
}

/// Checks that keys at the beginning were written in one round, and the others in the round before.
fn is_one_state(entries: &[Observed], keys: usize) {
    assert_eq!(entries.len(), keys);
    let rounds: Vec<u8> = entries.iter().map(|entry| entry.2.as_ref().map_or(0, |value| value[0])).collect();
    assert!(rounds.is_sorted_by(|one, next| one >= next) && rounds[0] - rounds[keys - 1] <= 1, "{rounds:?}");
}
