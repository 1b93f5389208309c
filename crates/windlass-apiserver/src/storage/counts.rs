//! The number of objects in each namespace, so that the first page of a list can report it without visiting them.

use std::collections::HashMap;

/// Numbers of objects of a resource.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    total: usize,
    /// Namespaces that have objects. Empty for cluster-scoped resources.
    namespaces: HashMap<Box<str>, usize>,
}

impl Counts {
    /// Counts keys (`namespace/name`, or `name`).
    pub(super) fn of<'a>(keys: impl Iterator<Item = &'a str>) -> Self {
        let mut counts = Self::default();
        keys.for_each(|key| counts.add(key));
        counts
    }

    /// Counts a key that was added.
    pub(super) fn add(&mut self, key: &str) {
        self.total += 1;
        let Some((namespace, _)) = key.split_once('/') else { return };
        match self.namespaces.get_mut(namespace) {
            Some(count) => *count += 1,
            None => {
                self.namespaces.insert(namespace.into(), 1);
            }
        }
    }

    /// Counts a key that was removed.
    pub(super) fn remove(&mut self, key: &str) {
        self.total -= 1;
        let Some((namespace, _)) = key.split_once('/') else { return };
        if let Some(count) = self.namespaces.get_mut(namespace) {
            *count -= 1;
            if *count == 0 {
                self.namespaces.remove(namespace);
            }
        }
    }

    /// Returns the number of keys with a prefix: `namespace/`, or empty.
    pub(super) fn below(&self, prefix: &str) -> usize {
        match prefix.strip_suffix('/') {
            Some(namespace) => self.namespaces.get(namespace).copied().unwrap_or_default(),
            None => self.total,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_by_namespace() {
        let mut counts = Counts::of(["a/x", "a/y", "b/x"].into_iter());
        let below = |counts: &Counts| ["", "a/", "b/", "c/"].map(|prefix| counts.below(prefix));
        assert_eq!(below(&counts), [3, 2, 1, 0]);
        counts.remove("b/x");
        counts.add("c/x");
        assert_eq!(below(&counts), [3, 2, 0, 1]);
        assert_eq!(counts, Counts::of(["c/x", "a/y", "a/x"].into_iter()), "empty namespaces are forgotten");
    }
}
