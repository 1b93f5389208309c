//! Records the writes that a store acknowledged, and checks the store against them after each crash.

use std::{collections::BTreeMap, time::Duration};

use windlass_store::{Error, ListOptions, Revision, Store};

use crate::random::nonce;

/// A write: its key and the nonce of its value (`None`: deleted).
pub(crate) type Written = (String, Option<u64>);

#[derive(Debug)]
pub(crate) struct Ledger {
    /// Acknowledged, and not yet verified after a crash.
    acknowledged: BTreeMap<Revision, Written>,
    /// The state as of `verified`, built from the events up to it.
    state: BTreeMap<String, (Revision, u64)>,
    verified: Revision,
    total: usize,
}

impl Default for Ledger {
    fn default() -> Self {
        Self { acknowledged: BTreeMap::new(), state: BTreeMap::new(), verified: Revision::INITIAL, total: 0 }
    }
}

impl Ledger {
    /// Records a write that the store reported as durable.
    pub(crate) fn acknowledge(&mut self, revision: Revision, written: Written) {
        assert!(revision > self.verified, "revision {revision} was reused after {}", self.verified);
        assert_eq!(self.acknowledged.insert(revision, written), None, "revision {revision} was assigned twice");
        self.total += 1;
    }

    /// Total number of acknowledged writes.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// The revision up to which the store has been verified: earlier history may be compacted.
    pub(crate) fn verified(&self) -> Revision {
        self.verified
    }

    /// Checks a store that was opened after a crash: every acknowledged write is present, in full, at its revision; the
    /// revision did not go back; the state matches the events.
    pub(crate) async fn verify(&mut self, store: &dyn Store) {
        let revision = store.revision().await.expect("revision must succeed");
        assert!(revision >= self.verified, "the revision went back from {} to {revision}", self.verified);
        if let Some((last, _)) = self.acknowledged.last_key_value() {
            assert!(revision >= *last, "the revision went back from {last} to {revision}");
        }
        let mut watch = store.watch("", self.verified).await.expect("watch must start");
        while self.verified < revision {
            let next = tokio::time::timeout(Duration::from_secs(30), watch.next()).await;
            let batch = next.expect("a watch must deliver every revision").expect("the watch must continue");
            for event in batch.events {
                assert_eq!(event.revision.0, self.verified.0 + 1, "no event may be skipped");
                let found = (event.key.to_string(), event.value.as_deref().map(nonce));
                if let Some(acknowledged) = self.acknowledged.remove(&event.revision) {
                    assert_eq!(found, acknowledged, "at revision {}", event.revision);
                }
                match found {
                    (key, Some(nonce)) => drop(self.state.insert(key, (event.revision, nonce))),
                    (key, None) => drop(self.state.remove(&key)),
                }
                self.verified = event.revision;
            }
            self.verified = self.verified.max(batch.revision);
        }
        assert!(self.acknowledged.is_empty(), "acknowledged writes are lost: {:?}", self.acknowledged);
        self.verify_state(store).await;
    }

    /// Checks that the newest state matches the ledger.
    pub(crate) async fn verify_state(&self, store: &dyn Store) {
        let page = store.list(ListOptions::default()).await.expect("list must succeed");
        let entries = page.entries.iter();
        let listed: BTreeMap<String, (Revision, u64)> =
            entries.map(|entry| (entry.key.to_string(), (entry.revision, nonce(&entry.value)))).collect();
        assert_eq!(listed, self.state);
        for (key, (revision, _)) in self.state.iter().take(10) {
            let entry = store.get(key).await.expect("get must succeed").expect("a listed key must exist");
            assert_eq!(entry.revision, *revision);
        }
    }
}

/// Creates, updates or deletes a key that has no other writer.
pub(crate) async fn write_once(store: &dyn Store, key: String, chosen: u64) -> Result<(Revision, Written), Error> {
    let current = store.get(&key).await?.map(|entry| entry.revision);
    let value = crate::random::value(chosen).into();
    match current {
        None => Ok((store.create(&key, value).await?, (key, Some(chosen)))),
        Some(current) if chosen.is_multiple_of(5) => Ok((store.delete(&key, current).await?, (key, None))),
        Some(current) => Ok((store.update(&key, current, value).await?, (key, Some(chosen)))),
    }
}
