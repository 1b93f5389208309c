//! Objects that this process has deleted, while the watch may still bring states from before.

use std::{collections::VecDeque, sync::Arc};

use hashbrown::HashSet;

/// How many are remembered at most, the oldest forgotten first. What is lost with one is little: a late state of its
/// object would be shown until the watch brings its end.
const MOST: usize = 8 * 1024;

/// The uids of deleted objects, which no other object ever has. A list without one does not mean that the watch is past
/// it: it may have been out of scope, and states of when it was back may follow. So only time lets them go.
#[derive(Default)]
pub(super) struct Tombstones {
    uids: HashSet<Arc<str>>,
    /// In order of arrival.
    order: VecDeque<Arc<str>>,
}

impl Tombstones {
    pub(super) fn insert(&mut self, uid: &str) {
        let uid: Arc<str> = uid.into();
        if self.uids.insert(uid.clone()) {
            self.order.push_back(uid);
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }

    pub(super) fn contains(&self, uid: Option<&str>) -> bool {
        !self.uids.is_empty() && uid.is_some_and(|uid| self.uids.contains(uid))
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
        let mut tombstones = Tombstones::default();
        for number in 0..=MOST {
            tombstones.insert(&number.to_string());
        }
        assert!(!tombstones.contains(Some("0")));
        assert!(tombstones.contains(Some("1")) && tombstones.contains(Some(&MOST.to_string())));
        assert_eq!((tombstones.uids.len(), tombstones.order.len()), (MOST, MOST));
    }
}
