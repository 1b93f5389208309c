//! Keys and their values, found by key or by slot.
//!
//! A key is stored once and hashed once while it is present. Slots are small numbers, reused after a removal, so that
//! other structures can be plain arrays.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashTable};

/// Position of a key. Valid until the key is removed.
pub(super) type Slot = u32;

pub(super) struct Slots<T, V> {
    entries: Vec<Option<Entry<T, V>>>,
    free: Vec<Slot>,
    by_key: HashTable<Slot>,
    hasher: DefaultHashBuilder,
}

struct Entry<T, V> {
    key: T,
    hash: u64,
    value: V,
}

impl<T: Eq + Hash, V> Slots<T, V> {
    pub(super) fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new(), by_key: HashTable::new(), hasher: DefaultHashBuilder::default() }
    }

    /// Returns the slot of a key. A new key gets `value`, and `true` is returned.
    pub(super) fn find_or_insert(&mut self, key: T, value: impl FnOnce() -> V) -> (Slot, bool) {
        let hash = self.hasher.hash_one(&key);
        let entries = &self.entries;
        if let Some(slot) = self.by_key.find(hash, |slot| entry(entries, *slot).key == key) {
            return (*slot, false);
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            Slot::try_from(self.entries.len() - 1).expect("a queue holds fewer than four billion keys")
        });
        self.entries[slot as usize] = Some(Entry { key, hash, value: value() });
        let entries = &self.entries;
        self.by_key.insert_unique(hash, slot, |slot| entry(entries, *slot).hash);
        (slot, true)
    }

    pub(super) fn key(&self, slot: Slot) -> &T {
        &entry(&self.entries, slot).key
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut V {
        &mut self.entries[slot as usize].as_mut().expect("a slot in use holds a key").value
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        let Entry { hash, .. } = self.entries[slot as usize].take().expect("a slot in use holds a key");
        let found = self.by_key.find_entry(hash, |other| *other == slot);
        found.expect("a key in a slot can be found").remove();
        self.free.push(slot);
    }

    /// Releases the memory of a burst of keys once all of them are removed.
    pub(super) fn shrink_if_empty(&mut self) -> bool {
        const KEEP: usize = 4096;
        let shrinks = self.by_key.is_empty() && self.entries.capacity() > KEEP;
        if shrinks {
            (self.entries, self.free, self.by_key) = (Vec::new(), Vec::new(), HashTable::new());
        }
        shrinks
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }
}

fn entry<T, V>(entries: &[Option<Entry<T, V>>], slot: Slot) -> &Entry<T, V> {
    entries[slot as usize].as_ref().expect("a slot in use holds a key")
}
