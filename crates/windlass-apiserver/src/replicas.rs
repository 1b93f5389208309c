//! The bound on how far an API server is behind others that write to the same store.
//!
//! Definitions, webhooks, policies, roles and quotas take effect on a server when its caches have them. So each server
//! proves every few seconds that its caches have everything that was in the store, and rejects writes once the last
//! proof is older than [`BOUND`]: what another server has acknowledged is either in effect after that time, or this
//! server writes nothing.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::Instant;
use tracing::warn;

use crate::{definitions, server::Inner};

/// Maximum age of the last proof.
pub(crate) const BOUND: Duration = Duration::from_secs(10);
/// Time after which no server writes by a definition that was replaced: the bound, and the longest request.
pub(crate) const REPLACED: Duration = Duration::from_secs(90);
/// The intervals of proofs, after a success and after a failure.
const EVERY: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(250);

/// Proves periodically that the caches are complete, until the server is dropped.
pub(crate) async fn run(server: Weak<Inner>) {
    loop {
        let proof = {
            let Some(server) = server.upgrade() else { return };
            tokio::time::timeout(BOUND, prove(&server)).await
        };
        let pause = match proof {
            Ok(Ok(())) => EVERY,
            Ok(Err(error)) => {
                warn!(%error, "failed to read the newest revision of the store");
                RETRY
            }
            Err(_) => {
                warn!("the caches are behind the store; rejecting writes until they have caught up");
                RETRY
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Waits until everything that is in the store is in effect, which is a proof for the time at which this began.
pub(crate) async fn prove(server: &Arc<Inner>) -> Result<(), windlass_store::Error> {
    let start = Instant::now();
    server.storage.fresh().await?;
    server.definitions.reached(server.storage.cache(definitions::PREFIX).snapshot().revision).await;
    server.storage.note_current(start);
    Ok(())
}
