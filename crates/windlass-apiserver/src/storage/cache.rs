//! The newest state of one resource, and the log of how it came about.
//!
//! The state is a persistent map: a reader takes a snapshot in constant time and never blocks a writer. Watchers read
//! the log by revision: none has a queue of its own, so a slow one costs nothing and is cut off when the log has moved
//! past it.

use std::{
    collections::VecDeque,
    ops::Bound,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use imbl::OrdMap;
use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tracing::error;
use windlass_store::{Entry, Event, Revision};

use super::{labels::LabelBits, object::StoredObject};

/// The log is cut when it holds more events than this...
const MAX_EVENTS: usize = 20_000;
/// ...or more bytes than this: a few minutes of an ordinary cluster's changes.
const MAX_BYTES: usize = 12 << 20;

/// Objects by `namespace/name` (or `name`), in the order lists have them.
type Objects = OrdMap<Arc<str>, Cached>;

/// An object in the map, with what a scan looks at first.
#[derive(Debug, Clone)]
pub struct Cached {
    /// The filter of its labels.
    pub labels: LabelBits,
    /// The object.
    pub object: Arc<StoredObject>,
}

impl Cached {
    fn new(object: Arc<StoredObject>) -> Self {
        let labels = object.header.labels.iter().map(|(key, value)| (&**key, &**value));
        Self { labels: LabelBits::of(labels), object }
    }
}

/// The cache of one resource.
pub struct ResourceCache {
    prefix: Box<str>,
    state: RwLock<State>,
    changed: Notify,
}

struct State {
    objects: Objects,
    log: VecDeque<Arc<CacheEvent>>,
    log_bytes: usize,
    /// Every event later than this is in the log.
    log_start: Revision,
    /// The last event that was applied.
    revision: Revision,
}

/// The objects at one moment.
#[derive(Clone)]
pub struct Snapshot {
    objects: Objects,
    /// The revision of the last change among them.
    pub revision: Revision,
}

impl Snapshot {
    /// The objects.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<StoredObject>> {
        self.objects.values().map(|cached| &cached.object)
    }

    /// The objects whose keys begin with a prefix, after a key if one is given.
    pub fn range(&self, prefix: &str, after: Option<&str>) -> impl Iterator<Item = (&str, &Cached)> {
        let start = match after {
            Some(key) => Bound::Excluded(Arc::<str>::from(key)),
            None => Bound::Included(Arc::from(prefix)),
        };
        // Prefixes end in a slash, so the first key behind them is the prefix with the next character in its place.
        let end = match prefix.strip_suffix('/') {
            Some(namespace) => Bound::Excluded(Arc::from(format!("{namespace}0"))),
            None => Bound::Unbounded,
        };
        self.objects.range::<_, Arc<str>>((start, end)).map(|(key, cached)| (&**key, cached))
    }
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Added,
    /// It was changed.
    Modified,
    /// It is gone.
    Deleted,
}

impl Change {
    /// The type of a watch event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// A change with the object before and after it.
pub struct CacheEvent {
    /// What happened.
    pub change: Change,
    /// The object as it is now; for a deletion its last state, at the revision of the deletion.
    pub object: Arc<StoredObject>,
    /// The object as it was.
    pub previous: Option<Arc<StoredObject>>,
    frame: OnceLock<Bytes>,
}

impl CacheEvent {
    fn new(change: Change, object: Arc<StoredObject>, previous: Option<Arc<StoredObject>>) -> Self {
        Self { change, object, previous, frame: OnceLock::new() }
    }

    /// The event as a line of a JSON watch, made once and shared by all watchers.
    pub fn frame(&self) -> &Bytes {
        self.frame.get_or_init(|| frame(self.change, &self.object))
    }
}

/// An event as a line of a JSON watch.
pub fn frame(change: Change, object: &StoredObject) -> Bytes {
    let mut out = Vec::with_capacity(object.size() + 40);
    out.extend_from_slice(br#"{"type":""#);
    out.extend_from_slice(change.as_str().as_bytes());
    out.extend_from_slice(br#"","object":"#);
    object.write(&mut out);
    out.extend_from_slice(b"}\n");
    out.into()
}

impl ResourceCache {
    pub(super) fn new(prefix: &str, start: Revision) -> Self {
        let state =
            State { objects: Objects::new(), log: VecDeque::new(), log_bytes: 0, log_start: start, revision: start };
        Self { prefix: prefix.into(), state: RwLock::new(state), changed: Notify::new() }
    }

    /// The store's prefix of this resource.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The object of a key (`namespace/name` or `name`).
    pub fn get(&self, key: &str) -> Option<Arc<StoredObject>> {
        self.state.read().objects.get(key).map(|cached| cached.object.clone())
    }

    /// All objects, as of now.
    pub fn snapshot(&self) -> Snapshot {
        let state = self.state.read();
        Snapshot { objects: state.objects.clone(), revision: state.revision }
    }

    /// Resolves at the next change after it is first polled (or enabled).
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// The events after a revision, at most `limit` of them; `None` if some of them are no longer kept.
    pub fn events_after(&self, revision: Revision, limit: usize) -> Option<Vec<Arc<CacheEvent>>> {
        let state = self.state.read();
        if revision < state.log_start {
            return None;
        }
        let from = state.log.partition_point(|event| event.object.revision <= revision);
        Some(state.log.range(from..).take(limit).cloned().collect())
    }

    /// Applies consecutive events of this resource.
    pub(super) fn apply(&self, events: &[Event]) {
        let mut state = self.state.write();
        for event in events {
            state.revision = event.revision;
            let key = &event.key[self.prefix.len()..];
            let Some(change) = state.step(key, event) else { continue };
            state.log_bytes += change.object.size();
            state.log.push_back(Arc::new(change));
        }
        state.trim();
        drop(state);
        self.changed.notify_waiters();
    }

    /// Replaces everything after a gap in the events.
    pub(super) fn replace(&self, entries: &[&Entry], revision: Revision) {
        let mut objects = Objects::new();
        for entry in entries {
            match StoredObject::parse(entry.value.clone(), entry.revision) {
                Some(object) => {
                    objects.insert(entry.key[self.prefix.len()..].into(), Cached::new(Arc::new(object)));
                }
                None => error!(key = &*entry.key, "the store holds something that is not an object; it is not served"),
            }
        }
        let mut state = self.state.write();
        *state = State { objects, log: VecDeque::new(), log_bytes: 0, log_start: revision, revision };
        drop(state);
        self.changed.notify_waiters();
    }
}

impl State {
    /// Applies one event to the objects. `None` if nothing came of it.
    fn step(&mut self, key: &str, event: &Event) -> Option<CacheEvent> {
        let Some(value) = &event.value else {
            let previous = self.objects.remove(key)?.object;
            let last = Arc::new(previous.deleted_at(event.revision));
            return Some(CacheEvent::new(Change::Deleted, last, Some(previous)));
        };
        let Some(object) = StoredObject::parse(value.clone(), event.revision) else {
            error!(key, "the store holds something that is not an object; it is not served");
            return None;
        };
        let object = Arc::new(object);
        let previous = self.objects.insert(key.into(), Cached::new(object.clone())).map(|cached| cached.object);
        let change = if previous.is_some() { Change::Modified } else { Change::Added };
        Some(CacheEvent::new(change, object, previous))
    }

    fn trim(&mut self) {
        while self.log.len() > MAX_EVENTS || self.log_bytes > MAX_BYTES {
            let Some(event) = self.log.pop_front() else { break };
            self.log_bytes -= event.object.size();
            self.log_start = event.object.revision;
        }
    }
}
