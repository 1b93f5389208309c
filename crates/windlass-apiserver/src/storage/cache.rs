//! The newest state of a resource, and the log of its changes.
//!
//! The state is a persistent map: a reader gets a snapshot in constant time and never blocks a writer. Watchers read
//! the log by revision. None has a queue of its own, so a slow watcher costs nothing. When the log has moved past it,
//! it reads the store's history ([`super::History`]) until it has caught up.

use std::{
    collections::VecDeque,
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock, Weak},
};

use bytes::Bytes;
use imbl::OrdMap;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tracing::error;
use windlass_store::{Event, Revision};

use super::{
    counts::Counts,
    damage::{Damage, DamagedObject, DamagedObjects},
    labels::LabelBits,
    list::{SharedList, WholeList},
    load::LoadedResource,
    object::{Parsed, StoredObject},
    watchers::Watchers,
};
use crate::pieces::HeldBytes;

/// The maximum number of events in the log.
const MAX_EVENTS: usize = 20_000;
/// The number of bytes above which the log is cut: a few minutes of changes in an ordinary cluster. Watchers that are
/// further behind read the store's history.
const MAX_BYTES: usize = 3 << 20;
/// The number of events that the log keeps, however large they are.
const MIN_EVENTS: usize = 16;
/// The number of bytes after which a batch of events ends. A batch has at least one event.
pub(super) const BATCH_BYTES: usize = 1 << 20;

/// Objects by `namespace/name` (or `name`), in the order of lists.
pub(super) type Objects = OrdMap<Arc<str>, Cached>;

/// An object in the map, with the filter that a scan checks first.
#[derive(Debug, Clone)]
pub(crate) struct Cached {
    /// The filter of its labels.
    pub(crate) labels: LabelBits,
    /// The object.
    pub(crate) object: Arc<StoredObject>,
}

impl Cached {
    pub(super) fn new(object: Arc<StoredObject>) -> Self {
        Self { labels: LabelBits::of(object.header.labels()), object }
    }
}

/// The cache of one resource.
pub(crate) struct ResourceCache {
    prefix: Box<str>,
    state: RwLock<State>,
    /// The items of the last complete list, until something changes.
    list: Mutex<Option<Arc<SharedList>>>,
    /// Recent watch lines, shared by watchers of all objects.
    lines: Mutex<Option<Lines>>,
    changed: Notify,
    observer: OnceLock<Observer>,
    pub(crate) watchers: Watchers,
}

/// Derives other state from a cache. It is called by the task that follows the store, after every change of the cache
/// and before the caches' revision advances, with the keys that have changed; `None` if all objects may have changed.
pub(crate) type Observer = Box<dyn Fn(&ResourceCache, Option<&[&str]>) + Send + Sync>;

/// The lines of consecutive events under a prefix.
#[derive(Clone)]
struct Lines {
    prefix: String,
    after: Revision,
    to: Revision,
    bytes: Bytes,
}

struct State {
    objects: Objects,
    counts: Counts,
    damaged: DamagedObjects,
    log: VecDeque<Arc<CacheEvent>>,
    log_bytes: usize,
    /// The revision after which all events are in the log.
    log_start: Revision,
    /// The revision of the last applied event.
    revision: Revision,
}

/// The objects at one point in time.
#[derive(Clone)]
pub(crate) struct Snapshot {
    objects: Objects,
    /// The revision of the last change among them.
    pub(crate) revision: Revision,
}

impl Snapshot {
    /// Returns the number of objects.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns the object of a key (`namespace/name` or `name`).
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<StoredObject>> {
        self.objects.get(key).map(|cached| &cached.object)
    }

    /// Returns the objects.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Arc<StoredObject>> {
        self.objects.values().map(|cached| &cached.object)
    }

    /// Returns the objects whose keys begin with a prefix, after a key if one is given.
    pub(crate) fn range(&self, prefix: &str, after: Option<&str>) -> impl Iterator<Item = (&str, &Cached)> {
        self.range_shared(prefix, after.map(Arc::from)).map(|(key, cached)| (&**key, cached))
    }

    /// Returns the objects whose keys begin with a prefix, with the map's own keys.
    pub(super) fn range_shared(
        &self,
        prefix: &str,
        after: Option<Arc<str>>,
    ) -> impl Iterator<Item = (&Arc<str>, &Cached)> {
        let start = match after {
            Some(key) => Bound::Excluded(key),
            None => Bound::Included(Arc::from(prefix)),
        };
        // Prefixes end with a slash, so the first key after them is the prefix with the next character in its place.
        let end = match prefix.strip_suffix('/') {
            Some(namespace) => Bound::Excluded(Arc::from(format!("{namespace}0"))),
            None => Bound::Unbounded,
        };
        self.objects.range::<_, Arc<str>>((start, end))
    }
}

/// A change of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It was created.
    Added,
    /// It was changed.
    Modified,
    /// It was deleted.
    Deleted,
}

impl Change {
    /// Returns the type of the watch event.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// A change with the object before and after it.
pub(crate) struct CacheEvent {
    /// The change.
    pub(crate) change: Change,
    /// The new state of the object; for a deletion its last state, at the revision of the deletion.
    pub(crate) object: Arc<StoredObject>,
    /// The previous state of the object.
    pub(crate) previous: Option<Arc<StoredObject>>,
    /// The event as a line of a JSON watch, encoded once and shared by all watchers; the object's bytes are a part of
    /// it.
    pub(crate) frame: Bytes,
}

impl CacheEvent {
    /// Returns the event of a write.
    fn written(previous: Option<Arc<StoredObject>>, value: &[u8], parsed: Parsed, revision: Revision) -> Self {
        let change = if previous.is_some() { Change::Modified } else { Change::Added };
        let (before, after) = brackets(change);
        let (object, frame) = StoredObject::framed(value, parsed, revision, before, after);
        Self { change, object: object.into(), previous, frame }
    }

    /// Returns the event of a deletion.
    fn removed(previous: Arc<StoredObject>, revision: Revision) -> Self {
        let (before, after) = brackets(Change::Deleted);
        let (last, frame) = previous.deleted_in(revision, before, after);
        Self { change: Change::Deleted, object: last.into(), previous: Some(previous), frame }
    }

    /// Returns the event of a write in the store's history; `None` if it changes nothing that watchers see.
    pub(super) fn rebuilt(event: &Event, previous: Option<Arc<StoredObject>>) -> Option<Self> {
        // A damaged object looks deleted.
        match event.value.as_ref().map(|value| (value, Parsed::named(&event.key, value))) {
            Some((value, Ok(parsed))) => Some(Self::written(previous, value, parsed, event.revision)),
            _ => Some(Self::removed(previous?, event.revision)),
        }
    }
}

/// Returns the beginning and end of a line of a JSON watch.
fn brackets(change: Change) -> (&'static [u8], &'static [u8]) {
    let before: &[u8] = match change {
        Change::Added => br#"{"type":"ADDED","object":"#,
        Change::Modified => br#"{"type":"MODIFIED","object":"#,
        Change::Deleted => br#"{"type":"DELETED","object":"#,
    };
    (before, b"}\n")
}

/// Writes an event with only the object's metadata as a line of a JSON watch, without parsing the object.
pub(crate) fn write_metadata_frame(change: Change, object: &StoredObject, out: &mut Vec<u8>) {
    let (before, after) = brackets(change);
    out.extend_from_slice(before);
    out.extend_from_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#);
    out.extend_from_slice(object.metadata());
    out.push(b'}');
    out.extend_from_slice(after);
}

/// Writes an event as a line of a JSON watch.
pub(crate) fn write_frame(change: Change, object: &StoredObject, out: &mut Vec<u8>) {
    let (before, after) = brackets(change);
    out.extend_from_slice(before);
    out.extend_from_slice(object.bytes());
    out.extend_from_slice(after);
}

impl ResourceCache {
    pub(super) fn new(prefix: &str, start: Revision) -> Self {
        let state = State::new(Objects::new(), DamagedObjects::default(), start);
        Self {
            prefix: prefix.into(),
            state: RwLock::new(state),
            list: Mutex::default(),
            lines: Mutex::default(),
            changed: Notify::new(),
            observer: OnceLock::new(),
            watchers: Watchers::default(),
        }
    }

    /// Sets the observer, which a cache can have one of.
    pub(crate) fn set_observer(&self, observer: Observer) {
        let is_first = self.observer.set(observer).is_ok();
        debug_assert!(is_first, "{} has an observer already", self.prefix);
    }

    /// Announces that events were applied, or that the state was replaced.
    fn announce(&self, events: Option<&[Event]>) {
        self.list.lock().take();
        if let Some(observer) = self.observer.get() {
            let keys =
                events.map(|events| events.iter().map(|event| &event.key[self.prefix.len()..]).collect::<Vec<_>>());
            // The caches must continue, even if an observer fails.
            if catch_unwind(AssertUnwindSafe(|| observer(self, keys.as_deref()))).is_err() {
                error!(prefix = &*self.prefix, "failed to derive state from a changed object");
            }
        }
        self.changed.notify_waiters();
    }

    /// Returns the prefix of this resource in the store.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the object of a key (`namespace/name` or `name`).
    pub(crate) fn get(&self, key: &str) -> Option<Arc<StoredObject>> {
        self.state.read().objects.get(key).map(|cached| cached.object.clone())
    }

    /// Returns the damage to the value of a key. Parses the object if it is not known to be damaged.
    pub(crate) fn damaged(&self, key: &str) -> Option<DamagedObject> {
        if let Some(damaged) = self.state.read().damaged.get(key) {
            return Some(damaged.clone());
        }
        let object = self.get(key)?;
        object.value().err().map(|damage| DamagedObject { revision: object.revision, damage })
    }

    /// Returns the keys of damaged values that begin with a prefix.
    pub(crate) fn damaged_keys(&self, prefix: &str) -> Vec<String> {
        self.state.read().damaged.keys(prefix)
    }

    /// Returns the number of damaged values.
    pub(crate) fn damaged_count(&self) -> usize {
        self.state.read().damaged.len()
    }

    /// Returns whether there are no objects, damaged ones included.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state.read();
        state.objects.is_empty() && state.damaged.len() == 0
    }

    /// Returns a snapshot of all objects.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let state = self.state.read();
        Snapshot { objects: state.objects.clone(), revision: state.revision }
    }

    /// Returns a snapshot of all objects, and how many of them are under a prefix (`namespace/`, or empty).
    pub(crate) fn counted_snapshot(&self, prefix: &str) -> (Snapshot, usize) {
        let state = self.state.read();
        (Snapshot { objects: state.objects.clone(), revision: state.revision }, state.counts.below(prefix))
    }

    /// Returns a list of everything under a prefix in a snapshot. Lists of the newest state share their pieces.
    pub(crate) fn whole_list(&self, snapshot: Snapshot, prefix: &str, typed: bool, held: HeldBytes) -> WholeList {
        let shared = self.shared_list(prefix, snapshot.revision);
        WholeList::new(snapshot, prefix, typed, held, shared)
    }

    fn shared_list(&self, prefix: &str, revision: Revision) -> Weak<SharedList> {
        // Locked first, so that a list of a state that is replaced in the meantime is not kept.
        let mut list = self.list.lock();
        let newest = self.state.read().revision;
        match &*list {
            Some(list) if list.prefix == prefix && list.revision == revision => Arc::downgrade(list),
            _ if revision == newest => Arc::downgrade(list.insert(Arc::new(SharedList::new(prefix, revision)))),
            _ => Weak::new(),
        }
    }

    /// Resolves at the next change after it is first polled or enabled.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Returns the next events after a revision: about `limit`, and about [`BATCH_BYTES`], and always all of the last
    /// revision. Returns `None` if some of them are no longer kept.
    pub(crate) fn events_after(&self, revision: Revision, limit: usize) -> Option<Vec<Arc<CacheEvent>>> {
        let state = self.state.read();
        if revision < state.log_start {
            return None;
        }
        let from = state.log.partition_point(|event| event.object.revision <= revision);
        let (mut events, mut bytes): (Vec<Arc<CacheEvent>>, _) = (Vec::new(), 0);
        for event in state.log.range(from..) {
            let fits = bytes < BATCH_BYTES && events.len() < limit;
            if !fits && events.last().is_none_or(|last| last.object.revision != event.object.revision) {
                break;
            }
            bytes += event.object.size();
            events.push(event.clone());
        }
        Some(events)
    }

    /// Returns the lines of all events after a revision whose keys begin with a prefix, with the revision of the last
    /// one; `None` if some are no longer kept. Watchers with the same position share the bytes.
    pub(crate) fn lines_after(&self, revision: Revision, prefix: &str, limit: usize) -> Option<(Revision, Bytes)> {
        let events = self.events_after(revision, limit)?;
        let to = events.last().map_or(revision, |event| event.object.revision);
        let selected = |event: &&Arc<CacheEvent>| {
            prefix.is_empty() || prefix.strip_suffix('/') == Some(&*event.object.header.namespace)
        };
        if let [only] = events.as_slice() {
            return Some((to, Some(only).filter(selected).map_or_else(Bytes::new, |event| event.frame.clone())));
        }
        let same = |lines: &&Lines| lines.after == revision && lines.to == to && lines.prefix == prefix;
        if let Some(lines) = self.lines.lock().as_ref().filter(same) {
            return Some((to, lines.bytes.clone()));
        }
        let size = events.iter().filter(selected).map(|event| event.frame.len()).sum();
        let mut out = Vec::with_capacity(size);
        events.iter().filter(selected).for_each(|event| out.extend_from_slice(&event.frame));
        let bytes = Bytes::from(out);
        let lines = Lines { prefix: prefix.to_owned(), after: revision, to, bytes: bytes.clone() };
        *self.lines.lock() = Some(lines);
        Some((to, bytes))
    }

    /// Applies consecutive events of this resource.
    pub(super) fn apply<'e>(&self, events: &'e [Event]) {
        let key = |event: &'e Event| &event.key[self.prefix.len()..];
        // Before the lock is acquired, because readers wait for it.
        let parse = |event: &'e Event| Some(Parsed::named(key(event), event.value.as_ref()?));
        let parsed: Vec<_> = events.iter().map(parse).collect();
        let mut state = self.state.write();
        for (event, parsed) in events.iter().zip(parsed) {
            state.revision = event.revision;
            let Some(change) = state.step(&self.prefix, key(event), event, parsed) else { continue };
            state.log_bytes += change.object.size();
            state.log.push_back(Arc::new(change));
        }
        state.trim();
        drop(state);
        self.announce(Some(events));
    }

    /// Replaces the state after a gap in the events.
    pub(super) fn replace(&self, loaded: LoadedResource, revision: Revision) {
        let former = std::mem::replace(&mut *self.state.write(), State::new(loaded.objects, loaded.damaged, revision));
        drop(former);
        self.announce(None);
    }
}

impl State {
    fn new(objects: Objects, damaged: DamagedObjects, revision: Revision) -> Self {
        let counts = Counts::of(objects.keys().map(|key| &**key));
        Self { objects, counts, damaged, log: VecDeque::new(), log_bytes: 0, log_start: revision, revision }
    }

    /// Applies an event, whose value is parsed, to the objects; returns `None` if it changes nothing.
    fn step(
        &mut self,
        prefix: &str,
        key: &str,
        event: &Event,
        parsed: Option<Result<Parsed, Damage>>,
    ) -> Option<CacheEvent> {
        self.damaged.remove(key);
        let (Some(value), Some(parsed)) = (&event.value, parsed) else { return self.remove(key, event.revision) };
        match parsed {
            Ok(parsed) => {
                let previous = self.objects.get(key).map(|cached| cached.object.clone());
                if previous.is_none() {
                    self.counts.add(key);
                }
                let written = CacheEvent::written(previous, value, parsed, event.revision);
                self.objects.insert(key.into(), Cached::new(written.object.clone()));
                Some(written)
            }
            Err(damage) => {
                self.damaged.insert(prefix, key, event.revision, damage);
                self.remove(key, event.revision)
            }
        }
    }

    /// Removes an object, if there is one.
    fn remove(&mut self, key: &str, revision: Revision) -> Option<CacheEvent> {
        let previous = self.objects.remove(key)?.object;
        self.counts.remove(key);
        Some(CacheEvent::removed(previous, revision))
    }

    fn trim(&mut self) {
        while self.log.len() > MAX_EVENTS || (self.log_bytes > MAX_BYTES && self.log.len() > MIN_EVENTS) {
            let Some(event) = self.log.pop_front() else { break };
            self.log_bytes -= event.object.size();
            self.log_start = event.object.revision;
        }
    }
}

#[cfg(test)]
mod tests;
