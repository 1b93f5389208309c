//! In-memory index of the versions of every key: which version is current, and which was current at an earlier
//! revision.
//!
//! Both backends decide compare-and-swap writes and serve lists from this index. They differ only in the data that a
//! version carries (`T`): the value itself in the memory store; its size in the embedded store, which looks values up by
//! revision.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Included, Unbounded},
    sync::Arc,
};

use bytes::Bytes;

use crate::{Error, ListOptions, Revision};

/// A write operation and its precondition on the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// The key must not exist.
    Create,
    /// The last write of the key must have this revision.
    Update(Revision),
    /// The last write of the key must have this revision; afterwards the key does not exist.
    Delete(Revision),
    /// The last write of the key must have this revision. It gets a last value, and then does not exist.
    UpdateAndDelete(Revision),
}

impl Operation {
    /// Checks the precondition against the current revision of the key (`None`: the key does not exist).
    pub(crate) fn admit(self, key: &str, current: Option<Revision>) -> Result<(), Error> {
        let expected = match self {
            Self::Create => None,
            Self::Update(expected) | Self::Delete(expected) | Self::UpdateAndDelete(expected) => Some(expected),
        };
        match (expected, current) {
            (None, None) => Ok(()),
            (None, Some(_)) => Err(Error::Exists { key: key.to_owned() }),
            (Some(_), None) => Err(Error::NotFound { key: key.to_owned() }),
            (Some(expected), Some(actual)) if expected == actual => Ok(()),
            (Some(expected), Some(actual)) => Err(Error::Conflict { key: key.to_owned(), expected, actual }),
        }
    }

    /// Returns the values that the key gets one after the other, each with a revision of its own.
    pub(crate) fn values(self, value: Option<Bytes>) -> impl Iterator<Item = Option<Bytes>> {
        let deletion = matches!(self, Self::UpdateAndDelete(_)).then_some(None);
        std::iter::once(value).chain(deletion)
    }
}

/// One write of a key; `value` is `None` if the write deleted the key.
#[derive(Debug, Clone)]
pub(crate) struct Version<T> {
    pub(crate) revision: Revision,
    pub(crate) value: Option<T>,
}

/// Keys that exist at one revision, as collected by a list.
#[derive(Debug)]
pub(crate) struct Listed<T> {
    pub(crate) entries: Vec<(Arc<str>, Revision, T)>,
    pub(crate) remaining: usize,
}

/// Versions of one key, oldest first; most keys have only the newest.
#[derive(Debug)]
struct Chain<T> {
    older: Vec<Version<T>>,
    newest: Version<T>,
}

impl<T> Chain<T> {
    fn at(&self, at: Revision) -> Option<&Version<T>> {
        if self.newest.revision <= at {
            return Some(&self.newest);
        }
        self.older.iter().rev().find(|version| version.revision <= at)
    }
}

/// The version chains of all keys, in key order.
#[derive(Debug)]
pub(crate) struct History<T> {
    chains: BTreeMap<Arc<str>, Chain<T>>,
}

impl<T> Default for History<T> {
    fn default() -> Self {
        Self { chains: BTreeMap::new() }
    }
}

impl<T> History<T> {
    /// Builds the index of writes in revision order.
    pub(crate) fn of(mut writes: Vec<(Arc<str>, Version<T>)>) -> Self {
        // A stable sort keeps the writes of a key in their order. A tree is built much faster from keys in order than one
        // key after the other.
        writes.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut chains: Vec<(Arc<str>, Chain<T>)> = Vec::new();
        for (key, version) in writes {
            match chains.last_mut() {
                Some((last, chain)) if *last == key => {
                    let previous = std::mem::replace(&mut chain.newest, version);
                    chain.older.push(previous);
                }
                _ => chains.push((key, Chain { older: Vec::new(), newest: version })),
            }
        }
        Self { chains: chains.into_iter().collect() }
    }
}

impl<T: Clone> History<T> {
    /// Returns the shared key and the newest version, unless that is a deletion.
    pub(crate) fn current(&self, key: &str) -> Option<(&Arc<str>, Revision, &T)> {
        let (key, chain) = self.chains.get_key_value(key)?;
        Some((key, chain.newest.revision, chain.newest.value.as_ref()?))
    }

    /// Returns the index's own copy of a known key, or a new one.
    pub(crate) fn share(&self, key: &str) -> Arc<str> {
        self.chains.get_key_value(key).map_or_else(|| Arc::from(key), |(key, _)| key.clone())
    }

    /// Records a write. Writes must be applied in revision order.
    pub(crate) fn apply(&mut self, key: &Arc<str>, version: Version<T>) {
        match self.chains.get_mut(key) {
            Some(chain) => {
                debug_assert!(chain.newest.revision < version.revision, "writes must be applied in order");
                let previous = std::mem::replace(&mut chain.newest, version);
                chain.older.push(previous);
            }
            None => {
                self.chains.insert(key.clone(), Chain { older: Vec::new(), newest: version });
            }
        }
    }

    /// Returns the newest version of every key that exists, in no particular order.
    pub(crate) fn newest(&self) -> impl Iterator<Item = (Revision, &Arc<str>)> {
        let existing = self.chains.iter().filter(|(_, chain)| chain.newest.value.is_some());
        existing.map(|(key, chain)| (chain.newest.revision, key))
    }

    /// Lists the keys that exist at a revision.
    pub(crate) fn list(&self, options: &ListOptions, at: Revision) -> Listed<T> {
        let prefix = options.prefix.as_str();
        let from = match options.after.as_deref() {
            Some(after) if after >= prefix => Excluded(after),
            _ => Included(prefix),
        };
        let limit = options.limit.unwrap_or(usize::MAX);
        let mut listed = Listed { entries: Vec::new(), remaining: 0 };
        for (key, chain) in self.chains.range::<str, _>((from, Unbounded)) {
            if !key.starts_with(prefix) {
                break;
            }
            let Some(Version { revision, value: Some(value) }) = chain.at(at) else { continue };
            if listed.entries.len() < limit {
                listed.entries.push((key.clone(), *revision, value.clone()));
            } else {
                listed.remaining += 1;
                if !options.count {
                    break;
                }
            }
        }
        listed
    }

    /// Removes the versions that the write of `key` at `revision` made obsolete: every older version of the key, and
    /// the write itself if it was a deletion. Calls `removed` with each removed version.
    ///
    /// Called for every write up to a revision, in order, this keeps the versions that a list at that revision or later
    /// needs.
    pub(crate) fn remove_before(&mut self, key: &str, revision: Revision, mut removed: impl FnMut(Version<T>)) {
        let Some(chain) = self.chains.get_mut(key) else { return };
        let mut end = chain.older.partition_point(|version| version.revision < revision);
        if chain.older.get(end).is_some_and(|version| version.revision == revision && version.value.is_none()) {
            end += 1;
        }
        for version in chain.older.drain(..end) {
            removed(version);
        }
        if chain.older.is_empty() {
            chain.older = Vec::new();
            let deleted = chain.newest.revision == revision && chain.newest.value.is_none();
            if deleted && let Some(chain) = self.chains.remove(key) {
                removed(chain.newest);
            }
        }
    }

    /// Number of versions kept, over all keys.
    #[cfg(test)]
    pub(crate) fn versions(&self) -> usize {
        self.chains.values().map(|chain| chain.older.len() + 1).sum()
    }
}

#[cfg(test)]
mod tests;
