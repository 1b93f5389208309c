//! Compacts the store: lists and watches may go back a few minutes.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tracing::warn;
use windlass_store::Revision;

use crate::storage::Storage;

/// The interval at which the newest revision is recorded.
const EVERY: Duration = Duration::from_secs(30);
/// The number of recorded revisions, which amounts to a history of five to five and a half minutes.
const KEEP: usize = 11;

/// Compacts the store forever.
pub(crate) async fn run(storage: Arc<Storage>) {
    let mut noted: VecDeque<Revision> = VecDeque::new();
    loop {
        tokio::time::sleep(EVERY).await;
        noted.push_back(storage.applied());
        if noted.len() <= KEEP {
            continue;
        }
        let Some(revision) = noted.pop_front() else { continue };
        if noted.front() == Some(&revision) {
            continue;
        }
        if let Err(error) = storage.store().compact(revision).await {
            warn!(%error, %revision, "failed to compact the store");
        }
    }
}
