//! Objects by namespace and name, with no copy of either: the key of an entry is read from the object itself.

use std::{hash::BuildHasher, mem, sync::Arc};

use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};
use kube::Resource;

/// A set of objects of which each namespace and name has one. Costs a pointer and a byte per slot.
pub(super) struct Table<K> {
    objects: HashTable<Arc<K>>,
    hasher: DefaultHashBuilder,
}

/// Which slots of a [`Table`] have been seen. Valid until something is inserted.
pub(super) struct Marks {
    bits: Vec<u64>,
}

/// Namespace and name of an object; empty where it has none.
pub(super) fn key_of(object: &impl Resource) -> (&str, &str) {
    let meta = object.meta();
    (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self { objects: HashTable::new(), hasher: DefaultHashBuilder::default() }
    }
}

impl<K: Resource> Table<K> {
    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<K>> {
        self.objects.iter()
    }

    pub(super) fn get(&self, key: (&str, &str)) -> Option<&Arc<K>> {
        self.objects.find(self.hasher.hash_one(key), |object| key_of(&**object) == key)
    }

    /// Puts an object in its place, and gives what was there.
    pub(super) fn insert(&mut self, object: Arc<K>) -> Option<Arc<K>> {
        let Self { objects, hasher } = self;
        let key = key_of(&*object);
        let entry = objects.entry(
            hasher.hash_one(key),
            |other| key_of(&**other) == key,
            |other| hasher.hash_one(key_of(&**other)),
        );
        match entry {
            Entry::Occupied(mut entry) => Some(mem::replace(entry.get_mut(), object)),
            Entry::Vacant(entry) => {
                entry.insert(object);
                None
            }
        }
    }

    pub(super) fn remove(&mut self, key: (&str, &str)) -> Option<Arc<K>> {
        let hash = self.hasher.hash_one(key);
        let entry = self.objects.find_entry(hash, |object| key_of(&**object) == key).ok()?;
        Some(entry.remove().0)
    }

    /// Takes all objects, and the memory with them.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Arc<K>> + use<K> {
        mem::take(&mut self.objects).into_iter()
    }

    /// Room for that many more, exactly as much as is needed.
    pub(super) fn reserve(&mut self, additional: usize) {
        let Self { objects, hasher } = self;
        objects.reserve(additional, |object| hasher.hash_one(key_of(&**object)));
    }

    /// Gives memory back if most of it is unused.
    pub(super) fn shrink(&mut self) {
        let Self { objects, hasher } = self;
        if objects.capacity() / 4 > objects.len() {
            objects.shrink_to_fit(|object| hasher.hash_one(key_of(&**object)));
        }
    }

    /// The slot of an object, and the object.
    pub(super) fn slot(&mut self, key: (&str, &str)) -> Option<(usize, &mut Arc<K>)> {
        let index = self.objects.find_bucket_index(self.hasher.hash_one(key), |object| key_of(&**object) == key)?;
        Some((index, self.objects.get_bucket_mut(index)?))
    }

    /// Marks for the slots that there are now.
    pub(super) fn marks(&self) -> Marks {
        Marks { bits: vec![0; self.objects.num_buckets().div_ceil(64)] }
    }

    /// The objects in slots that have no mark.
    pub(super) fn unmarked<'a>(&'a self, marks: &'a Marks) -> impl Iterator<Item = &'a Arc<K>> {
        self.objects
            .iter_buckets()
            .filter(|index| !marks.is_set(*index))
            .filter_map(|index| self.objects.get_bucket(index))
    }
}

impl Marks {
    pub(super) fn set(&mut self, slot: usize) {
        self.bits[slot / 64] |= 1 << (slot % 64);
    }

    fn is_set(&self, slot: usize) -> bool {
        self.bits[slot / 64] & (1 << (slot % 64)) != 0
    }
}
