//! Counted events: Events of the core group, combined as by client-go's `tools/record`.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Time};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    EventType,
    event::{Occurrence, cut},
    recent::Recent,
};

/// Number of different notes above which otherwise equal events are combined. As in client-go.
const SIMILAR: usize = 10;
/// Time after which notes are dropped. As in client-go.
const SIMILAR_FOR: Duration = Duration::from_secs(600);
/// Limit of a note in bytes. The API server has none for these events.
const NOTE_LIMIT: usize = 8192;

/// An Event with a count.
#[derive(Debug)]
pub(super) struct CountedEvent {
    namespace: String,
    name: String,
    about: ObjectReference,
    component: Arc<str>,
    host: Arc<str>,
    kind: EventType,
    reason: String,
    note: String,
    first: Timestamp,
    last: Timestamp,
}

impl CountedEvent {
    /// Returns the event of an occurrence. `unique` is a number of nanoseconds that is unique in this process.
    pub(super) fn new(occurrence: &Occurrence, unique: i128) -> Self {
        let (namespace, name) = occurrence.place(unique);
        Self {
            namespace,
            name,
            about: occurrence.about.clone(),
            component: occurrence.reporter.clone(),
            host: occurrence.host.clone(),
            kind: occurrence.kind,
            reason: occurrence.reason.clone(),
            note: String::new(),
            first: occurrence.at,
            last: occurrence.at,
        }
    }

    /// Records another occurrence.
    pub(super) fn happened(&mut self, note: &str, at: Timestamp) {
        cut(note, NOTE_LIMIT).clone_into(&mut self.note);
        self.last = at;
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the whole Event.
    pub(super) fn body(&self, count: i32) -> Value {
        let mut source = json!({ "component": &*self.component });
        if !self.host.is_empty() {
            source["host"] = (*self.host).into();
        }
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": { "namespace": self.namespace, "name": self.name },
            "involvedObject": self.about,
            "type": self.kind.name(), "reason": self.reason, "message": self.note,
            "source": source, "reportingComponent": &*self.component, "reportingInstance": &*self.host,
            "firstTimestamp": Time(self.first), "lastTimestamp": Time(self.last), "count": count,
        })
    }

    /// Returns the patch for another occurrence.
    pub(super) fn patch(&self, count: i32) -> Value {
        json!({ "count": count, "lastTimestamp": Time(self.last), "message": self.note })
    }
}

/// Notes of events that differ in nothing else.
#[derive(Debug)]
pub(super) struct SimilarEvents {
    notes: Recent<Notes>,
}

#[derive(Debug)]
struct Notes {
    /// Hashes of the notes.
    known: HashSet<u64>,
    last: Instant,
}

impl SimilarEvents {
    pub(super) fn new(capacity: usize) -> Self {
        Self { notes: Recent::new(capacity) }
    }

    /// Returns the key of the Event that counts an occurrence, and its note.
    pub(super) fn correlate(&mut self, occurrence: &Occurrence, now: Instant) -> (Arc<str>, String) {
        let similar = [&occurrence.source_key(), "\0", &occurrence.reason, "\0counted"].concat();
        let mut hasher = DefaultHasher::new();
        occurrence.note.hash(&mut hasher);
        let note = hasher.finish();
        if self.notes.peek_mut(&similar).is_none() {
            self.notes.insert(similar.as_str().into(), Notes { known: HashSet::new(), last: now });
        }
        let notes = self.notes.get_mut(&similar).expect("it was inserted");
        if now.saturating_duration_since(notes.last) > SIMILAR_FOR {
            notes.known.clear();
        }
        notes.last = now;
        if notes.known.insert(note) && notes.known.len() >= SIMILAR {
            notes.known.remove(&note);
            return (similar.into(), format!("(combined from similar events): {}", occurrence.note));
        }
        let field = occurrence.about.field_path.as_deref().unwrap_or_default();
        ([&similar, "\0", field, "\0", &occurrence.note].concat().into(), occurrence.note.clone())
    }
}
