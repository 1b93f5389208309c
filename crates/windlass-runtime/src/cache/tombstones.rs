//! UIDs of objects that this process has deleted while the watch may still deliver earlier states.

use std::{collections::VecDeque, sync::Arc};

use hashbrown::HashSet;

/// Maximum number of tombstones; the oldest is dropped first. Losing one does little harm: a late state of its object
/// would be visible until the watch delivers its deletion.
const MAX_TOMBSTONES: usize = 8 * 1024;

/// The UIDs of deleted objects, which are never reused. A list without an object does not mean that the watch is past
/// it: it may have been out of scope, and states from when it was back may follow. So tombstones are dropped only by
/// age.
#[derive(Default)]
pub(super) struct Tombstones {
    uids: HashSet<Arc<str>>,
    /// In order of insertion.
    order: VecDeque<Arc<str>>,
}

impl Tombstones {
    pub(super) fn insert(&mut self, uid: &str) {
        let uid: Arc<str> = uid.into();
        if self.uids.insert(uid.clone()) {
            self.order.push_back(uid);
        }
        if self.order.len() > MAX_TOMBSTONES
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
        for number in 0..=MAX_TOMBSTONES {
            tombstones.insert(&number.to_string());
        }
        assert!(!tombstones.contains(Some("0")));
        assert!(tombstones.contains(Some("1")) && tombstones.contains(Some(&MAX_TOMBSTONES.to_string())));
        assert_eq!((tombstones.uids.len(), tombstones.order.len()), (MAX_TOMBSTONES, MAX_TOMBSTONES));
    }
}
