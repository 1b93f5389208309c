//! Checks snapshots.

use std::sync::Arc;

use bytes::Bytes;

use super::{Observed, below, listed};
use crate::Store;

/// A snapshot has every key of its revision once, in the order of the revisions, regardless of what is written and
/// compacted while it is read.
pub async fn a_snapshot_is_the_state_at_one_revision(store: &Arc<dyn Store>, root: &str) {
    for number in 0..20 {
        let key = format!("{root}{}", 20 - number);
        store.create(&key, Bytes::from(vec![number; 100])).await.expect("create must succeed");
    }
    let mut expected = listed(store, below(root)).await;
    expected.sort_unstable_by_key(|entry| entry.1);
    let mut snapshot = store.snapshot().await.expect("a snapshot must start");
    let revision = snapshot.revision();
    assert!(revision >= expected[19].1);
    let mut found: Vec<Observed> = Vec::new();
    let mut left = snapshot.remaining();
    assert!(left >= expected.len());
    while left > 0 {
        let entries = snapshot.read(150).expect("the snapshot must be read");
        assert!(!entries.is_empty(), "{left} entries are missing");
        left -= entries.len();
        assert_eq!(snapshot.remaining(), left);
        let own = entries.into_iter().filter(|entry| entry.key.starts_with(root));
        found.extend(own.map(|entry| (entry.key.to_string(), entry.revision, Some(entry.value))));
        // Neither new and deleted keys nor a compaction change the snapshot.
        let added = store.create(&format!("{root}new-{left}"), Bytes::new()).await.expect("create must succeed");
        if let Some((key, revision, _)) = listed(store, below(root)).await.into_iter().find(|entry| entry.1 <= revision)
        {
            store.delete(&key, revision).await.expect("delete must succeed");
        }
        store.compact(added).await.expect("compact must succeed");
    }
    assert_eq!(found, expected);
    assert!(snapshot.read(1).expect("the end must be read").is_empty());
}
