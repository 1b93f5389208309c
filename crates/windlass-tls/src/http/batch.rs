//! The stream of an HTTP/2 connection, whose frames are sent in batches.
//!
//! h2 flushes after every frame with data, so that each would be a TLS record and a system call. Here, what is written
//! waits until the task of the connection sends it ([`super::HttpConnection`]): responses and events that are ready at
//! the same time are sent together.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The number of bytes that wait at most: two full TLS records. More are sent at once, and wait for the client.
const LIMIT: usize = 32 << 10;

/// A stream whose bytes wait in its batch. The lock is never contended: one task has both.
pub(super) struct BatchedStream<S>(Arc<Mutex<Shared<S>>>);

/// The bytes that a stream has not sent yet.
pub(super) struct Batch<S>(Arc<Mutex<Shared<S>>>);

struct Shared<S> {
    stream: S,
    /// Dropped with the stream.
    _guard: Box<dyn Send>,
    waiting: BytesMut,
    /// Whether bytes wait at all. Those of an HTTP/1.1 connection do not, because it may be upgraded.
    is_batched: bool,
}

/// Returns a stream, and its batch, which must be sent.
pub(super) fn batched<S>(stream: S, guard: Box<dyn Send>, is_batched: bool) -> (BatchedStream<S>, Batch<S>) {
    let shared = Arc::new(Mutex::new(Shared { stream, _guard: guard, waiting: BytesMut::new(), is_batched }));
    (BatchedStream(shared.clone()), Batch(shared))
}

impl<S: AsyncWrite + Unpin> Batch<S> {
    /// Returns whether there is nothing to send.
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().waiting.is_empty()
    }

    /// Sends all bytes.
    pub(super) fn poll_send(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = self.0.lock();
        if !shared.is_batched {
            return Poll::Ready(Ok(()));
        }
        ready!(shared.poll_send(context))?;
        Pin::new(&mut shared.stream).poll_flush(context)
    }
}

impl<S: AsyncWrite + Unpin> Shared<S> {
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.waiting.is_empty() {
            match ready!(Pin::new(&mut self.stream).poll_write(context, &self.waiting))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => self.waiting.advance(sent),
            }
        }
        // An idle connection needs no memory for them.
        self.waiting = BytesMut::new();
        Poll::Ready(Ok(()))
    }

    /// Adds bytes to the batch, as many as there is room for.
    fn poll_add(&mut self, context: &mut Context<'_>, slices: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if self.waiting.len() >= LIMIT {
            ready!(self.poll_send(context))?;
        }
        let before = self.waiting.len();
        let size: usize = slices.iter().map(|slice| slice.len()).sum();
        self.waiting.reserve(size.min(LIMIT - before));
        for slice in slices {
            let fits = slice.len().min(LIMIT - self.waiting.len());
            self.waiting.extend_from_slice(&slice[..fits]);
        }
        Poll::Ready(Ok(self.waiting.len() - before))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BatchedStream<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BatchedStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut shared = self.0.lock();
        match shared.is_batched {
            true => shared.poll_add(context, slices),
            false => Pin::new(&mut shared.stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        let shared = self.0.lock();
        shared.is_batched || shared.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = self.0.lock();
        match shared.is_batched {
            true => Poll::Ready(Ok(())),
            false => Pin::new(&mut shared.stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = self.0.lock();
        ready!(shared.poll_send(context))?;
        Pin::new(&mut shared.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, task::Waker};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn written_bytes_wait_until_the_batch_is_sent() {
        let (server, mut client) = duplex(1 << 10);
        let (mut stream, batch) = batched(server, Box::new(()), true);
        stream.write_all(b"one ").await.unwrap();
        stream.flush().await.unwrap();
        stream.write_all(b"two").await.unwrap();
        let mut read = [0; 10];
        let early =
            Pin::new(&mut client).poll_read(&mut Context::from_waker(Waker::noop()), &mut ReadBuf::new(&mut read));
        assert!(early.is_pending() && !batch.is_empty());
        poll_fn(|context| batch.poll_send(context)).await.unwrap();
        assert!(batch.is_empty());
        let size = client.read(&mut read).await.unwrap();
        assert_eq!(&read[..size], b"one two");
    }

    #[tokio::test]
    async fn more_than_a_batch_waits_for_the_client() {
        let (server, mut client) = duplex(LIMIT / 2);
        let (mut stream, batch) = batched(server, Box::new(()), true);
        let mut context = Context::from_waker(Waker::noop());
        let mut write = |size: usize| Pin::new(&mut stream).poll_write(&mut context, &vec![7; size]);
        assert!(matches!(write(LIMIT - 1), Poll::Ready(Ok(size)) if size == LIMIT - 1));
        assert!(matches!(write(2), Poll::Ready(Ok(1))), "there is room for one byte");
        assert!(write(1).is_pending(), "the client has room for half of the batch");
        let mut read = vec![0; LIMIT / 2];
        client.read_exact(&mut read).await.unwrap();
        assert!(matches!(write(1), Poll::Ready(Ok(1))), "there is room for what the client has read");
        let end = async {
            stream.shutdown().await.unwrap();
            drop((stream, batch));
        };
        let mut rest = Vec::new();
        let (_, size) = tokio::join!(end, client.read_to_end(&mut rest));
        assert_eq!(size.unwrap(), LIMIT / 2 + 1, "the end sends what waits");
    }

    #[tokio::test]
    async fn without_batches_bytes_are_sent_at_once() {
        let (server, mut client) = duplex(1 << 10);
        let (mut stream, batch) = batched(server, Box::new(()), false);
        stream.write_all(b"one").await.unwrap();
        assert!(batch.is_empty());
        let mut read = [0; 3];
        client.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"one");
    }
}
