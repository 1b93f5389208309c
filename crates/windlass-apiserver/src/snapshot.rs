//! `/windlass/snapshot`: the newest state of the store, for backups.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt as _, stream};
use http::{HeaderValue, Response, header};
use tokio::sync::mpsc;
use tracing::warn;
use windlass_store::{Error, snapshot::Encoder};

use crate::{body::Body, server::Inner, status::Result};

/// The path of the endpoint.
pub const PATH: &str = "/windlass/snapshot";

/// Number of pieces, of about a megabyte each, that wait for the client.
const PIECES: usize = 2;

/// Maximum time for the client to accept a piece. A snapshot keeps old pages of the store in use.
const PIECE_TIMEOUT: Duration = Duration::from_secs(60);

/// Streams a snapshot, in the format of [`windlass_store::snapshot`]. A stream that ends early lacks the trailer.
pub(crate) async fn answer(server: &Arc<Inner>) -> Result<Response<Body>> {
    let encoder = Encoder::new(server.storage.store().snapshot().await?);
    let (send, receive) = mpsc::channel(PIECES);
    // Ends when the client disconnects, because that drops the receiver.
    let task = async move {
        if let Err(why) = send_all(encoder, send).await {
            warn!(why, "a snapshot was not sent completely");
        }
    };
    tokio::spawn(task.boxed());
    let pieces = stream::unfold(receive, async |mut receive| Some((receive.recv().await?, receive)));
    let mut response = Response::new(Body::Stream(Box::pin(pieces)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    Ok(response)
}

async fn send_all(mut encoder: Encoder, send: mpsc::Sender<Bytes>) -> Result<(), String> {
    loop {
        let read = tokio::task::spawn_blocking(move || {
            let piece = encoder.next_piece()?;
            Ok::<_, Error>((piece, encoder))
        });
        let (piece, back) = read.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        encoder = back;
        let Some(piece) = piece else { return Ok(()) };
        match send.send_timeout(piece, PIECE_TIMEOUT).await {
            Ok(()) => {}
            Err(mpsc::error::SendTimeoutError::Closed(_)) => return Err("the client disconnected".to_owned()),
            Err(mpsc::error::SendTimeoutError::Timeout(_)) => return Err("the client does not read".to_owned()),
        }
    }
}
