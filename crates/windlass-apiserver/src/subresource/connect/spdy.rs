//! The server's side of SPDY/3.1: many streams over one connection.
//!
//! [`frame`] is the format, [`headers`] the compressed headers, both pure; [`session`] is the loop around them. Clients
//! that speak it (client-go, which has it from before HTTP/2 was there) neither keep nor grant windows, so nothing is
//! held back here either: a stream that is not read holds up the connection.

pub(crate) mod frame;
pub(crate) mod headers;
pub(crate) mod session;

/// Why a connection cannot go on.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum SpdyError {
    /// A frame that is not what it says it is.
    #[error("a malformed frame")]
    Frame,
    /// A frame that is larger than any that is needed.
    #[error("a frame that is too large")]
    TooLarge,
    /// A block of headers that cannot be read; nothing after it can be.
    #[error("malformed headers")]
    Headers,
}
