//! Objects by namespace and name, without a copy of either: the key of an entry is read from the object itself.

use std::{hash::BuildHasher, mem, ops::Range, sync::Arc};

use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};
use kube::core::ObjectMeta;

use super::cell::Cell;
use crate::{any_object::AnyObject, key::ObjectKey};

/// A set of objects with unique namespace and name. Costs a pointer and a byte per slot.
pub(super) struct Table<K: ?Sized> {
    objects: HashTable<Arc<Cell<K>>>,
    hasher: DefaultHashBuilder,
}

/// Slots of a [`Table`] that have been seen. Valid until something is inserted.
pub(super) struct SeenSlots {
    bits: Vec<u64>,
}

/// Returns the namespace and name of an object; empty if absent.
pub(super) fn key_of(meta: &ObjectMeta) -> (&str, &str) {
    (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// Returns namespace and name of a key in the same form.
pub(super) fn parts(key: &ObjectKey) -> (&str, &str) {
    (key.namespace().unwrap_or_default(), key.name())
}

impl<K: ?Sized> Default for Table<K> {
    fn default() -> Self {
        Self { objects: HashTable::new(), hasher: DefaultHashBuilder::default() }
    }
}

impl<K: AnyObject + ?Sized> Table<K> {
    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Cell<K>>> {
        self.objects.iter()
    }

    pub(super) fn get(&self, key: (&str, &str)) -> Option<&Arc<Cell<K>>> {
        self.objects.find(self.hasher.hash_one(key), |object| object.has_key(key))
    }

    /// Inserts an object, and returns the previous one.
    pub(super) fn insert(&mut self, object: Arc<Cell<K>>) -> Option<Arc<Cell<K>>> {
        let Self { objects, hasher } = self;
        // A copy, as an object that is already in the table must not be locked twice.
        let key = object.key();
        let key = parts(&key);
        let entry = objects.entry(hasher.hash_one(key), |other| other.has_key(key), |other| hash(hasher, other));
        match entry {
            Entry::Occupied(mut entry) => Some(mem::replace(entry.get_mut(), object)),
            Entry::Vacant(entry) => {
                entry.insert(object);
                None
            }
        }
    }

    pub(super) fn remove(&mut self, key: (&str, &str)) -> Option<Arc<Cell<K>>> {
        let hash = self.hasher.hash_one(key);
        let entry = self.objects.find_entry(hash, |object| object.has_key(key)).ok()?;
        Some(entry.remove().0)
    }

    /// Removes all objects, and releases the memory.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Arc<Cell<K>>> + use<K> {
        mem::take(&mut self.objects).into_iter()
    }

    /// Reserves space for exactly this many more objects.
    pub(super) fn reserve(&mut self, additional: usize) {
        let Self { objects, hasher } = self;
        objects.reserve(additional, |object| hash(hasher, object));
    }

    /// Releases memory if most of it is unused.
    pub(super) fn shrink(&mut self) {
        let Self { objects, hasher } = self;
        if objects.capacity() / 4 > objects.len() {
            objects.shrink_to_fit(|object| hash(hasher, object));
        }
    }

    /// Returns the slot of an object, and the object.
    pub(super) fn slot(&mut self, key: (&str, &str)) -> Option<(usize, &mut Arc<Cell<K>>)> {
        let index = self.objects.find_bucket_index(self.hasher.hash_one(key), |object| object.has_key(key))?;
        Some((index, self.objects.get_bucket_mut(index)?))
    }

    /// Returns marks for the current slots.
    pub(super) fn marks(&self) -> SeenSlots {
        SeenSlots { bits: vec![0; self.objects.num_buckets().div_ceil(64)] }
    }

    /// Returns the objects in unmarked slots.
    pub(super) fn unmarked<'a>(&'a self, marks: &'a SeenSlots) -> impl Iterator<Item = &'a Arc<Cell<K>>> {
        self.objects
            .iter_buckets()
            .filter(|index| !marks.is_set(*index))
            .filter_map(|index| self.objects.get_bucket(index))
    }

    /// Returns the objects in some slots, and whether there are later slots.
    pub(super) fn slots(&self, slots: Range<usize>) -> (Vec<Arc<Cell<K>>>, bool) {
        let (all, end) = (self.objects.num_buckets(), slots.end);
        let found = (slots.start..end.min(all)).filter_map(|slot| self.objects.get_bucket(slot)).cloned();
        (found.collect(), end < all)
    }
}

fn hash<K: AnyObject + ?Sized>(hasher: &DefaultHashBuilder, object: &Cell<K>) -> u64 {
    object.brief(|brief| hasher.hash_one(brief.key))
}

impl SeenSlots {
    pub(super) fn set(&mut self, slot: usize) {
        self.bits[slot / 64] |= 1 << (slot % 64);
    }

    fn is_set(&self, slot: usize) -> bool {
        self.bits[slot / 64] & (1 << (slot % 64)) != 0
    }
}
