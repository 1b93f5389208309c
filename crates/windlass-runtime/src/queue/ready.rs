//! Ready slots: a first-in-first-out list per priority.
//!
//! Lists are linked through an array indexed by slot, so that a slot can leave the middle of its list. The cost of
//! push, remove and pop does not depend on the number of slots; few priorities are expected.

use super::{Priority, slots::Slot};

/// Every 16th key is the one that has waited longest, regardless of its priority.
pub(super) const FAIR_TURN: u32 = 16;

const NONE: Slot = Slot::MAX;

#[derive(Default)]
pub(super) struct Ready {
    /// Non-empty levels, highest priority first.
    levels: Vec<Level>,
    links: Vec<Link>,
    len: usize,
    /// Number of pushes.
    pushes: u64,
    /// Slots taken since the last one that was taken because of its age.
    turn: u32,
}

struct Level {
    priority: Priority,
    head: Slot,
    tail: Slot,
    len: usize,
}

#[derive(Clone, Copy)]
struct Link {
    before: Slot,
    after: Slot,
    /// Sequence number of its push: a lower one has waited longer.
    push: u64,
}

impl Ready {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of slots per priority.
    pub(super) fn depths(&self) -> impl Iterator<Item = (Priority, usize)> {
        self.levels.iter().map(|level| (level.priority, level.len))
    }

    /// Adds a slot behind all others of its priority. It must not be present.
    pub(super) fn push(&mut self, slot: Slot, priority: Priority) {
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, Link { before: NONE, after: NONE, push: 0 });
        }
        let at = match self.levels.binary_search_by(|level| priority.cmp(&level.priority)) {
            Ok(at) => at,
            Err(at) => {
                self.levels.insert(at, Level { priority, head: NONE, tail: NONE, len: 0 });
                at
            }
        };
        let level = &mut self.levels[at];
        self.links[slot as usize] = Link { before: level.tail, after: NONE, push: self.pushes };
        match level.tail {
            NONE => level.head = slot,
            tail => self.links[tail as usize].after = slot,
        }
        level.tail = slot;
        level.len += 1;
        self.len += 1;
        self.pushes += 1;
    }

    /// Removes a slot from the list of its priority, which must contain it.
    pub(super) fn remove(&mut self, slot: Slot, priority: Priority) {
        let at = self.levels.binary_search_by(|level| priority.cmp(&level.priority));
        let at = at.expect("a waiting slot is in the list of its priority");
        let Link { before, after, .. } = self.links[slot as usize];
        let level = &mut self.levels[at];
        match before {
            NONE => level.head = after,
            before => self.links[before as usize].after = after,
        }
        match after {
            NONE => level.tail = before,
            after => self.links[after as usize].before = before,
        }
        level.len -= 1;
        self.len -= 1;
        if level.len == 0 {
            self.levels.remove(at);
        }
    }

    /// Takes the next slot: the first of the highest priority, or every [`FAIR_TURN`]th time the oldest of all.
    pub(super) fn pop(&mut self) -> Option<Slot> {
        let mut level = self.levels.first()?;
        self.turn += 1;
        if self.turn >= FAIR_TURN {
            self.turn = 0;
            let oldest = self.levels.iter().min_by_key(|level| self.links[level.head as usize].push);
            level = oldest.expect("a non-empty list has a level");
        }
        let (slot, priority) = (level.head, level.priority);
        self.remove(slot, priority);
        Some(slot)
    }

    /// Takes all slots.
    pub(super) fn clear(&mut self) -> Vec<Slot> {
        let mut slots = Vec::with_capacity(self.len);
        for level in self.levels.drain(..) {
            let mut slot = level.head;
            while slot != NONE {
                slots.push(slot);
                slot = self.links[slot as usize].after;
            }
        }
        self.len = 0;
        slots
    }

    /// Releases memory. Must be empty.
    pub(super) fn shrink(&mut self) {
        debug_assert_eq!(self.len, 0, "only an empty list may shrink");
        self.links = Vec::new();
    }
}
