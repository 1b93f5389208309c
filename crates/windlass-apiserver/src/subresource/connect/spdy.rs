//! The server side of SPDY/3.1: many streams over one connection.
//!
//! [`frame`] is the format and [`headers`] the compressed headers, both pure; [`session`] is the loop around them.
//! Clients that speak it (client-go, from the time before HTTP/2) neither observe nor grant windows, so neither does
//! the server: a stream that is not read blocks the connection.

pub(crate) mod frame;
pub(crate) mod headers;
pub(crate) mod session;

/// Reasons why a connection cannot continue.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum SpdyError {
    /// A malformed frame.
    #[error("malformed frame")]
    Frame,
    /// A frame above the size limit.
    #[error("frame too large")]
    TooLarge,
    /// A malformed block of headers; later blocks cannot be decompressed.
    #[error("malformed headers")]
    Headers,
}
