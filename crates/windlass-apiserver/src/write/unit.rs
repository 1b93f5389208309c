//! Units: the parts of writes that run to their end once they have begun.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{runtime::Handle, sync::Notify};
use tracing::error;

use crate::status::ApiError;

/// Runs units in tasks of their own. The future of a request is dropped when its client disconnects, resets its stream
/// or is timed out, and it is polled only as long as its connection is; a unit is independent of all that.
pub(crate) struct Units {
    /// The runtime of the server, which may not be that of a request in this process.
    runtime: Handle,
    progress: Arc<Progress>,
}

#[derive(Default)]
struct Progress {
    running: AtomicUsize,
    idle: Notify,
}

/// A unit in progress, which holds this until its end.
pub(crate) struct Running(Arc<Progress>);

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}

impl Units {
    pub(crate) fn new(runtime: Handle) -> Self {
        Self { runtime, progress: Arc::default() }
    }

    /// Runs a unit and waits for its outcome. If the returned future is dropped after it was first polled, the unit
    /// continues.
    pub(crate) async fn run<F, T, E>(&self, unit: impl FnOnce(Running) -> F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<ApiError> + Send + 'static,
    {
        self.progress.running.fetch_add(1, Ordering::AcqRel);
        let running = Running(self.progress.clone());
        // Spawned directly: an enclosing future would copy it twice.
        let task = self.runtime.spawn(unit(running));
        task.await.unwrap_or_else(|failure| Err(unfinished(failure.is_panic()).into()))
    }

    /// Resolves when no unit is in progress.
    pub(crate) async fn finished(&self) {
        loop {
            let idle = self.progress.idle.notified();
            if self.progress.running.load(Ordering::Acquire) == 0 {
                return;
            }
            idle.await;
        }
    }
}

/// Returns the error of a unit that panicked, or that was cancelled because the runtime stops.
pub(super) fn unfinished(panicked: bool) -> ApiError {
    if !panicked {
        return ApiError::internal("the server is stopping");
    }
    error!("a write panicked");
    ApiError::panicked()
}
