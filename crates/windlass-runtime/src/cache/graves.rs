//! Objects that this process has deleted, while the watch may still bring states from before.

use std::{collections::VecDeque, sync::Arc};

use hashbrown::HashMap;

/// How many are remembered at most, the oldest forgotten first. What is lost with one is little: a late state of its
/// object would be shown until the watch brings its end.
const MOST: usize = 8 * 1024;

/// The uids of deleted objects.
#[derive(Default)]
pub(super) struct Graves {
    /// The last revision that was known of each.
    uids: HashMap<Arc<str>, u64>,
    /// In order of arrival; some may be gone from `uids` already.
    order: VecDeque<Arc<str>>,
}

impl Graves {
    pub(super) fn insert(&mut self, uid: &str, known: u64) {
        let uid: Arc<str> = uid.into();
        if self.uids.insert(uid.clone(), known).is_none() {
            self.order.push_back(uid);
        }
        while self.order.len() > MOST {
            if let Some(oldest) = self.order.pop_front() {
                self.uids.remove(&oldest);
            }
        }
    }

    pub(super) fn contains(&self, uid: Option<&str>) -> bool {
        !self.uids.is_empty() && uid.is_some_and(|uid| self.uids.contains_key(uid))
    }

    /// The watch has brought an end of one at a revision; whether it is here. It stays: the end may be that it left the
    /// scope, and states of when it was back may follow. A later list lets it go.
    pub(super) fn ended(&mut self, uid: Option<&str>, revision: u64) -> bool {
        match uid.and_then(|uid| self.uids.get_mut(uid)) {
            Some(known) => {
                *known = revision;
                true
            }
            None => false,
        }
    }

    /// Keeps those that a list of that revision still had, and those that are younger than the list.
    pub(super) fn listed(&mut self, revision: u64, mut has: impl FnMut(&str) -> bool) {
        self.uids.retain(|uid, known| *known > revision || has(uid));
        let uids = &self.uids;
        self.order.retain(|uid| uids.contains_key(uid));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.uids.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_when_there_are_too_many() {
        let mut graves = Graves::default();
        for number in 0..=MOST {
            graves.insert(&number.to_string(), 1);
        }
        assert!(!graves.contains(Some("0")));
        assert!(graves.contains(Some("1")) && graves.contains(Some(&MOST.to_string())));
        assert_eq!((graves.uids.len(), graves.order.len()), (MOST, MOST));
    }
}
