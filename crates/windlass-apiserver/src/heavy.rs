//! Work that may take long.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Bodies from this size on can take long to judge.
pub(crate) const LARGE: usize = 32 << 10;

/// Does work that may take long, so that other requests need not wait for this thread if there are several.
pub(crate) fn heavy<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
