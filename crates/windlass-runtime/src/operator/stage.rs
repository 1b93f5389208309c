//! Tasks that start and stop together.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
};

use futures_util::FutureExt as _;
use tokio::task::{Id, JoinError, JoinSet};
use tracing::Instrument as _;

use super::OperatorError;
use crate::shutdown::Shutdown;

/// Tasks that start and stop together. Dropping the stage drops its tasks.
pub(super) struct Stage {
    shutdown: Shutdown,
    tasks: JoinSet<Result<(), OperatorError>>,
    running: HashMap<Id, Running>,
}

struct Running {
    name: String,
    /// Whether the task may end before it is asked to.
    finite: bool,
}

impl Stage {
    pub(super) fn new(shutdown: Shutdown) -> Self {
        Self { shutdown, tasks: JoinSet::new(), running: HashMap::new() }
    }

    /// Returns the shutdown that stops its tasks.
    pub(super) fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }

    /// Starts a task that must run until it is asked to end.
    pub(super) fn spawn(&mut self, name: &str, task: impl Future<Output = Result<(), OperatorError>> + Send + 'static) {
        self.start(name, false, task);
    }

    /// Starts a task that may end earlier.
    pub(super) fn spawn_finite(
        &mut self,
        name: &str,
        task: impl Future<Output = Result<(), OperatorError>> + Send + 'static,
    ) {
        self.start(name, true, task);
    }

    fn start(
        &mut self,
        name: &str,
        finite: bool,
        task: impl Future<Output = Result<(), OperatorError>> + Send + 'static,
    ) {
        let span = tracing::info_span!("task", name);
        let handle = self.tasks.spawn(task.instrument(span).boxed());
        self.running.insert(handle.id(), Running { name: name.to_owned(), finite });
    }

    /// Resolves when a task has failed, panicked, or ended unexpectedly. Cancel safe.
    pub(super) async fn failure(&mut self) -> OperatorError {
        while let Some(joined) = self.tasks.join_next_with_id().await {
            if let Err(error) = self.ended(joined) {
                return error;
            }
        }
        std::future::pending().await
    }

    /// Asks all tasks to end and waits for them. Returns the first failure and logs the others.
    pub(super) async fn drain(&mut self) -> Result<(), OperatorError> {
        self.shutdown.drain();
        let mut result = Ok(());
        while let Some(joined) = self.tasks.join_next_with_id().await {
            match self.ended(joined) {
                Err(error) if result.is_ok() => result = Err(error),
                Err(error) => tracing::error!(%error, "task failed during shutdown"),
                Ok(()) => {}
            }
        }
        result
    }

    /// Returns the names of the running tasks.
    pub(super) fn names(&self) -> Vec<String> {
        self.running.values().map(|running| running.name.clone()).collect()
    }

    fn ended(&mut self, joined: Result<(Id, Result<(), OperatorError>), JoinError>) -> Result<(), OperatorError> {
        let id = joined.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Running { name, finite } =
            self.running.remove(&id).unwrap_or_else(|| Running { name: "a task".to_owned(), finite: false });
        match joined {
            Ok((_, Err(error))) => Err(error),
            Ok((_, Ok(()))) if finite || self.shutdown.is_draining() => Ok(()),
            Ok((_, Ok(()))) => Err(OperatorError::EndedEarly { name }),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => {
                    Err(OperatorError::Panicked { name, message: crate::panic::message(panic.as_ref()).to_owned() })
                }
                Err(_) => Err(OperatorError::EndedEarly { name }),
            },
        }
    }
}

/// A flag that can be set once.
#[derive(Debug, Default)]
pub(super) struct Flag(AtomicBool);

impl Flag {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(name: &str) -> OperatorError {
        OperatorError::Task { name: name.to_owned(), source: "broken".into() }
    }

    #[tokio::test]
    async fn tasks_that_end_unasked_fail_unless_they_may() {
        let mut stage = Stage::new(Shutdown::new());
        stage.spawn_finite("migration", async { Ok(()) });
        stage.spawn("controller", async {
            tokio::task::yield_now().await;
            Ok(())
        });
        assert!(matches!(stage.failure().await, OperatorError::EndedEarly { name } if name == "controller"));
    }

    #[tokio::test]
    async fn a_panic_is_a_failure_with_its_message() {
        let mut stage = Stage::new(Shutdown::new());
        stage.spawn_finite("bomb", async { panic!("boom {}", 1) });
        let OperatorError::Panicked { name, message } = stage.failure().await else { panic!("another error") };
        assert_eq!((name.as_str(), message.as_str()), ("bomb", "boom 1"));
    }

    #[tokio::test]
    async fn draining_waits_for_all_tasks_and_returns_a_failure() {
        let mut stage = Stage::new(Shutdown::new());
        let finished = std::sync::Arc::new(Flag::default());
        let (flag, shutdown) = (finished.clone(), stage.shutdown());
        stage.spawn("slow", async move {
            shutdown.draining().await;
            tokio::task::yield_now().await;
            flag.set();
            Ok(())
        });
        stage.spawn("bad", async { Err(failed("bad")) });
        assert!(matches!(stage.drain().await, Err(OperatorError::Task { name, .. }) if name == "bad"));
        assert!(finished.is_set());
        assert_eq!(stage.names().len(), 0);
    }
}
