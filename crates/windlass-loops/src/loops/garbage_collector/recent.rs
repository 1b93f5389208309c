//! A bounded map of recent entries.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// A map that drops the oldest keys.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    values: HashMap<K, V>,
    order: VecDeque<K>,
    capacity: usize,
}

impl<K: Clone + Eq + Hash, V> Recent<K, V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { values: HashMap::new(), order: VecDeque::new(), capacity }
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.values.insert(key.clone(), value).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > self.capacity
            && let Some(oldest) = self.order.pop_front()
        {
            self.values.remove(&oldest);
        }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.values.get(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entries_are_dropped() {
        let mut recent = Recent::new(2);
        for key in [1, 2, 1, 3] {
            recent.insert(key, ());
        }
        assert_eq!([1, 2, 3].map(|key| recent.get(&key).is_some()), [false, true, true]);
        assert_eq!((recent.values.len(), recent.order.len()), (2, 2));
    }
}
