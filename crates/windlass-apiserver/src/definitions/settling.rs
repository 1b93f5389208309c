//! Finds out which objects are stored exactly as endpoints serve them.

use std::sync::{Arc, Weak};

use super::RETRY;
use crate::{endpoint::Endpoint, replicas, server::Inner};

/// Waits until no server writes by CRDs that were replaced; then finds out whether older objects are stored exactly as
/// these endpoints serve them.
pub(super) async fn settle_later(server: Weak<Inner>, replaced: Vec<Arc<Endpoint>>) {
    if replaced.is_empty() {
        return;
    }
    tokio::time::sleep(replicas::REPLACED).await;
    loop {
        let Some(strong) = server.upgrade() else { return };
        if let Ok(revision) = strong.storage.fresh().await {
            let custom = replaced.iter().filter_map(|endpoint| endpoint.custom());
            custom.for_each(|custom| custom.end_older_writes(revision));
            replaced.into_iter().for_each(settle);
            return;
        }
        drop(strong);
        tokio::time::sleep(RETRY).await;
    }
}

/// Finds out in the background whether older objects are stored exactly as an endpoint serves them.
pub(super) fn settle(endpoint: Arc<Endpoint>) {
    tokio::task::spawn_blocking(move || {
        if let Some(custom) = endpoint.custom() {
            custom.recheck_stored(&endpoint.cache);
        }
    });
}
