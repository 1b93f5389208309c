//! Work that may block its thread for long.

use tokio::runtime::{Handle, RuntimeFlavor};

/// The size above which processing a body is heavy work.
pub(crate) const LARGE: usize = 32 << 10;

/// Runs heavy work, so that other requests do not wait for this thread if the runtime has several.
pub(crate) fn run<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
