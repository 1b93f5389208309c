//! A least-recently-used map.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// A bounded map; the least recently used value makes room.
#[derive(Debug)]
pub(super) struct Recent<V> {
    capacity: usize,
    values: HashMap<Arc<str>, (u64, V)>,
    order: BTreeMap<u64, Arc<str>>,
    uses: u64,
}

impl<V> Recent<V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), values: HashMap::new(), order: BTreeMap::new(), uses: 0 }
    }

    /// Returns a value, and marks it as used.
    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut V> {
        let (used, value) = self.values.get_mut(key)?;
        let key = self.order.remove(used).expect("each value has a place in the order");
        self.uses += 1;
        *used = self.uses;
        self.order.insert(self.uses, key);
        Some(value)
    }

    /// Returns a value, without marking it as used.
    pub(super) fn peek_mut(&mut self, key: &str) -> Option<&mut V> {
        self.values.get_mut(key).map(|(_, value)| value)
    }

    /// Adds a value, whose key must be new. Returns the value that made room.
    pub(super) fn insert(&mut self, key: Arc<str>, value: V) -> Option<V> {
        let evicted = match self.values.len() >= self.capacity {
            true => self.order.pop_first().and_then(|(_, oldest)| self.remove(&oldest)),
            false => None,
        };
        self.uses += 1;
        self.order.insert(self.uses, key.clone());
        self.values.insert(key, (self.uses, value));
        evicted
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<V> {
        let (used, value) = self.values.remove(key)?;
        self.order.remove(&used);
        Some(value)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&Arc<str>, &mut V)> {
        self.values.iter_mut().map(|(key, (_, value))| (key, value))
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&V) -> bool) {
        let order = &mut self.order;
        self.values.retain(|_, (used, value)| {
            let keeps = keep(value);
            if !keeps {
                order.remove(used);
            }
            keeps
        });
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.values.len(), self.order.len());
        self.values.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_value_makes_room() {
        let mut recent = Recent::new(2);
        assert_eq!(recent.insert("a".into(), 1), None);
        assert_eq!(recent.insert("b".into(), 2), None);
        assert_eq!(recent.get_mut("a"), Some(&mut 1));
        assert_eq!(recent.insert("c".into(), 3), Some(2));
        assert_eq!(recent.peek_mut("b"), None);
        recent.retain(|value| *value == 3);
        assert_eq!(recent.len(), 1);
        assert_eq!(recent.remove("c"), Some(3));
        assert_eq!(recent.len(), 0);
    }
}
