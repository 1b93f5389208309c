//! Recovery from failed writes: the writer thread goes back to the last durable commit and opens the file again.
//!
//! The new database works on the same open storage as the failed one, which keeps the file locked and leaves the failed
//! one readable until the new one has taken over.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use super::{
    Failure, State,
    fence::Locks,
    layout::{self, Opened},
    writer::Writer,
};
use crate::{Error, log::EventLog};

/// Interval at which the thread looks for requests to reject, and checks whether the store has been dropped.
const STEP: Duration = Duration::from_millis(20);

/// Reasons why an attempt to recover did not succeed.
enum Refusal {
    /// There is still no space.
    Space(String),
    /// The storage still fails.
    Storage(String),
    /// The file has lost acknowledged writes.
    Fatal(String),
}

impl Writer {
    /// If writes have failed, attempts to recover until that succeeds, is abandoned, or the store is dropped.
    pub(super) fn recover_if_failed(&mut self) {
        let failed = self.shared.failure.borrow().clone();
        if failed.is_none_or(|failure| failure.permanent) {
            return;
        }
        let (retry, start) = (self.shared.options.retry, Instant::now());
        let mut pause = retry.first;
        while self.reject_for(pause) {
            self.shared.check_place();
            let file = self.shared.name.clone();
            let cause = match self.recover() {
                _ if self.shared.failure.borrow().as_ref().is_some_and(|failure| failure.permanent) => return,
                Ok(()) => {
                    tracing::info!(file, after = ?start.elapsed(), "the store accepts writes again");
                    return;
                }
                Err(Refusal::Fatal(cause)) => return self.shared.fail(Failure { cause, permanent: true }),
                Err(Refusal::Storage(cause)) if start.elapsed() >= retry.give_up_after => {
                    return self.shared.fail(Failure { cause, permanent: true });
                }
                Err(Refusal::Storage(cause) | Refusal::Space(cause)) => cause,
            };
            tracing::warn!(file, cause, "the store still rejects writes");
            pause = (pause * 2).min(retry.longest);
        }
    }

    /// Rejects requests for a while; returns false if the store has been dropped.
    fn reject_for(&mut self, pause: Duration) -> bool {
        let end = Instant::now() + pause;
        let mut requests = Vec::new();
        loop {
            self.take_waiting(&mut requests);
            self.serve(&mut requests);
            if self.queue.is_closed() {
                return false;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(STEP));
        }
    }

    fn recover(&mut self) -> Result<(), Refusal> {
        let storage = |error: Error| Refusal::Storage(error.to_string());
        self.health.restore(&*self.shared.backend).map_err(|failure| match failure.for_want_of_space {
            true => Refusal::Space(failure.cause),
            false => Refusal::Storage(failure.cause),
        })?;
        let (options, name) = (self.shared.options, self.shared.name.clone());
        let opened = layout::open(&self.shared.backend, Locks::Held, options.cache_bytes, &name).map_err(storage)?;
        let published = self.shared.state.lock().revision;
        if opened.revision < published {
            let found = opened.revision;
            return Err(Refusal::Fatal(format!("the file is at revision {found}, but {published} was acknowledged")));
        }
        self.take_over(opened);
        Ok(())
    }

    /// Replaces the failed database, once nothing reads it any more, and accepts writes again.
    fn take_over(&mut self, opened: Opened) {
        let Opened { database, health, history, in_use, revision, compacted, swept, snapshot } = opened;
        let (recent, snapshot) = (EventLog::new(self.shared.options.recent), Arc::new(snapshot));
        let state = State { history, recent, revision, compacted, in_use, snapshot };
        let (former, pins) = {
            let mut current = self.shared.state.lock();
            let former = std::mem::replace(&mut *current, state);
            (former.snapshot, std::mem::take(&mut *self.shared.pins.lock()))
        };
        drop(pins);
        // New commits may overwrite pages that the former snapshot uses.
        while Arc::strong_count(&former) > 1 {
            thread::sleep(Duration::from_millis(1));
        }
        drop(former);
        drop(std::mem::replace(&mut self.database, database));
        self.health = health;
        (self.swept, self.sweep_to) = (swept, compacted);
        self.notify.send_replace(revision);
        self.shared.failure.send_if_modified(|failure| {
            let recovered = failure.as_ref().is_some_and(|failure| !failure.permanent);
            if recovered {
                *failure = None;
            }
            recovered
        });
    }
}
