//! The state of one informer, as a state machine without I/O: changes and writes of this process go in, events come out.
//!
//! The state from the watch is the truth up to [`Store::revision`]. Own writes are the truth beyond it: they are
//! *ahead* until the watch reaches their revision. So:
//! - a write at a revision that the watch has passed is outdated, and ignored;
//! - a state older than the stored one is late, and skipped;
//! - the watch must deliver a write of this process when it reaches its revision. If it does not, the server has lost the write
//!   (it was restored from a backup), and so does the store.
//!
//! Applying the events to an empty map yields the content of the store.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use hashbrown::{HashMap, HashSet};

use super::{
    Event,
    cell::{Cell, ParsedCell},
    index::AnyIndex,
    packed::Brief,
    packing::Packer,
    parsed_scope::ScopeMatch,
    table::{Table, key_of, parts},
    tombstones::Tombstones,
};
use crate::{
    any_object::AnyObject,
    key::ObjectKey,
    object::revision,
    watch::{Change, UnreadableObject},
};

/// See the module.
pub(super) struct Store<K: ?Sized> {
    objects: Table<K>,
    indices: Vec<Box<dyn AnyIndex<K>>>,
    revision: u64,
    synced: bool,
    absent: bool,
    /// Whether the source has failed.
    failed: bool,
    /// Own writes that the watch has not delivered yet, by revision.
    ahead: BTreeMap<u64, PendingWrite>,
    /// Objects that a write of this process ahead of the watch has deleted or moved out of scope, with its revision.
    left: HashMap<ObjectKey, u64>,
    tombstones: Tombstones,
    /// Objects whose newest state failed to deserialize. An earlier state may be stored.
    unreadable: HashMap<ObjectKey, UnreadableObject>,
    /// Number of times that these have changed.
    unreadable_changes: u64,
    packer: Arc<Packer<K>>,
}

/// Receiver of events.
pub(super) type Emit<'a, K> = &'a mut dyn FnMut(Event<Cell<K>>);

/// A write of this process that the watch has not delivered yet.
struct PendingWrite {
    key: ObjectKey,
    /// The state comes from another Rust type, which may not have all fields: the watch's state is better.
    partial: bool,
}

fn uid_of(object: &(impl AnyObject + ?Sized)) -> Option<&str> {
    object.metadata().uid.as_deref()
}

fn revision_of(object: &(impl AnyObject + ?Sized)) -> u64 {
    revision(object.metadata())
}

impl<K: ?Sized> Store<K> {
    pub(super) fn new(packer: Arc<Packer<K>>) -> Self {
        Self {
            objects: Table::default(),
            indices: Vec::new(),
            revision: 0,
            synced: false,
            absent: false,
            failed: false,
            ahead: BTreeMap::new(),
            left: HashMap::new(),
            tombstones: Tombstones::default(),
            unreadable: HashMap::new(),
            unreadable_changes: 0,
            packer,
        }
    }
}

/// Reads.
impl<K: AnyObject + ?Sized> Store<K> {
    pub(super) fn get(&self, key: (&str, &str)) -> Option<&Arc<Cell<K>>> {
        self.objects.get(key)
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Cell<K>>> {
        self.objects.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns whether the initial list is complete, and the resource is still served.
    pub(super) fn is_synced(&self) -> bool {
        self.synced && !self.failed
    }

    /// Returns whether the source has failed.
    pub(super) fn is_failed(&self) -> bool {
        self.failed
    }

    /// Records that the source has failed, so that the store is no longer current.
    pub(super) fn fail(&mut self) {
        (self.failed, self.absent) = (true, false);
    }

    /// Returns whether the resource is known not to be served.
    pub(super) fn is_absent(&self) -> bool {
        self.absent
    }

    /// Returns the objects whose newest state failed to deserialize.
    pub(super) fn unreadable(&self) -> &HashMap<ObjectKey, UnreadableObject> {
        &self.unreadable
    }

    /// Returns how often these have changed.
    pub(super) fn unreadable_changes(&self) -> u64 {
        self.unreadable_changes
    }

    /// Returns at most this many of these, sorted.
    pub(super) fn some_unreadable(&self, most: usize) -> Vec<UnreadableObject> {
        let mut objects: Vec<_> = self.unreadable.values().cloned().collect();
        objects.sort_by(|a, b| a.key.cmp(&b.key));
        objects.truncate(most);
        objects
    }

    pub(super) fn index_named(&self, name: &str) -> Option<usize> {
        self.indices.iter().position(|index| index.name() == name)
    }

    pub(super) fn index_at(&self, place: usize) -> &dyn AnyIndex<K> {
        &*self.indices[place]
    }

    /// Adds an index that already has all objects. Its name must be new.
    pub(super) fn take_index(&mut self, index: Box<dyn AnyIndex<K>>) -> usize {
        self.indices.push(index);
        self.indices.len() - 1
    }

    /// Adds an empty index, and fills it.
    #[cfg(test)]
    pub(super) fn add_index(&mut self, mut index: Box<dyn AnyIndex<K>>) -> usize {
        for object in self.objects.iter() {
            index.insert(&ParsedCell::new(object));
        }
        self.take_index(index)
    }

    /// Packs objects that were not read since the last sweep.
    #[cfg(test)]
    pub(super) fn sweep(&self, slots: Range<usize>) {
        self.slots(slots).0.iter().for_each(|cell| cell.sweep(&self.packer));
    }

    /// Returns the objects in some slots, and whether there are later slots.
    pub(super) fn slots(&self, slots: Range<usize>) -> (Vec<Arc<Cell<K>>>, bool) {
        self.objects.slots(slots)
    }
}

/// Changes from the watch.
impl<K: AnyObject + ?Sized> Store<K> {
    pub(super) fn apply(&mut self, change: Change<K, Arc<Cell<K>>>, emit: Emit<'_, K>) {
        match change {
            Change::Replace { objects, unreadable, revision } => {
                let before = std::mem::take(&mut self.unreadable);
                let unreadable = unreadable.into_iter().filter(|object| self.is_news(object));
                self.unreadable = unreadable.map(|object| (object.key.clone(), object)).collect();
                self.unreadable_changes += u64::from(!(before.is_empty() && self.unreadable.is_empty()));
                self.replace(objects, revision, emit);
            }
            Change::Unreadable(object) => {
                self.pass(object.revision, Some(parts(&object.key)), emit);
                if self.is_news(&object) {
                    self.unreadable_changes += 1;
                    self.unreadable.insert(object.key.clone(), object);
                }
            }
            Change::Apply(object) => {
                self.is_readable(key_of(object.metadata()));
                let partial = self.pass(revision_of(&*object), Some(key_of(object.metadata())), emit);
                self.arrived(object, partial, emit);
            }
            Change::Delete(object) => {
                self.is_readable(key_of(object.metadata()));
                self.pass(revision_of(&*object), Some(key_of(object.metadata())), emit);
                self.departed(object, emit);
            }
            Change::Gone { key, revision } => {
                let key = parts(&key);
                self.is_readable(key);
                self.pass(revision, Some(key), emit);
                if self.objects.get(key).is_some_and(|stored| revision == 0 || stored.revision() <= revision)
                    && let Some(object) = self.take(key)
                {
                    emit(Event::Deleted { object });
                }
            }
            Change::Bookmark(revision) => {
                self.pass(revision, None, emit);
            }
            Change::Absent => self.vanish(emit),
        }
    }

    /// Returns whether an unreadable state is newer than the stored one, which may be a write of this process.
    fn is_news(&self, object: &UnreadableObject) -> bool {
        let stored = self.objects.get(parts(&object.key));
        stored.is_none_or(|stored| stored.revision() < object.revision || object.revision == 0)
    }

    /// An object can be read again, or is deleted.
    fn is_readable(&mut self, (namespace, name): (&str, &str)) {
        if !self.unreadable.is_empty() && self.unreadable.remove(&ObjectKey::namespaced(namespace, name)).is_some() {
            self.unreadable_changes += 1;
        }
    }

    fn arrived(&mut self, object: Arc<K>, partial: bool, emit: Emit<'_, K>) {
        if self.tombstones.contains(uid_of(&*object)) {
            return;
        }
        if self.has_left(Brief::of(object.metadata())) {
            return;
        }
        if let Some(stored) = self.objects.get(key_of(object.metadata())) {
            let (new, old) = (revision_of(&*object), stored.revision());
            let known = new == old && new != 0 && stored.has_uid(uid_of(&*object)) && !partial;
            if known || (new != 0 && new < old) {
                return;
            }
        }
        self.put(Cell::new(object), false, emit);
    }

    fn departed(&mut self, object: Arc<K>, emit: Emit<'_, K>) {
        let key = key_of(object.metadata());
        let own = self.tombstones.contains(uid_of(&*object));
        let Some(stored) = self.objects.get(key) else { return };
        let revision = revision_of(&*object);
        // A later state is stored: the object was recreated, or is in scope again.
        let later = revision != 0 && revision < stored.revision();
        let same = stored.has_uid(uid_of(&*object));
        if later || (own && !same) {
            return;
        }
        if let Some(stored) = self.take(key) {
            // The deletion of another object of this name is also the end of the stored one.
            let object = if same { Cell::new(object) } else { stored };
            emit(Event::Deleted { object });
        }
    }

    fn replace(&mut self, listed: Vec<Arc<Cell<K>>>, revision: u64, emit: Emit<'_, K>) {
        let partial: HashSet<u64> =
            self.ahead.iter().filter(|(_, ahead)| ahead.partial).map(|(revision, _)| *revision).collect();
        if revision < self.revision {
            // The history of the server has changed: nothing that was known is valid.
            self.ahead.clear();
            self.left.clear();
            self.tombstones.clear();
        } else {
            self.ahead = self.ahead.split_off(&revision.saturating_add(1));
            self.left.retain(|_, left| *left > revision);
        }
        // Stored states with a later revision than the list's are writes of this process, unless the history has changed.
        let horizon = if revision < self.revision { u64::MAX } else { revision };
        let initial = !self.synced;

        let mut seen = self.objects.marks();
        let mut fresh = Vec::with_capacity(if self.objects.len() == 0 { listed.len() } else { 0 });
        let packs = self.packer.packs(listed.len());
        for object in listed {
            if packs {
                object.pack(&self.packer);
            }
            let former = object.brief(|new| {
                if self.tombstones.contains(new.uid) || self.has_left(new) {
                    return None;
                }
                let Some((slot, stored)) = self.objects.slot(new.key) else {
                    fresh.push(object.clone());
                    return None;
                };
                seen.set(slot);
                let replaced = stored.brief(|old| {
                    let same = old.uid == new.uid
                        && old.version == new.version
                        && new.version.is_some()
                        && (partial.is_empty() || !partial.contains(&new.revision()));
                    !same && old.revision() <= horizon
                });
                replaced.then(|| std::mem::replace(stored, object.clone()))
            });
            if let Some(former) = former {
                self.reindex(Some(&former), Some(&object));
                Self::changed(former, object, initial, emit);
            }
        }
        let is_unreadable =
            |object: &Cell<K>| !self.unreadable.is_empty() && self.unreadable.contains_key(&object.key());
        let gone = |object: &&Arc<Cell<K>>| object.revision() <= horizon && !is_unreadable(object);
        let gone: Vec<_> = self.objects.unmarked(&seen).filter(gone).cloned().collect();
        for object in gone {
            self.take(parts(&object.key()));
            emit(Event::Deleted { object });
        }
        self.objects.reserve(fresh.len());
        for object in fresh {
            self.put(object, initial, emit);
        }
        self.objects.shrink();
        self.revision = revision;
        self.synced = true;
        self.absent = false;
    }

    /// Returns whether a write of this process after this state has deleted the object or moved it out of scope.
    fn has_left(&self, object: Brief<'_>) -> bool {
        let key = |(namespace, name): (&str, &str)| ObjectKey::namespaced(namespace, name);
        !self.left.is_empty() && self.left.get(&key(object.key)).is_some_and(|left| object.revision() <= *left)
    }

    fn vanish(&mut self, emit: Emit<'_, K>) {
        for index in &mut self.indices {
            index.clear();
        }
        for object in self.objects.take() {
            emit(Event::Deleted { object });
        }
        self.ahead.clear();
        self.left.clear();
        self.tombstones.clear();
        self.unreadable_changes += u64::from(!self.unreadable.is_empty());
        self.unreadable.clear();
        self.synced = false;
        self.absent = true;
    }

    /// The watch has reached a revision, with an object or without. Returns whether it delivered a write that is stored
    /// only partially.
    fn pass(&mut self, revision: u64, brought: Option<(&str, &str)>, emit: Emit<'_, K>) -> bool {
        self.revision = self.revision.max(revision);
        let mut partial = false;
        while let Some(first) = self.ahead.first_entry()
            && *first.key() <= self.revision
        {
            let (written, PendingWrite { key, partial: was_partial }) = first.remove_entry();
            if self.left.get(&key) == Some(&written) {
                self.left.remove(&key);
            }
            let key = parts(&key);
            if brought == Some(key) {
                partial |= was_partial && written == revision;
            } else if self.objects.get(key).is_some_and(|stored| stored.revision() == written)
                && let Some(object) = self.take(key)
            {
                emit(Event::Deleted { object });
            }
        }
        partial
    }
}

/// Own writes.
impl<K: AnyObject + ?Sized> Store<K> {
    /// Stores the state from the response to a write that is not the object's last.
    pub(super) fn wrote(&mut self, object: Arc<K>, fit: ScopeMatch, partial: bool, emit: Emit<'_, K>) {
        let (key, revision) = (ObjectKey::of_meta(object.metadata()), revision_of(&*object));
        let Some(uid) = uid_of(&*object) else { return };
        if revision <= self.revision || self.tombstones.contains(Some(uid)) {
            return;
        }
        let stored = self.objects.get(key_of(object.metadata()));
        // The response to an earlier write than one that is known.
        if stored.is_some_and(|stored| stored.revision() >= revision)
            || self.left.get(&key).is_some_and(|left| *left >= revision)
        {
            return;
        }
        let same = stored.is_some_and(|stored| stored.has_uid(Some(uid)));
        let was_stored = stored.is_some();
        self.is_readable(key_of(object.metadata()));
        if fit == ScopeMatch::Within || (fit == ScopeMatch::Unknown && same) {
            self.left.remove(&key);
            self.put(Cell::new(object), !self.synced, emit);
            self.ahead.insert(revision, PendingWrite { key, partial });
        } else if fit == ScopeMatch::Outside || was_stored {
            if let Some(object) = self.take(key_of(object.metadata())) {
                emit(Event::Deleted { object });
            }
            self.left.insert(key.clone(), revision);
            self.ahead.insert(revision, PendingWrite { key, partial: false });
        }
    }

    /// Removes an object that a delete has removed at once.
    pub(super) fn deleted(&mut self, key: &ObjectKey, uid: &str, emit: Emit<'_, K>) {
        if uid.is_empty() {
            return;
        }
        let place = parts(key);
        self.is_readable(place);
        if self.objects.get(place).is_some_and(|stored| stored.has_uid(Some(uid)))
            && let Some(object) = self.take(place)
        {
            let known = object.revision();
            if known > self.revision {
                // Earlier objects of the same name, which the watch may still deliver, must not come back either.
                self.left.insert(key.clone(), known);
            }
            emit(Event::Deleted { object });
        }
        self.tombstones.insert(uid);
    }
}

/// Updates of objects together with indices.
impl<K: AnyObject + ?Sized> Store<K> {
    fn put(&mut self, object: Arc<Cell<K>>, initial: bool, emit: Emit<'_, K>) {
        let old = self.objects.insert(object.clone());
        self.reindex(old.as_ref(), Some(&object));
        match old {
            Some(old) => Self::changed(old, object, initial, emit),
            None => emit(Event::Added { object, initial }),
        }
    }

    fn changed(old: Arc<Cell<K>>, new: Arc<Cell<K>>, initial: bool, emit: Emit<'_, K>) {
        if old.brief(|old| new.has_uid(old.uid)) {
            emit(Event::Updated { old, new });
        } else {
            emit(Event::Deleted { object: old });
            emit(Event::Added { object: new, initial });
        }
    }

    fn take(&mut self, key: (&str, &str)) -> Option<Arc<Cell<K>>> {
        let object = self.objects.remove(key)?;
        self.reindex(Some(&object), None);
        Some(object)
    }

    fn reindex(&mut self, old: Option<&Arc<Cell<K>>>, new: Option<&Arc<Cell<K>>>) {
        let (old, new) = (old.map(ParsedCell::new), new.map(ParsedCell::new));
        for index in &mut self.indices {
            if let Some(old) = &old {
                index.remove(old);
            }
            if let Some(new) = &new {
                index.insert(new);
            }
        }
    }
}

#[cfg(test)]
mod tests;
