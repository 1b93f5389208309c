//! The queue of events before a backend: bounded in bytes and in number.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::{Counters, Mode, Plugin};

/// Treatment of an event for which a queue has no room, in a blocking mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnFull {
    /// The request waits for room.
    Wait,
    /// The event is dropped, because its request cannot wait.
    Drop,
}

/// The sending half of a queue.
#[derive(Clone)]
pub(super) struct Queue {
    sender: mpsc::UnboundedSender<Item>,
    bytes: Arc<Semaphore>,
    max_bytes: u32,
    events: Arc<Semaphore>,
    mode: Mode,
    counters: Arc<Counters>,
}

/// An element of a queue.
pub(super) enum Item {
    /// An event.
    Event(Queued),
    /// Answered when everything before it is written.
    Flush(oneshot::Sender<()>),
}

/// An event that waits to be written. Occupies its room until it is dropped.
pub(super) struct Queued {
    pub(super) text: Bytes,
    done: Option<oneshot::Sender<bool>>,
    _room: Room,
}

type Room = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Queued {
    /// Tells the request, if it waits, whether the event was written.
    pub(super) fn finish(self, written: bool) {
        if let Some(done) = self.done {
            // The request may be gone.
            let _ = done.send(written);
        }
    }
}

/// An event that was handed to all backends.
#[derive(Default)]
#[must_use = "in blocking modes, requests wait for their events"]
pub(super) struct Submitted(Vec<Waiting>);

/// An event for which a request waits.
struct Waiting {
    queue: Queue,
    state: WaitingFor,
    strict: bool,
}

enum WaitingFor {
    Room(Bytes),
    Written(oneshot::Receiver<bool>),
}

impl Submitted {
    pub(super) fn add(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Waits until the event is written. Returns `false` if it was not, and a backend insists on it.
    pub(super) async fn written(self) -> bool {
        let mut all = true;
        for waiting in self.0 {
            let written = match waiting.state {
                WaitingFor::Written(done) => done.await.unwrap_or(false),
                WaitingFor::Room(text) => waiting.queue.push_when_possible(text).await,
            };
            all &= written || !waiting.strict;
        }
        all
    }
}

/// Counts an event as lost when it is dropped.
struct LostUnlessForgotten<'a>(&'a Counters);

impl Drop for LostUnlessForgotten<'_> {
    fn drop(&mut self) {
        self.0.error(Plugin::Buffered, 1, "the request ended before there was room for its event");
    }
}

impl Queue {
    /// Returns a queue for a number of bytes and events.
    pub(super) fn new(
        mode: Mode,
        max_bytes: usize,
        max_events: usize,
        counters: Arc<Counters>,
    ) -> (Self, mpsc::UnboundedReceiver<Item>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let max_bytes = u32::try_from(max_bytes).unwrap_or(u32::MAX).max(1);
        let bytes = Arc::new(Semaphore::new(max_bytes as usize));
        let events = Arc::new(Semaphore::new(max_events.clamp(1, Semaphore::MAX_PERMITS)));
        (Self { sender, bytes, max_bytes, events, mode, counters }, receiver)
    }

    /// Adds an event if there is room. Without room it is dropped and counted, or the request waits.
    pub(super) fn submit(&self, text: Bytes, on_full: OnFull) -> Submitted {
        let waits = self.mode != Mode::Batch && on_full == OnFull::Wait;
        let room =
            (self.bytes.clone().try_acquire_many_owned(self.size(&text)), self.events.clone().try_acquire_owned());
        let state = match room {
            (Ok(bytes), Ok(event)) => match self.push(text, (bytes, event), waits) {
                Some(done) => WaitingFor::Written(done),
                None => return Submitted::default(),
            },
            _ if waits => WaitingFor::Room(text),
            _ => {
                self.counters.error(Plugin::Buffered, 1, "audit buffer queue blocked");
                return Submitted::default();
            }
        };
        Submitted(vec![Waiting { queue: self.clone(), state, strict: self.mode == Mode::BlockingStrict }])
    }

    /// Resolves when all events that were submitted before are written.
    pub(super) async fn flush(&self) {
        let (flushed, done) = oneshot::channel();
        if self.sender.send(Item::Flush(flushed)).is_ok() {
            // An error means that the backend has ended.
            let _ = done.await;
        }
    }

    async fn push_when_possible(&self, text: Bytes) -> bool {
        // The request may be dropped while it waits.
        let lost = LostUnlessForgotten(&self.counters);
        let room: Result<Room, AcquireError> = async {
            let bytes = self.bytes.clone().acquire_many_owned(self.size(&text)).await?;
            Ok((bytes, self.events.clone().acquire_owned().await?))
        }
        .await;
        std::mem::forget(lost);
        match room.ok().and_then(|room| self.push(text, room, true)) {
            Some(done) => done.await.unwrap_or(false),
            None => false,
        }
    }

    fn push(&self, text: Bytes, room: Room, waits: bool) -> Option<oneshot::Receiver<bool>> {
        let (done, receiver) = waits.then(oneshot::channel).unzip();
        if self.sender.send(Item::Event(Queued { text, done, _room: room })).is_err() {
            self.counters.error(Plugin::Buffered, 1, "audit backend shut down");
        }
        receiver
    }

    fn size(&self, text: &Bytes) -> u32 {
        u32::try_from(text.len()).unwrap_or(u32::MAX).clamp(1, self.max_bytes)
    }
}
