//! The body of a response: empty, bytes, or a stream.

mod timed;

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::Stream;
use http_body::{Frame, SizeHint};

pub use self::timed::TimedChunks;

/// A stream of chunks, such as a watch.
pub type Chunks = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// A stream of chunks that may break off, because another server sends them.
pub type ForwardedChunks = Pin<Box<dyn Stream<Item = Result<Bytes, BodyError>> + Send>>;

/// The body of a response.
pub enum Body {
    /// Bytes known in advance; `None` once sent, or if empty.
    Full(Option<Bytes>),
    /// A stream that ends when the server ends it.
    Stream(Chunks),
    /// A stream that must be read within the time limit of its request, such as a long list.
    Timed(TimedChunks),
    /// The body of another server's response.
    Forwarded(ForwardedChunks),
}

/// Reasons why a body is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The client did not read the response in time.
    #[error("the response was not read within the time limit of the request")]
    TimedOut,
    /// The server that the request was forwarded to did not complete its response.
    #[error("the forwarded response broke off")]
    BrokenOff,
}

impl Body {
    /// A body without content.
    pub fn empty() -> Self {
        Self::Full(None)
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Full(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(stream) => {
                stream.as_mut().poll_next(cx).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
            }
            Self::Timed(stream) => stream.poll_next(cx).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data))),
            Self::Forwarded(stream) => {
                stream.as_mut().poll_next(cx).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Stream(_) | Self::Timed(_) | Self::Forwarded(_) => SizeHint::default(),
        }
    }
}
