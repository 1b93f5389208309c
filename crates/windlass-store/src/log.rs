//! In-memory log of the newest events, which every watch reads with its own cursor.
//!
//! There is one log instead of a channel per watch: a slow watch costs nothing, and a watch that has fallen behind the
//! retained history finds out when it reads. Keys and values are shared with their other holders, not copied.

use std::collections::VecDeque;

use crate::{Event, Revision};

/// Number of events that one read examines; bounds the time that a watch holds the lock.
const READ_AT_MOST: usize = 1024;

/// A watch without events in its prefix receives a progress report after this many revisions.
pub(crate) const PROGRESS_EVERY: u64 = 1024;

/// Approximate memory cost of an event in addition to its key and value.
const EVENT_OVERHEAD: usize = 64;

/// Limits of the history kept in memory. The limit reached first applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Maximum number of events.
    pub events: usize,
    /// Maximum size of keys and values in bytes.
    pub bytes: usize,
}

/// Consecutive events, oldest first, without gaps in their revisions.
#[derive(Debug)]
pub(crate) struct EventLog {
    events: VecDeque<Event>,
    bytes: usize,
    retention: Retention,
}

/// Result of a read: the events of the prefix, and the last revision examined.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) events: Vec<Event>,
    pub(crate) through: Revision,
}

impl EventLog {
    pub(crate) fn new(retention: Retention) -> Self {
        Self { events: VecDeque::new(), bytes: 0, retention }
    }

    /// Appends the event that follows the last one.
    pub(crate) fn push(&mut self, event: Event) {
        debug_assert!(self.events.back().is_none_or(|last| last.revision.0 + 1 == event.revision.0));
        self.bytes += cost(&event);
        self.events.push_back(event);
    }

    /// Removes the oldest event if the log exceeds the retention. The newest event is always kept.
    pub(crate) fn pop_excess(&mut self) -> Option<Event> {
        let excess = self.events.len() > self.retention.events || self.bytes > self.retention.bytes;
        if excess && self.events.len() > 1 { self.pop() } else { None }
    }

    /// Removes the oldest event if it is not later than `revision`.
    pub(crate) fn pop_through(&mut self, revision: Revision) -> Option<Event> {
        if self.oldest()? <= revision { self.pop() } else { None }
    }

    fn pop(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.bytes -= cost(&event);
        Some(event)
    }

    /// Returns the revision of the oldest event in the log.
    pub(crate) fn oldest(&self) -> Option<Revision> {
        self.events.front().map(|event| event.revision)
    }

    /// Returns the event of a revision, if it is in the log.
    pub(crate) fn get(&self, revision: Revision) -> Option<&Event> {
        let index = revision.0.checked_sub(self.oldest()?.0)?;
        self.events.get(usize::try_from(index).ok()?)
    }

    /// Reads events of the prefix in order, starting after a revision that is not older than the log. May return only
    /// some of them.
    pub(crate) fn read(&self, after: Revision, prefix: &str) -> Scan {
        let mut scan = Scan { events: Vec::new(), through: after };
        let Some(oldest) = self.oldest() else { return scan };
        debug_assert!(oldest.0 <= after.0 + 1, "a read must start within the log");
        let skip = usize::try_from((after.0 + 1).saturating_sub(oldest.0)).unwrap_or(usize::MAX);
        let end = self.events.len().min(skip.saturating_add(READ_AT_MOST));
        for event in self.events.range(skip.min(end)..end) {
            scan.through = event.revision;
            if event.key.starts_with(prefix) {
                scan.events.push(event.clone());
            }
        }
        scan
    }
}

fn cost(event: &Event) -> usize {
    EVENT_OVERHEAD + event.key.len() + event.value.as_ref().map_or(0, bytes::Bytes::len)
}
