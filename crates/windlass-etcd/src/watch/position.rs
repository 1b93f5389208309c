//! Position of a watch, and the events that each response adds.

use std::sync::Arc;

use windlass_store::{Batch, Event, Revision};

use crate::{
    client::{revision, unsigned},
    keys::Prefix,
    messages::{WatchEvent, WatchResponse},
};

/// Effect of a response on the watch.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing yet.
    Nothing,
    /// These events are next, or there are none up to this revision.
    Batch(Batch),
    /// The history after the position has been compacted; this is the oldest revision that there is.
    Compacted(Revision),
    /// etcd has ended the watch, which another one may continue.
    Ended(String),
}

/// The position of a watch.
///
/// A batch ends where a revision ends. etcd splits large responses, even inside a revision, so the events of the last
/// revision wait until the next part shows that it is complete.
#[derive(Debug)]
pub(super) struct Position {
    /// Every event up to this revision has been delivered.
    delivered: Revision,
    held: Vec<WatchEvent>,
}

impl Position {
    pub(super) fn after(revision: Revision) -> Self {
        Self { delivered: revision, held: Vec::new() }
    }

    pub(super) fn delivered(&self) -> Revision {
        self.delivered
    }

    /// Drops events that were not delivered: a new watch begins at the position.
    pub(super) fn resume(&mut self) {
        self.held.clear();
    }

    /// Handles the next response.
    pub(super) fn accept(&mut self, answer: WatchResponse, prefix: &Prefix) -> Step {
        if answer.canceled {
            return match answer.compact_revision {
                ..=0 => Step::Ended(answer.cancel_reason),
                compacted => Step::Compacted(Revision(unsigned(compacted))),
            };
        }
        if !answer.events.is_empty() || !self.held.is_empty() {
            self.held.extend(answer.events);
            return self.release(answer.fragment, prefix);
        }
        // The revision of a response with events, and of the first one, can be newer than events that are still to
        // come.
        let reached = revision(answer.header.as_ref());
        if answer.created || answer.fragment || reached <= self.delivered {
            return Step::Nothing;
        }
        self.delivered = reached;
        Step::Batch(Batch { events: Vec::new(), revision: reached })
    }

    /// Releases the events of all revisions that are complete.
    fn release(&mut self, more: bool, prefix: &Prefix) -> Step {
        let Some(last) = self.held.last().map(written) else { return Step::Nothing };
        let complete = match more {
            true => self.held.iter().position(|event| written(event) == last).unwrap_or(0),
            false => self.held.len(),
        };
        let Some(through) = complete.checked_sub(1).map(|index| written(&self.held[index])) else {
            return Step::Nothing;
        };
        let before = self.delivered;
        let released = self.held.drain(..complete).filter(|event| written(event) > before);
        let events: Vec<Event> = released.filter_map(|event| converted(event, prefix)).collect();
        if through <= before {
            return Step::Nothing;
        }
        self.delivered = through;
        Step::Batch(Batch { events, revision: through })
    }
}

/// Returns the revision of an event.
fn written(event: &WatchEvent) -> Revision {
    Revision(event.kv.as_ref().map_or(0, |kv| unsigned(kv.mod_revision)))
}

/// Returns an event of the store; `None` for keys that are not the store's.
fn converted(event: WatchEvent, prefix: &Prefix) -> Option<Event> {
    let kv = event.kv?;
    let Some(key) = prefix.strip(&kv.key) else {
        tracing::warn!(key = %kv.key.escape_ascii(), "ignoring a key in etcd that is not one of the store's");
        return None;
    };
    let value = (event.kind != WatchEvent::DELETE).then_some(kv.value);
    Some(Event { key: Arc::from(key), revision: Revision(unsigned(kv.mod_revision)), value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{KeyValue, ResponseHeader};

    fn put(key: &'static str, at: i64) -> WatchEvent {
        let kv = KeyValue { key: key.into(), mod_revision: at, value: "v".into(), ..KeyValue::default() };
        WatchEvent { kind: 0, kv: Some(kv) }
    }

    fn answer(revision: i64, events: Vec<WatchEvent>) -> WatchResponse {
        WatchResponse { header: Some(ResponseHeader { cluster_id: 1, revision }), events, ..WatchResponse::default() }
    }

    /// Returns the batches of responses: keys with revisions, and the revision of the batch.
    fn batches(position: &mut Position, answers: Vec<WatchResponse>) -> Vec<(Vec<String>, u64)> {
        let prefix = Prefix::parse("/w").unwrap();
        let mut batches = Vec::new();
        for answer in answers {
            match position.accept(answer, &prefix) {
                Step::Batch(batch) => {
                    let events = batch.events.iter().map(|event| format!("{}@{}", event.key, event.revision)).collect();
                    batches.push((events, batch.revision.0));
                }
                Step::Nothing => {}
                other => panic!("unexpected {other:?}"),
            }
        }
        batches
    }

    fn batch(events: &[&str], revision: u64) -> (Vec<String>, u64) {
        (events.iter().map(|event| (*event).to_owned()).collect(), revision)
    }

    #[test]
    fn the_revision_of_an_answer_with_events_is_not_progress() {
        let mut position = Position::after(Revision(5));
        let created = WatchResponse { created: true, ..answer(100, vec![]) };
        let answers =
            vec![created, answer(100, vec![put("/w/a", 6), put("/w/b", 7)]), answer(100, vec![put("/w/c", 8)])];
        assert_eq!(batches(&mut position, answers), [batch(&["/a@6", "/b@7"], 7), batch(&["/c@8"], 8)]);
        assert_eq!(position.delivered(), Revision(8));
        // A response without events is, unless the member that sends it is behind.
        assert_eq!(batches(&mut position, vec![answer(7, vec![]), answer(100, vec![])]), [batch(&[], 100)]);
    }

    #[test]
    fn events_of_one_revision_stay_together_however_the_answer_is_split() {
        let events = [put("/w/a", 6), put("/w/b", 7), put("/w/c", 7), put("/w/d", 7), put("/w/e", 8)];
        for first in 0..=events.len() {
            for second in first..=events.len() {
                let parts = [&events[..first], &events[first..second], &events[second..]];
                let answers = parts
                    .into_iter()
                    .enumerate()
                    .map(|(index, part)| WatchResponse { fragment: index < 2, ..answer(9, part.to_vec()) });
                let found = batches(&mut Position::after(Revision(5)), answers.collect());
                let keys: Vec<String> = found.iter().flat_map(|batch| batch.0.clone()).collect();
                assert_eq!(keys, ["/a@6", "/b@7", "/c@7", "/d@7", "/e@8"], "{first} {second}");
                let together = found
                    .iter()
                    .any(|batch| ["/b@7", "/c@7", "/d@7"].iter().all(|key| batch.0.contains(&(*key).to_owned())));
                assert!(together, "{found:?}");
                assert_eq!(found.last().map(|batch| batch.1), Some(8));
            }
        }
    }

    #[test]
    fn a_resumed_watch_repeats_nothing_and_loses_nothing() {
        let mut position = Position::after(Revision(5));
        let cut = WatchResponse { fragment: true, ..answer(9, vec![put("/w/a", 6), put("/w/b", 7)]) };
        assert_eq!(batches(&mut position, vec![cut]), [batch(&["/a@6"], 6)]);
        position.resume();
        let again = answer(9, vec![put("/w/a", 6), put("/w/b", 7), put("/w/c", 7)]);
        assert_eq!(batches(&mut position, vec![again]), [batch(&["/b@7", "/c@7"], 7)]);
    }

    #[test]
    fn foreign_keys_are_skipped_and_deletions_have_no_value() {
        let mut position = Position::after(Revision(1));
        let prefix = Prefix::parse("/w").unwrap();
        let deleted = WatchEvent { kind: WatchEvent::DELETE, ..put("/w/a", 4) };
        let mut foreign = put("/w/", 3);
        foreign.kv.as_mut().unwrap().key = (&b"/w/\xff"[..]).into();
        let Step::Batch(batch) = position.accept(answer(4, vec![foreign, deleted]), &prefix) else {
            panic!("no batch")
        };
        assert_eq!(batch.events, [Event { key: "/a".into(), revision: Revision(4), value: None }]);
    }

    #[test]
    fn a_watch_that_etcd_ends_says_why() {
        let prefix = Prefix::parse("/w").unwrap();
        let end = |compact_revision, reason: &str| {
            let answer =
                WatchResponse { canceled: true, compact_revision, cancel_reason: reason.into(), ..answer(9, vec![]) };
            Position::after(Revision(1)).accept(answer, &prefix)
        };
        assert!(matches!(end(7, ""), Step::Compacted(Revision(7))));
        assert!(matches!(end(0, "etcdserver: no leader"), Step::Ended(reason) if reason == "etcdserver: no leader"));
    }
}
