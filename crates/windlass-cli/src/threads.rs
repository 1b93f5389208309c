//! Async runtimes of commands.

use std::{future::Future, time::Duration};

use anyhow::Context as _;
use tokio::runtime::Builder;

/// Maximum time that threads that are busy with disk I/O may delay the exit.
const DEADLINE: Duration = Duration::from_millis(300);

/// Runs I/O-bound work on the current thread.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    Builder::new_current_thread().enable_all().build().context("failed to start the async runtime")?.block_on(work)
}

/// Runs work that includes a control plane on all processors.
pub(crate) fn block_on_all<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = Builder::new_multi_thread().enable_all().build().context("failed to start the async runtime")?;
    let result = runtime.block_on(work);
    runtime.shutdown_timeout(DEADLINE);
    result
}
