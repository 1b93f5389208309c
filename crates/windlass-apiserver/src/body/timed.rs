//! Responses that are encoded while they are sent, within the time limit of their request.

use std::{
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{task::AbortHandle, time::Instant};

use super::{BodyError, Chunks};

/// A stream that ends with an error when its request has taken too long.
///
/// A connection does not poll the body of a client that does not read, so a task of its own releases what the stream
/// holds: the state that it is encoded from, and the seat of its request.
pub struct TimedChunks {
    state: Arc<Mutex<State>>,
    /// The task that waits for the time limit.
    limit: AbortHandle,
}

enum State {
    Sending(Sending),
    Sent,
    TimedOut,
}

struct Sending {
    chunks: Chunks,
    /// Kept until the last chunk.
    kept: Vec<Box<dyn Send>>,
    waker: Option<Waker>,
}

impl TimedChunks {
    /// Returns a stream with a time limit. `seat` is dropped when everything is encoded; `on_timeout` is called if that
    /// takes too long.
    pub(crate) fn new(
        chunks: Chunks,
        seat: impl Send + 'static,
        deadline: Instant,
        on_timeout: impl FnOnce() + Send + 'static,
    ) -> Self {
        let state = Arc::new(Mutex::new(State::Sending(Sending { chunks, kept: vec![Box::new(seat)], waker: None })));
        let limit = tokio::spawn(end_at(deadline, Arc::downgrade(&state), on_timeout)).abort_handle();
        Self { state, limit }
    }

    /// Keeps something until the stream ends.
    pub(crate) fn keeping(self, thing: impl Send + 'static) -> Self {
        if let State::Sending(sending) = &mut *self.state.lock() {
            sending.kept.push(Box::new(thing));
        }
        self
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        let mut state = self.state.lock();
        let sending = match &mut *state {
            State::Sending(sending) => sending,
            State::Sent => return Poll::Ready(None),
            State::TimedOut => return Poll::Ready(Some(Err(BodyError::TimedOut))),
        };
        match sending.chunks.as_mut().poll_next(cx) {
            Poll::Ready(Some(chunk)) => Poll::Ready(Some(Ok(chunk))),
            Poll::Ready(None) => {
                *state = State::Sent;
                self.limit.abort();
                Poll::Ready(None)
            }
            Poll::Pending => {
                sending.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for TimedChunks {
    fn drop(&mut self) {
        self.limit.abort();
    }
}

/// Ends a stream at a deadline.
async fn end_at(deadline: Instant, state: Weak<Mutex<State>>, on_timeout: impl FnOnce()) {
    tokio::time::sleep_until(deadline).await;
    let Some(state) = state.upgrade() else { return };
    let unsent = {
        let mut state = state.lock();
        if matches!(*state, State::Sent) {
            return;
        }
        std::mem::replace(&mut *state, State::TimedOut)
    };
    if let State::Sending(Sending { waker: Some(waker), .. }) = &unsent {
        waker.wake_by_ref();
    }
    // Not under the lock: a seat that becomes free wakes others.
    drop(unsent);
    on_timeout();
}
