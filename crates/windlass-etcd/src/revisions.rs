//! The newest revision, which readers that ask at the same time share.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use windlass_store::Revision;

use crate::{client::Client, status::CallError};

type Reader = oneshot::Sender<Result<Revision, CallError>>;

/// Number of readers that can wait without waiting for a place.
const READERS: usize = 1024;

/// Asks for the newest revision.
#[derive(Clone)]
pub(crate) struct Revisions {
    readers: mpsc::Sender<Reader>,
}

impl Revisions {
    /// Returns the handle, and the queue that [`answer`] serves.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Reader>) {
        let (readers, queue) = mpsc::channel(READERS);
        (Self { readers }, queue)
    }

    /// Returns the newest revision.
    pub(crate) async fn newest(&self) -> Result<Revision, CallError> {
        let stopped = || CallError::NotSent("the store is closed".to_owned());
        let (reader, answer) = oneshot::channel();
        self.readers.send(reader).await.map_err(|_| stopped())?;
        answer.await.unwrap_or_else(|_| Err(stopped()))
    }
}

/// Serves readers: all that arrive before a request is sent share its response. The watches are told which revision is
/// awaited.
pub(crate) async fn answer(client: Arc<Client>, wanted: watch::Sender<Revision>, mut queue: mpsc::Receiver<Reader>) {
    let mut readers = Vec::new();
    while queue.recv_many(&mut readers, READERS).await > 0 {
        let newest = client.revision().await;
        if let Ok(revision) = newest {
            wanted.send_if_modified(|wanted| {
                let newer = revision > *wanted;
                *wanted = revision.max(*wanted);
                newer
            });
        }
        for reader in readers.drain(..) {
            // A reader that no longer waits needs no response.
            let _ = reader.send(newest.clone());
        }
    }
}
