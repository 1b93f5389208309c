//! Tests of whole connections.

use std::{
    future::poll_fn,
    io,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures_util::future::join_all;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::client::conn::http2;
use hyper_util::rt::TokioExecutor;
use tokio::io::{DuplexStream, ReadBuf, duplex};

use super::*;

/// A stream that counts how often bytes are written.
struct Counted(DuplexStream, Arc<AtomicUsize>);

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, to)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// Answers each request with 2,000 bytes.
struct Constant {
    is_brief: bool,
}

impl Handler for Constant {
    fn is_brief(&self, _: &Request<Incoming>) -> bool {
        self.is_brief
    }

    fn handle(&self, _: Request<Incoming>) -> BoxFuture<'static, Response<ResponseBody>> {
        let body = Full::new(Bytes::from(vec![7; 2000])).map_err(|never| -> BoxError { match never {} });
        async move { Response::new(Box::pin(body) as ResponseBody) }.boxed()
    }
}

/// Sends ten requests at the same time and returns how often the server has written to answer them.
async fn writes_for_ten_responses(is_brief: bool, is_batched: bool) -> usize {
    let (server, client) = duplex(1 << 20);
    let count = Arc::new(AtomicUsize::new(0));
    let stream = Counted(server, count.clone());
    let mut serving = Serving::new(stream, Box::new(()), is_batched, Arc::new(Constant { is_brief }), &|_| {});
    tokio::spawn(async move { poll_fn(|context| serving.poll(context)).await });
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(client)).await.unwrap();
    tokio::spawn(connection);
    let get = || {
        let request = Request::get("http://host/").body(Empty::<Bytes>::new()).unwrap();
        let mut sender = sender.clone();
        async move { sender.send_request(request).await.unwrap().into_body().collect().await.unwrap().to_bytes() }
    };
    get().await;
    let before = count.load(Ordering::Relaxed);
    let bodies = join_all((0..10).map(|_| get())).await;
    assert!(bodies.iter().all(|body| body.len() == 2000));
    count.load(Ordering::Relaxed) - before
}

#[tokio::test]
async fn responses_that_are_ready_at_the_same_time_are_sent_together() {
    for is_brief in [true, false] {
        let writes = writes_for_ten_responses(is_brief, true).await;
        assert!(writes <= 3, "{writes} writes");
        assert!(writes_for_ten_responses(is_brief, false).await >= 10);
    }
}
