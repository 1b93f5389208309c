//! The current time, which tests can make virtual.
//!
//! Every part of Windlass that records a time, or compares the current time with a timestamp in an object, calls
//! [`now`]. It returns the system time, except in a tokio runtime whose time is [virtual](virtual_time): there it
//! advances with tokio's clock. While that clock is paused, a sleep of a day takes no real time, and every component
//! agrees that a day has passed.
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

/// The same moment as a timestamp and on tokio's clock.
#[derive(Clone, Copy)]
struct Anchor {
    timestamp: Timestamp,
    instant: Instant,
    /// Number of live guards.
    guards: usize,
}

static VIRTUAL: LazyLock<RwLock<HashMap<Id, Anchor>>> = LazyLock::new(Default::default);
/// Number of runtimes in `VIRTUAL`; programs without any need no lock.
static RUNTIMES: AtomicUsize = AtomicUsize::new(0);

/// Returns whether the time of the current runtime is [virtual](virtual_time).
pub fn is_virtual() -> bool {
    let runtime = || Handle::try_current().ok().map(|runtime| runtime.id());
    RUNTIMES.load(Ordering::Acquire) > 0 && runtime().is_some_and(|runtime| VIRTUAL.read().contains_key(&runtime))
}

/// Returns the current time.
pub fn now() -> Timestamp {
    if RUNTIMES.load(Ordering::Acquire) == 0 {
        return Timestamp::now();
    }
    let Ok(runtime) = Handle::try_current() else { return Timestamp::now() };
    let anchor = VIRTUAL.read().get(&runtime.id()).copied();
    match anchor {
        Some(Anchor { timestamp, instant, .. }) => {
            let passed = SignedDuration::try_from(Instant::now().saturating_duration_since(instant));
            passed.ok().and_then(|passed| timestamp.checked_add(passed).ok()).unwrap_or(Timestamp::MAX)
        }
        None => Timestamp::now(),
    }
}

/// Returns the current time in whole seconds, the precision of timestamps in the API.
pub fn now_in_seconds() -> Timestamp {
    Timestamp::from_second(now().as_second()).expect("whole seconds of a timestamp must be a timestamp")
}

/// Makes [`now`] follow tokio's clock in the current runtime until the last guard for that runtime is dropped.
///
/// # Panics
///
/// Panics outside of a tokio runtime.
pub fn virtual_time() -> VirtualTime {
    let runtime = Handle::current().id();
    let mut anchors = VIRTUAL.write();
    let anchor = anchors.entry(runtime).or_insert_with(|| {
        RUNTIMES.fetch_add(1, Ordering::AcqRel);
        Anchor { timestamp: Timestamp::now(), instant: Instant::now(), guards: 0 }
    });
    anchor.guards += 1;
    VirtualTime { runtime }
}

/// Guard that keeps the time of a runtime virtual. See [`virtual_time`].
#[derive(Debug)]
#[must_use = "the time is virtual only until the guard is dropped"]
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
    async fn a_day_passes_at_once_until_the_last_guard_is_dropped() {
        let (first, second) = (virtual_time(), virtual_time());
        let before = now();
        tokio::time::sleep(DAY).await;
        drop(first);
        assert!(now().duration_since(before) >= SignedDuration::from_hours(24));
        drop(second);
        assert!(now().duration_since(before) < SignedDuration::from_hours(1));
    }

    #[tokio::test(start_paused = true)]
    async fn other_runtimes_use_the_system_time() {
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
