//! The time limit of a request, and of reading its response.

use std::time::Duration;

use http::{Method, Response, Version};
use tokio::time::Instant;

use super::context::Context;
use crate::{
    body::{Body, TimedChunks},
    flow_control::Admitted,
    query::Query,
    request_info::RequestInfo,
    status::{ApiError, Result},
    verb::Verb,
};

/// The time limit of the verbs create, update, patch and delete, admission included, from the moment when the request
/// has a seat.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(34);

/// Returns the time limit of a request, `longest` at most. Clients cannot set that of a long-running one.
pub(super) fn of(info: &RequestInfo<'_>, method: &Method, query: &Query<'_>, longest: Duration) -> Result<TimeLimit> {
    let long_running = match info {
        RequestInfo::Path(path) => path.starts_with("/debug/pprof/"),
        RequestInfo::Resource(target) => target.is_long_running() || target.verb(method, query) == Verb::Watch,
    };
    Ok(TimeLimit::new(if long_running { longest } else { timeout(query, longest)? }))
}

/// Returns the time limit of a request: the client's, up to the server's own limit.
pub(crate) fn timeout(query: &Query<'_>, longest: Duration) -> Result<Duration> {
    let text = query.text("timeout");
    if text.is_empty() {
        return Ok(longest);
    }
    let nanoseconds = windlass_schema::time::parse_duration(text)
        .map_err(|error| ApiError::bad_request(format!("invalid timeout specified in the request URL - {error}")))?;
    let asked = u64::try_from(nanoseconds).ok().filter(|nanoseconds| *nanoseconds > 0);
    Ok(asked.map_or(longest, |nanoseconds| Duration::from_nanos(nanoseconds).min(longest)))
}

/// Keeps the seat of a request while its response, a stream, is encoded: that may be long after its handler is done.
pub(super) fn hold_seat(context: Context<'_>, response: &mut Response<Body>, seat: Admitted, deadline: Instant) {
    let Body::Stream(chunks) = std::mem::replace(response.body_mut(), Body::empty()) else { return };
    // Over HTTP/2, the stream is reset when the client reads on.
    let connection = context.peer.filter(|_| context.parts.version != Version::HTTP_2);
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
