//! Space: the quota of the store, and the free space of the disk.

use std::time::{Duration, Instant};

use super::Shared;
use crate::{Error, history::Operation};

/// Minimum time between two looks at the free space of the disk.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// With less free space than this, the disk is nearly full.
const LOW: u64 = 256 << 20;
/// With less free space than this, the next writes may fail.
const CRITICAL: u64 = 32 << 20;

/// State of the warnings about space.
#[derive(Debug, Default)]
pub(super) struct Space {
    quota_reached: bool,
    looked: Option<Instant>,
    announced: Level,
}

/// Free space on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Level {
    #[default]
    Enough,
    Low,
    Critical,
}

impl Level {
    fn of(available: u64) -> Self {
        match available {
            ..CRITICAL => Self::Critical,
            CRITICAL..LOW => Self::Low,
            LOW.. => Self::Enough,
        }
    }
}

impl Space {
    /// Checks a write, after which the store would have the given size, against the quota.
    pub(super) fn admit(&mut self, operation: Operation, in_use: u64, quota: Option<u64>) -> Result<(), Error> {
        let Some(quota) = quota else { return Ok(()) };
        // Deletions free space, at the latest with the next compaction. Some follow updates of deletion timestamps and
        // finalizers.
        let limit = match operation {
            Operation::Create => quota,
            Operation::Update(_) => quota.saturating_add(quota / 10),
            Operation::Delete(_) | Operation::UpdateAndDelete(_) => u64::MAX,
        };
        let reached = in_use > limit;
        if reached && !self.quota_reached {
            tracing::warn!(in_use, quota, "the quota of the store is used up; delete objects, or raise the quota");
            self.quota_reached = true;
        }
        if in_use <= quota {
            self.quota_reached = false;
        }
        if reached { Err(Error::NoSpace) } else { Ok(()) }
    }

    /// Logs when the disk becomes nearly full, and when it no longer is. Checks only occasionally.
    pub(super) fn look(&mut self, shared: &Shared) {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return;
        }
        self.looked = Some(Instant::now());
        let size = shared.backend.len().unwrap_or(0);
        let Some(available) = shared.place.as_ref().and_then(|place| place.available(size)) else { return };
        let (before, now) = (self.announced, Level::of(available));
        self.announced = now;
        let file = shared.name.as_str();
        match now {
            Level::Critical if before < now => {
                tracing::error!(file, size, available, "the disk is full: writes are about to fail");
            }
            Level::Low if before < now => tracing::warn!(file, size, available, "the disk is nearly full"),
            Level::Enough if before > now => tracing::info!(file, size, available, "the disk has free space again"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Revision;

    #[test]
    fn creates_stop_at_the_quota_updates_a_tenth_later_and_deletes_never() {
        let mut space = Space::default();
        let (update, delete) = (Operation::Update(Revision(2)), Operation::Delete(Revision(2)));
        for (operation, in_use, admitted) in [
            (Operation::Create, 999, true),
            (Operation::Create, 1000, true),
            (Operation::Create, 1001, false),
            (update, 1001, true),
            (update, 1100, true),
            (update, 1101, false),
            (delete, u64::MAX, true),
        ] {
            let result = space.admit(operation, in_use, Some(1000));
            assert_eq!(result.is_ok(), admitted, "{operation:?} at {in_use}: {result:?}");
            assert!(space.admit(operation, in_use, None).is_ok());
        }
    }

    #[test]
    fn levels_of_free_space_start_below_their_limits() {
        assert_eq!(Level::of(LOW), Level::Enough);
        assert_eq!(Level::of(LOW - 1), Level::Low);
        assert_eq!(Level::of(CRITICAL), Level::Low);
        assert_eq!(Level::of(CRITICAL - 1), Level::Critical);
    }
}
