//! Bytes from a client that wait for their reader, bounded by their size.
//!
//! All streams of a connection share one budget. A client that is ahead of its readers by that much is not read any
//! further, so the back-pressure reaches it through the connection.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// The bytes of a client that may wait for their readers, over all streams of a connection.
const BUDGET: usize = 1 << 20;
/// The largest piece.
const PIECE_MAX: usize = 32 << 10;
/// Minimum charge for a piece, for the memory that it needs in addition to its bytes.
const PIECE_COST: usize = 256;
/// The number of pieces of a stream that wait for their reader.
const WAITING: usize = 64;

/// Bytes that are charged to the budget of their connection until they are dropped.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    _charge: OwnedSemaphorePermit,
}

/// The budget of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<Semaphore>);

impl Budget {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(BUDGET)))
    }

    /// Sends bytes to a reader, in pieces, as the budget allows. Bytes for a reader that was dropped are discarded.
    pub(crate) async fn send(&self, to: &mpsc::Sender<Piece>, bytes: &[u8]) {
        for piece in bytes.chunks(PIECE_MAX) {
            let charge = u32::try_from(piece.len().max(PIECE_COST)).unwrap_or(u32::MAX);
            // The semaphore is never closed.
            let Ok(charge) = self.0.clone().acquire_many_owned(charge).await else { return };
            // A copy, because a slice would keep the whole buffer that it was read into.
            let piece = Piece { bytes: Bytes::copy_from_slice(piece), _charge: charge };
            if to.send(piece).await.is_err() {
                return;
            }
        }
    }
}

/// Returns a queue for the pieces of a stream.
pub(crate) fn queue() -> (mpsc::Sender<Piece>, mpsc::Receiver<Piece>) {
    mpsc::channel(WAITING)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_sender_waits_until_the_readers_of_its_connection_catch_up() {
        let budget = Budget::new();
        let (streams, mut readers): (Vec<_>, Vec<_>) = (0..100).map(|_| queue()).unzip();
        let sending = async {
            for stream in &streams {
                budget.send(stream, &[0; 1 << 20]).await;
            }
        };
        // Without the fairness of tokio, so that it waits for readers only.
        let mut sending = std::pin::pin!(tokio::task::unconstrained(sending));
        assert!(sending.as_mut().now_or_never().is_none());
        let waiting = |readers: &[mpsc::Receiver<Piece>]| readers.iter().map(mpsc::Receiver::len).sum::<usize>();
        assert_eq!(waiting(&readers), BUDGET / PIECE_MAX);
        // A piece that was received is charged until it was written.
        let piece = readers[0].recv().await;
        assert!(sending.as_mut().now_or_never().is_none());
        assert_eq!(waiting(&readers), BUDGET / PIECE_MAX - 1);
        drop(piece);
        assert!(sending.as_mut().now_or_never().is_none());
        assert_eq!(waiting(&readers), BUDGET / PIECE_MAX);
        // Without readers, everything is discarded.
        drop(readers);
        sending.await;
    }

    #[tokio::test]
    async fn small_pieces_are_charged_for_their_overhead() {
        let budget = Budget::new();
        let (streams, readers): (Vec<_>, Vec<_>) = (0..1000).map(|_| queue()).unzip();
        let sending = async {
            for stream in streams.iter().cycle() {
                budget.send(stream, b"x").await;
            }
        };
        assert!(tokio::task::unconstrained(sending).now_or_never().is_none());
        assert_eq!(readers.iter().map(mpsc::Receiver::len).sum::<usize>(), BUDGET / PIECE_COST);
    }
}
