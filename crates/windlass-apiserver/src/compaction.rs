//! Forgets the store's old history: lists and watches may go back a few minutes, not for ever.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tracing::warn;
use windlass_store::Revision;

use crate::storage::Storage;

/// How often the newest revision is noted.
const EVERY: Duration = Duration::from_secs(30);
/// How many notes are kept: history of five to five and a half minutes.
const KEEP: usize = 11;

/// Compacts for ever.
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
            warn!(%error, %revision, "compaction failed");
        }
    }
}
