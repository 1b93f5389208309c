//! Failures of requests.

use std::time::Duration;

use http::{HeaderMap, header::RETRY_AFTER};

use super::decode::{DecodeError, Status};

/// Longest `Retry-After` that is respected.
const LONGEST_REST: Duration = Duration::from_secs(300);

/// Failure of a list or a watch.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The requested revision, or the one of the page, has expired: 410.
    #[error("the resource version has expired")]
    Expired,
    /// The server does not know the revision yet, and may never: it may have been restored from a backup.
    #[error("the resource version is newer than the server's")]
    TooLarge,
    /// The resource is not served: 404.
    #[error("the resource is not served")]
    NotServed,
    /// Any other error, as a status or as an event.
    #[error("the server responded with {code} {reason}: {message}")]
    Rejected { code: u16, reason: String, message: String, retry_after: Option<Duration> },
    /// The connection failed or broke.
    #[error("the connection failed")]
    Connection(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Nothing was received for too long.
    #[error("no data received for {} s", .0.as_secs())]
    Silent(Duration),
    /// A streaming list does not announce its end.
    #[error("the streaming list does not end")]
    Endless {
        /// Whether it never will, as the server does not support it. Otherwise it has been silent for too long.
        sure: bool,
    },
    /// The received data is invalid.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An unreadable object was deleted: its name is unknown, so the state must be fetched again.
    #[error("an unreadable object was deleted")]
    UnreadableDeleted,
}

/// All reason labels of the failure metric; see [`Failure::word`].
pub(super) const REASONS: [&str; 8] =
    ["expired", "not_served", "forbidden", "throttled", "refused", "connection", "silent", "unreadable"];

impl Failure {
    /// Returns the failure for a `Status`, from a response or an event of a watch.
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

    /// Returns the failure for a response: its `Status`, or its code if it has none.
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

    /// Returns whether the API server rejects the request itself, so that the same one will hardly succeed until someone
    /// intervenes. An overloaded or failing server does not.
    pub(super) fn is_rejection(&self) -> bool {
        matches!(self, Self::Rejected { code: 400..=499, .. })
            && !matches!(self, Self::Rejected { code: 408 | 409 | 425 | 429, .. })
    }

    /// Returns the reason label of the failure metric.
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
