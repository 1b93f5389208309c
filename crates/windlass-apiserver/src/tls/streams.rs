//! The requests of an HTTP/2 connection, and the tasks that handle them.
//!
//! A GET of an object is usually answered from memory, without waiting. To save a task for each of them, the task of the
//! connection polls it once; if it has to wait, it continues in a task of its own. All other requests have a task from the
//! beginning. Requests are polled when the connection has accepted everything that has arrived, so that their responses are
//! sent together.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use futures_util::future::BoxFuture;
use http::{Method, Request};
use hyper::rt::Executor;
use hyper_util::server::graceful::GracefulConnection;
use parking_lot::Mutex;

use crate::request_info::RequestInfo;

/// Executes the requests of a connection.
#[derive(Clone, Default)]
pub(super) struct Streams(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Whether the next stream to execute has a request that is usually answered without waiting.
    brief: AtomicBool,
    /// Streams that are not polled yet.
    accepted: Mutex<Vec<BoxFuture<'static, ()>>>,
}

impl Streams {
    /// Records the request of the next stream to execute.
    pub(super) fn expect<B>(&self, request: &Request<B>) {
        self.0.brief.store(is_brief(request), Ordering::Relaxed);
    }

    /// Polls each accepted stream, and spawns those that have to wait. `accepted` is an empty buffer.
    fn poll_accepted(&self, accepted: &mut Vec<BoxFuture<'static, ()>>) {
        std::mem::swap(&mut *self.0.accepted.lock(), accepted);
        for mut stream in accepted.drain(..) {
            // A task polls it again, so nothing that it waits for is missed.
            let mut context = Context::from_waker(Waker::noop());
            // As in a task of its own, a panic ends only this stream.
            let polled = catch_unwind(AssertUnwindSafe(|| stream.as_mut().poll(&mut context)));
            if let Ok(Poll::Pending) = polled {
                tokio::spawn(stream);
            }
        }
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

/// Returns whether a request is usually answered without waiting, and without much work.
fn is_brief<B>(request: &Request<B>) -> bool {
    *request.method() == Method::GET
        && match RequestInfo::from_path(request.uri().path()) {
            RequestInfo::Resource(target) => {
                !target.name.is_empty() && target.subresource.is_empty() && !target.old_watch
            }
            RequestInfo::Path(_) => false,
        }
}

/// A connection with its accepted streams.
pub(super) struct Serving<'a, C> {
    connection: Pin<&'a mut C>,
    streams: Streams,
    /// Always empty; kept for its capacity.
    buffer: Vec<BoxFuture<'static, ()>>,
}

impl<'a, C: GracefulConnection> Serving<'a, C> {
    pub(super) fn new(connection: Pin<&'a mut C>, streams: Streams) -> Self {
        Self { connection, streams, buffer: Vec::new() }
    }

    /// Accepts no more requests.
    pub(super) fn shut_down(&mut self) {
        self.connection.as_mut().graceful_shutdown();
    }
}

impl<C: GracefulConnection> Future for Serving<'_, C> {
    type Output = Result<(), C::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { connection, streams, buffer } = self.get_mut();
        let polled = connection.as_mut().poll(context);
        // The responses wake the connection, which then sends all of them.
        streams.poll_accepted(buffer);
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_gets_of_objects_are_brief() {
        for (method, uri, expected) in [
            ("GET", "/api/v1/nodes/a", true),
            ("GET", "/api/v1/namespaces/a", true),
            ("GET", "/api/v1/namespaces/a/pods/b?resourceVersion=0", true),
            ("GET", "/apis/apps/v1/namespaces/a/deployments/d", true),
            ("HEAD", "/api/v1/nodes/a", false),
            ("DELETE", "/api/v1/nodes/a", false),
            ("GET", "/api/v1/nodes", false),
            ("GET", "/api/v1/namespaces/a/pods", false),
            ("GET", "/api/v1/namespaces/a/pods/b/log", false),
            ("GET", "/apis/apps/v1/namespaces/a/deployments/d/scale", false),
            ("GET", "/api/v1/watch/namespaces/a/pods/b", false),
            ("GET", "/healthz", false),
            ("GET", "/apis/apps/v1", false),
        ] {
            let request = Request::builder().method(method).uri(uri).body(()).unwrap();
            assert_eq!(is_brief(&request), expected, "{method} {uri}");
        }
    }

    #[tokio::test]
    async fn a_brief_stream_that_waits_continues_in_a_task() {
        let (streams, mut buffer) = (Streams::default(), Vec::new());
        let brief = |streams: &Streams| streams.expect(&Request::get("/api/v1/nodes/a").body(()).unwrap());
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let (done, is_done) = tokio::sync::oneshot::channel();
        brief(&streams);
        streams.execute(async move {
            receiver.await.unwrap();
            done.send("after waiting").unwrap();
        });
        let (at_once, mut is_at_once) = tokio::sync::oneshot::channel();
        brief(&streams);
        streams.execute(async move { at_once.send("at once").unwrap() });
        brief(&streams);
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
        streams.expect(&Request::post("/api/v1/nodes").body(()).unwrap());
        let (done, is_done) = tokio::sync::oneshot::channel();
        streams.execute(async move { done.send("in a task").unwrap() });
        assert!(streams.0.accepted.lock().is_empty());
        assert_eq!(is_done.await, Ok("in a task"));
    }
}
