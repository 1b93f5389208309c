//! HTTP/1.1 and HTTP/2 over TLS, for a server with many requests.
//!
//! Generic code, such as hyper's, is compiled with the level of optimization of the crate that uses it. This crate is
//! compiled for speed, so nothing that a server passes to it is a type parameter.

mod batch;
mod streams;

use std::{
    convert::Infallible,
    error::Error,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt as _};
use http::{Request, Response};
use http_body::Body;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::TokioIo,
    server::{conn::auto, graceful::GracefulConnection},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;

use self::batch::{Batch, batched};
pub use self::streams::Streams;

/// An error of a connection.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The body of a response.
pub type ResponseBody = Pin<Box<dyn Body<Data = Bytes, Error = BoxError> + Send>>;

/// Configures connections.
pub type Configure<'a> = &'a dyn Fn(&mut auto::Builder<Streams>);

/// Handles the requests of a connection.
pub trait Handler: Send + Sync + 'static {
    /// Returns whether a request is usually answered without waiting, and without much work. It then has no task, unless
    /// it has to wait.
    fn is_brief(&self, request: &Request<Incoming>) -> bool;

    /// Handles a request.
    fn handle(&self, request: Request<Incoming>) -> BoxFuture<'static, Response<ResponseBody>>;
}

/// A connection. It must be polled until it ends.
pub struct HttpConnection(Serving<TlsStream<TcpStream>>);

impl HttpConnection {
    /// Serves a stream. `guard` is dropped with the stream, even if the connection is upgraded.
    pub fn new(
        stream: TlsStream<TcpStream>,
        guard: Box<dyn Send>,
        handler: Arc<dyn Handler>,
        configure: Configure<'_>,
    ) -> Self {
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Self(Serving::new(stream, guard, is_http2, handler, configure))
    }

    /// Accepts no more requests.
    pub fn shut_down(&mut self) {
        if self.0.ended.is_none() {
            self.0.connection.as_mut().graceful_shutdown();
        }
    }
}

impl Future for HttpConnection {
    type Output = Result<(), BoxError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().0.poll(context)
    }
}

/// A connection of hyper.
type Connection = dyn GracefulConnection<Error = BoxError, Output = Result<(), BoxError>> + Send;

/// A connection with its accepted streams and the bytes that it has to send.
struct Serving<S> {
    connection: Pin<Box<Connection>>,
    streams: Streams,
    batch: Batch<S>,
    /// Whether other tasks have had their turn since the batch was begun.
    has_yielded: bool,
    /// The result of the connection, which ends when the batch is sent.
    ended: Option<Result<(), BoxError>>,
    /// Always empty; kept for its capacity.
    buffer: Vec<BoxFuture<'static, ()>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Serving<S> {
    fn new(
        stream: S,
        guard: Box<dyn Send>,
        is_batched: bool,
        handler: Arc<dyn Handler>,
        configure: Configure<'_>,
    ) -> Self {
        let (stream, batch) = batched(stream, guard, is_batched);
        let streams = Streams::default();
        let mut builder = auto::Builder::new(streams.clone());
        configure(&mut builder);
        let expecting = streams.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            expecting.expect(handler.is_brief(&request));
            handler.handle(request).map(Ok::<_, Infallible>)
        });
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
        let connection: Pin<Box<Connection>> = Box::pin(connection);
        Self { connection, streams, batch, has_yielded: false, ended: None, buffer: Vec::new() }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if self.ended.is_none()
            && let Poll::Ready(result) = self.connection.as_mut().poll(context)
        {
            self.ended = Some(result);
        }
        // The responses wake the connection, which is then polled after the tasks that are ready now.
        let responds = self.streams.poll_accepted(&mut self.buffer);
        if !self.batch.is_empty() && self.ended.is_none() && !self.has_yielded {
            self.has_yielded = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.has_yielded = responds;
        ready!(self.batch.poll_send(context))?;
        self.ended.take().map_or(Poll::Pending, Poll::Ready)
    }
}

#[cfg(test)]
mod tests;
