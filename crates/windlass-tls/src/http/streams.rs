//! The requests of an HTTP/2 connection, and the tasks that handle them.
//!
//! A request that is usually answered without waiting needs no task: the task of the connection polls it once, and if it has
//! to wait, it continues in a task of its own. All other requests have a task from the beginning. Requests are polled when the connection has accepted everything that has arrived, so that their responses are
//! sent together. What the tasks of other requests add is sent when every task that is ready now has had its turn.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use futures_util::future::BoxFuture;
use hyper::rt::Executor;
use parking_lot::Mutex;

/// Executes the requests of a connection.
#[derive(Clone, Default)]
pub struct Streams(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Whether the next stream to execute has a request that is usually answered without waiting.
    brief: AtomicBool,
    /// Streams that are not polled yet.
    accepted: Mutex<Vec<BoxFuture<'static, ()>>>,
}

impl Streams {
    /// Records whether the next stream to execute is usually answered without waiting.
    pub(super) fn expect(&self, brief: bool) {
        self.0.brief.store(brief, Ordering::Relaxed);
    }

    /// Polls each accepted stream, and spawns those that have to wait; returns whether there were any. `accepted` is an
    /// empty buffer.
    pub(super) fn poll_accepted(&self, accepted: &mut Vec<BoxFuture<'static, ()>>) -> bool {
        std::mem::swap(&mut *self.0.accepted.lock(), accepted);
        let any = !accepted.is_empty();
        for mut stream in accepted.drain(..) {
            // A task polls it again, so nothing that it waits for is missed.
            let mut context = Context::from_waker(Waker::noop());
            // As in a task of its own, a panic ends only this stream.
            let polled = catch_unwind(AssertUnwindSafe(|| stream.as_mut().poll(&mut context)));
            if let Ok(Poll::Pending) = polled {
                tokio::spawn(stream);
            }
        }
        any
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        if self.0.brief.swap(false, Ordering::Relaxed) {
            self.0.accepted.lock().push(Box::pin(stream));
        } else {
            tokio::spawn(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_brief_stream_that_waits_continues_in_a_task() {
        let (streams, mut buffer) = (Streams::default(), Vec::new());
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let (done, is_done) = tokio::sync::oneshot::channel();
        streams.expect(true);
        streams.execute(async move {
            receiver.await.unwrap();
            done.send("after waiting").unwrap();
        });
        let (at_once, mut is_at_once) = tokio::sync::oneshot::channel();
        streams.expect(true);
        streams.execute(async move { at_once.send("at once").unwrap() });
        streams.expect(true);
        streams.execute(async { panic!("a stream panics") });
        assert!(is_at_once.try_recv().is_err(), "streams are polled after the connection");
        streams.poll_accepted(&mut buffer);
        assert_eq!(is_at_once.try_recv(), Ok("at once"));
        sender.send(()).unwrap();
        assert_eq!(is_done.await, Ok("after waiting"));
        assert!(buffer.is_empty() && streams.0.accepted.lock().is_empty());
    }

    #[tokio::test]
    async fn other_streams_have_tasks_of_their_own() {
        let streams = Streams::default();
        streams.expect(false);
        let (done, is_done) = tokio::sync::oneshot::channel();
        streams.execute(async move { done.send("in a task").unwrap() });
        assert!(streams.0.accepted.lock().is_empty());
        assert_eq!(is_done.await, Ok("in a task"));
    }
}
