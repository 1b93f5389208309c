//! Async runtimes of commands.

use std::{future::Future, time::Duration};

use anyhow::Context as _;
use futures_util::{FutureExt as _, future::LocalBoxFuture};
use tokio::runtime::{Builder, Runtime};

/// Maximum time that threads that are busy with disk I/O may delay the exit.
const DEADLINE: Duration = Duration::from_millis(300);

/// Runs I/O-bound work on the current thread.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build().context("failed to start the async runtime")?;
    run(&runtime, work.boxed_local())
}

/// Runs work that includes a control plane on all processors.
pub(crate) fn block_on_all<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = Builder::new_multi_thread().enable_all().build().context("failed to start the async runtime")?;
    let result = run(&runtime, work.boxed_local());
    runtime.shutdown_timeout(DEADLINE);
    result
}

/// Exists once per type of output, because tokio compiles each type of future twice, for both of its schedulers.
fn run<T>(runtime: &Runtime, work: LocalBoxFuture<'_, anyhow::Result<T>>) -> anyhow::Result<T> {
    runtime.block_on(work)
}
