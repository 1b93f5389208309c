//! What can go wrong with a request.

use std::time::Duration;

use http::{HeaderMap, header::RETRY_AFTER};

use super::decode::{DecodeError, Status};

/// The longest time for which a server's wish to be left alone is respected.
const LONGEST_REST: Duration = Duration::from_secs(300);

/// Why a list or a watch failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The revision asked for, or that of the page, is no longer kept: 410.
    #[error("the revision is no longer kept")]
    Expired,
    /// The server does not know the revision yet, and may never: it may have been restored from a backup.
    #[error("the revision is newer than all that the server knows")]
    TooLarge,
    /// The resource is not served: 404.
    #[error("the resource is not served")]
    NotServed,
    /// Any other refusal, by status or by event.
    #[error("the server refused: {code} {reason}: {message}")]
    Rejected { code: u16, reason: String, message: String, retry_after: Option<Duration> },
    /// The connection could not be made, or broke.
    #[error("the connection failed")]
    Connection(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Nothing came for too long.
    #[error("nothing came for {} s", .0.as_secs())]
    Silent(Duration),
    /// The state was to be streamed, and nobody says that it is complete.
    #[error("the end of the state is not announced")]
    Endless {
        /// It will not be: the server does not stream states. Otherwise it has been silent for too long.
        sure: bool,
    },
    /// What came makes no sense.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An object that could not be read was deleted: nobody can be told which one, but that the state has changed.
    #[error("an object that could not be read was deleted")]
    UnreadableDeleted,
}

impl Failure {
    /// The failure that a `Status` tells, sent as the answer to a request or as an event of a watch.
    pub(super) fn of_status(status: Status) -> Self {
        let details = status.details.unwrap_or_default();
        let too_large = status.message.contains("Too large resource version")
            || details.causes.iter().flatten().any(|cause| {
                cause.reason == "ResourceVersionTooLarge" || cause.message == "Too large resource version"
            });
        match (status.code, status.reason.as_str()) {
            _ if too_large => Self::TooLarge,
            (410, _) | (_, "Expired" | "Gone") => Self::Expired,
            (404, _) => Self::NotServed,
            (code, _) => {
                let seconds = details.retry_after_seconds;
                let retry_after = (seconds > 0).then(|| Duration::from_secs(seconds).min(LONGEST_REST));
                Self::Rejected { code, reason: status.reason, message: status.message, retry_after }
            }
        }
    }

    /// The failure that an answer tells: its `Status`, or its code if it has none.
    pub(super) fn of_response(code: http::StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let mut status: Status = serde_json::from_slice(body).unwrap_or_default();
        status.code = code.as_u16();
        let mut failure = Self::of_status(status);
        let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        if let (Self::Rejected { retry_after, .. }, Some(seconds)) = (&mut failure, seconds) {
            *retry_after = Some(Duration::from_secs(seconds).min(LONGEST_REST));
        }
        failure
    }

    /// A short word for a metric.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Expired | Self::TooLarge => "expired",
            Self::NotServed => "not_served",
            Self::Rejected { code: 401 | 403, .. } => "forbidden",
            Self::Rejected { code: 429, .. } => "throttled",
            Self::Rejected { .. } => "refused",
            Self::Connection(_) => "connection",
            Self::Silent(_) | Self::Endless { .. } => "silent",
            Self::Decode(_) | Self::UnreadableDeleted => "unreadable",
        }
    }
}
