//! The time limit of a request, and of reading its response.

use std::time::Duration;

use http::{Response, Version, request::Parts};
use tokio::time::Instant;

use crate::{
    body::{Body, TimedChunks},
    connections::Peer,
    flow_control::Seat,
};

/// Keeps the seat of a request while its response, a stream, is encoded: that may be long after its handler is done.
pub(super) fn hold_seat(parts: &Parts, response: &mut Response<Body>, seat: Seat, deadline: Instant) {
    let Body::Stream(chunks) = std::mem::replace(response.body_mut(), Body::empty()) else { return };
    // Over HTTP/2, the stream is reset when the client reads on.
    let connection = parts.extensions.get::<Peer>().filter(|_| parts.version != Version::HTTP_2);
    let connection = connection.map(|peer| peer.connection.clone());
    let close = move || {
        if let Some(connection) = connection {
            connection.close();
        }
    };
    *response.body_mut() = Body::Timed(TimedChunks::new(chunks, seat, deadline, close));
}

/// The time limit of a request.
#[derive(Clone, Copy)]
pub(super) struct TimeLimit {
    pub(super) timeout: Duration,
    pub(super) deadline: Instant,
}

impl TimeLimit {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, deadline: Instant::now() + timeout }
    }

    /// Returns how long the request may wait for a seat.
    pub(super) fn patience(&self) -> Duration {
        self.timeout / 4
    }
}
