//! Bugs that a run can have on purpose, to show that the checker finds them. They are in the client and in what happens
//! to the data directory, so the server contains none of them.

use std::{
    fs, io,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use clap::ValueEnum;

use super::history::{Call, ListKind, Outcome, WatchEvent};

/// Number of consistent lists after which one is replaced by the first of them.
const STALE_AFTER: u32 = 100;
/// Number of events after which a watch skips one.
const SKIPPED_AFTER: u32 = 100;

/// A bug of the server that a run imitates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SeededBug {
    /// One crash loses acknowledged writes: the data directory is set back by a moment
    AckBeforeFsync,
    /// One watch skips one event
    SkippedEvent,
    /// One consistent list is an earlier one
    StaleList,
}

/// The bugs of a history.
#[derive(Debug, Default)]
pub(super) struct SeededBugs {
    bug: Option<SeededBug>,
    lists: AtomicU32,
    events: AtomicU32,
    first_list: Mutex<Option<Outcome>>,
}

impl SeededBugs {
    pub(super) fn new(bug: Option<SeededBug>) -> Self {
        Self { bug, ..Self::default() }
    }

    /// Returns the outcome of a request as reported to the client.
    pub(super) fn list(&self, call: Call, outcome: Outcome) -> Outcome {
        let is_list = call == Call::List(ListKind::Consistent) && matches!(outcome, Outcome::Listed { .. });
        if self.bug != Some(SeededBug::StaleList) || !is_list {
            return outcome;
        }
        let mut first = self.first_list.lock().unwrap_or_else(PoisonError::into_inner);
        match self.lists.fetch_add(1, Ordering::Relaxed) {
            STALE_AFTER => first.take().unwrap_or(outcome),
            0 => first.insert(outcome).clone(),
            _ => outcome,
        }
    }

    /// Returns whether a watch delivers an event.
    pub(super) fn delivers(&self, _: &WatchEvent) -> bool {
        self.bug != Some(SeededBug::SkippedEvent) || self.events.fetch_add(1, Ordering::Relaxed) != SKIPPED_AFTER
    }

    /// Returns whether crashes lose acknowledged writes.
    pub(super) fn loses_writes(&self) -> bool {
        self.bug == Some(SeededBug::AckBeforeFsync)
    }
}

/// Copies a directory with everything in it.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&entry.path(), &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(revision: u64) -> Outcome {
        Outcome::Listed { revision, items: Vec::new() }
    }

    #[test]
    fn one_consistent_list_is_replaced_by_the_first_one() {
        let call = Call::List(ListKind::Consistent);
        let told = |bug: Option<SeededBug>| {
            let bugs = SeededBugs::new(bug);
            (0..300).filter(|revision| bugs.list(call, listed(*revision)) != listed(*revision)).collect::<Vec<_>>()
        };
        assert_eq!(told(Some(SeededBug::StaleList)), [u64::from(STALE_AFTER)]);
        assert!(told(None).is_empty() && told(Some(SeededBug::SkippedEvent)).is_empty());
    }
}
