//! Failures of calls: the statuses of gRPC, and calls without one.

use http::HeaderMap;
use windlass_store::Error;

/// etcd's error for a revision that was compacted.
const COMPACTED: &str = "etcdserver: mvcc: required revision has been compacted";
/// etcd's error for a revision in the future.
const FUTURE: &str = "etcdserver: mvcc: required revision is a future revision";
/// etcd's error for a full database.
const NO_SPACE: &str = "etcdserver: mvcc: database space exceeded";
/// etcd's error for a large request.
const TOO_LARGE: &str = "etcdserver: request is too large";
/// etcd's error if a request takes too long, which calls without a response get too.
pub(crate) const TIMED_OUT: &str = "etcdserver: request timed out";

const INVALID_ARGUMENT: u32 = 3;
const NOT_FOUND: u32 = 5;
const PERMISSION_DENIED: u32 = 7;
const RESOURCE_EXHAUSTED: u32 = 8;
const FAILED_PRECONDITION: u32 = 9;
const OUT_OF_RANGE: u32 = 11;
const UNIMPLEMENTED: u32 = 12;
const UNAUTHENTICATED: u32 = 16;

/// The status of a call that etcd has responded with an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) code: u32,
    pub(crate) message: String,
}

impl Status {
    /// Returns the status in the trailers of a response, or in its headers if it has no body; `None` if there is none.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
        let message = headers.get("grpc-message").map_or(&b""[..], |message| message.as_bytes());
        Some(Self { code, message: unescaped(message) })
    }

    /// Returns whether the request cannot have been carried out, and the same request will not succeed either.
    pub(crate) fn is_rejection(&self) -> bool {
        let codes = [
            INVALID_ARGUMENT,
            NOT_FOUND,
            PERMISSION_DENIED,
            FAILED_PRECONDITION,
            OUT_OF_RANGE,
            UNIMPLEMENTED,
            UNAUTHENTICATED,
        ];
        codes.contains(&self.code) || self.is_too_large()
    }

    /// Returns whether the request was not carried out because of the load.
    pub(crate) fn is_overload(&self) -> bool {
        self.message == "etcdserver: too many requests"
    }

    pub(crate) fn is_too_large(&self) -> bool {
        self.message == TOO_LARGE
            || (self.code == RESOURCE_EXHAUSTED && self.message.contains("received message larger than max"))
    }

    pub(crate) fn is_no_space(&self) -> bool {
        self.message == NO_SPACE
    }

    pub(crate) fn is_compacted(&self) -> bool {
        self.message == COMPACTED
    }

    pub(crate) fn is_future(&self) -> bool {
        self.message == FUTURE
    }
}

/// Decodes `%41`.
fn unescaped(text: &[u8]) -> String {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                out.push(byte);
                rest = &after[2..];
            }
            _ => {
                out.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Reasons why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// Nothing was sent: there is no connection.
    #[error("{0}")]
    NotSent(String),
    /// The call was sent, and its response did not arrive.
    #[error("{0}")]
    Lost(String),
    /// etcd has responded with an error.
    #[error("{}", .0.message)]
    Status(Status),
}

impl CallError {
    /// Returns whether a read may succeed if it is retried.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::NotSent(_) | Self::Lost(_) => true,
            Self::Status(status) => !status.is_rejection(),
        }
    }

    pub(crate) fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) => Some(status),
            _ => None,
        }
    }
}

/// The error of a read, or of anything else that changes nothing.
impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        let cause = error.to_string();
        match error {
            CallError::Status(status) if status.is_rejection() => Self::Storage { cause },
            _ => Self::Unavailable { cause },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u32, message: &str) -> Status {
        Status { code, message: message.to_owned() }
    }

    #[test]
    fn a_status_is_read_from_headers() {
        let mut headers = HeaderMap::new();
        assert_eq!(Status::of(&headers), None);
        headers.insert("grpc-status", "14".parse().unwrap());
        assert_eq!(Status::of(&headers), Some(status(14, "")));
        headers.insert("grpc-message", "100%25 %C3%A9 %zz %4".parse().unwrap());
        assert_eq!(Status::of(&headers), Some(status(14, "100% é %zz %4")));
        headers.insert("grpc-status", "x".parse().unwrap());
        assert_eq!(Status::of(&headers), None);
    }

    #[test]
    fn only_errors_that_pass_are_retried() {
        for (code, message, transient) in [
            (14, "etcdserver: no leader", true),
            (14, TIMED_OUT, true),
            (14, "etcdserver: leader changed", true),
            (8, "etcdserver: too many requests", true),
            (15, "etcdserver: corrupt cluster", true),
            (3, TOO_LARGE, false),
            (8, "grpc: received message larger than max (3000000 vs. 2097152)", false),
            (11, COMPACTED, false),
            (7, "etcdserver: permission denied", false),
        ] {
            assert_eq!(CallError::Status(status(code, message)).is_transient(), transient, "{message}");
        }
        assert!(CallError::Lost(String::new()).is_transient() && CallError::NotSent(String::new()).is_transient());
    }
}
