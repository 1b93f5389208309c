//! The time of day, which a test may let run ahead.
//!
//! Everything of Windlass that writes down a time or compares one with an object's asks [`now`]. That is the system's
//! time, except in a tokio runtime whose time was made [virtual](virtual_time): there the time of day moves with tokio's
//! clock. With that clock paused, a sleep of a day takes no time, and everybody agrees that a day has passed.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
//! use std::time::Duration;
//!
//! let _time = windlass_clock::virtual_time();
//! let before = windlass_clock::now();
//! tokio::time::sleep(Duration::from_secs(86_400)).await;
//! assert_eq!(windlass_clock::now().as_second() - before.as_second(), 86_400);
//! # });
//! ```

use std::{
    collections::HashMap,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use tokio::{
    runtime::{Handle, Id},
    time::Instant,
};

/// Two moments that are the same: of the day, and of tokio's clock.
#[derive(Clone, Copy)]
struct Anchor {
    day: Timestamp,
    instant: Instant,
    /// How many have asked for it.
    guards: usize,
}

static VIRTUAL: LazyLock<RwLock<HashMap<Id, Anchor>>> = LazyLock::new(Default::default);
/// How many runtimes there are in `VIRTUAL`: programs that have none need no lock.
static RUNTIMES: AtomicUsize = AtomicUsize::new(0);

/// Whether the time of this runtime is [virtual](virtual_time).
pub fn is_virtual() -> bool {
    let runtime = || Handle::try_current().ok().map(|runtime| runtime.id());
    RUNTIMES.load(Ordering::Acquire) > 0 && runtime().is_some_and(|runtime| VIRTUAL.read().contains_key(&runtime))
}

/// The time of day.
pub fn now() -> Timestamp {
    if RUNTIMES.load(Ordering::Acquire) == 0 {
        return Timestamp::now();
    }
    let Ok(runtime) = Handle::try_current() else { return Timestamp::now() };
    let anchor = VIRTUAL.read().get(&runtime.id()).copied();
    match anchor {
        Some(Anchor { day, instant, .. }) => {
            let passed = SignedDuration::try_from(Instant::now().saturating_duration_since(instant));
            passed.ok().and_then(|passed| day.checked_add(passed).ok()).unwrap_or(Timestamp::MAX)
        }
        None => Timestamp::now(),
    }
}

/// The time of day in whole seconds, as the API keeps it.
pub fn now_in_seconds() -> Timestamp {
    Timestamp::from_second(now().as_second()).expect("a second of a time must be a time")
}

/// Makes the time of day move with tokio's clock in the runtime that this is called in, until the last guard of that
/// runtime is dropped.
///
/// # Panics
///
/// Outside of a tokio runtime.
pub fn virtual_time() -> VirtualTime {
    let runtime = Handle::current().id();
    let mut anchors = VIRTUAL.write();
    let anchor = anchors.entry(runtime).or_insert_with(|| {
        RUNTIMES.fetch_add(1, Ordering::AcqRel);
        Anchor { day: Timestamp::now(), instant: Instant::now(), guards: 0 }
    });
    anchor.guards += 1;
    VirtualTime { runtime }
}

/// While it lives, the time of day of a runtime moves with tokio's clock. See [`virtual_time`].
#[derive(Debug)]
#[must_use = "the system's time is back when it is dropped"]
pub struct VirtualTime {
    runtime: Id,
}

impl Drop for VirtualTime {
    fn drop(&mut self) {
        let mut anchors = VIRTUAL.write();
        let Some(anchor) = anchors.get_mut(&self.runtime) else { return };
        anchor.guards -= 1;
        if anchor.guards == 0 {
            anchors.remove(&self.runtime);
            RUNTIMES.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    #[tokio::test(start_paused = true)]
    async fn a_day_passes_at_once_and_ends_with_the_last_guard() {
        let (first, second) = (virtual_time(), virtual_time());
        let before = now();
        tokio::time::sleep(DAY).await;
        drop(first);
        assert!(now().duration_since(before) >= SignedDuration::from_hours(24));
        drop(second);
        assert!(now().duration_since(before) < SignedDuration::from_hours(1));
    }

    #[tokio::test(start_paused = true)]
    async fn other_runtimes_keep_the_systems_time() {
        let _time = virtual_time();
        tokio::time::sleep(DAY).await;
        let elsewhere = std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            (now(), runtime.block_on(async { now() }))
        });
        let (outside, other) = elsewhere.join().unwrap();
        let ahead = now();
        assert!(ahead.duration_since(outside) >= SignedDuration::from_hours(23));
        assert!(ahead.duration_since(other) >= SignedDuration::from_hours(23));
    }
}
