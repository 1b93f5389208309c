//! The threads that commands run on.

use std::{future::Future, time::Duration};

use anyhow::Context as _;
use tokio::runtime::Builder;

/// How long threads that are busy with the disk may keep the process once everything else has ended.
const DEADLINE: Duration = Duration::from_millis(300);

/// Does work that mostly waits, on this thread.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    Builder::new_current_thread().enable_all().build().context("cannot start threads")?.block_on(work)
}

/// Does work that has a control plane in it, on all processors.
pub(crate) fn block_on_all<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    let result = runtime.block_on(work);
    runtime.shutdown_timeout(DEADLINE);
    result
}
