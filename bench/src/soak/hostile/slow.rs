//! Clients that read lists and watches at a few bytes per second.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{COLLECTION, Counters, raw::Target};

/// Delay before a client that was disconnected connects again.
const RETRY: Duration = Duration::from_millis(500);
/// Flow-control window of HTTP/2, the smallest that its default frame size allows.
const WINDOW: u32 = 16 << 10;

/// Reads one response after the other, forever. A client alternates between HTTP/1.1 and HTTP/2, lists and watches.
pub(super) async fn run(
    target: Arc<Target>,
    counters: Arc<Counters>,
    number: usize,
    rate: usize,
) -> anyhow::Result<()> {
    let path = if number % 4 < 2 { COLLECTION.to_owned() } else { format!("{COLLECTION}?watch=1") };
    loop {
        counters.slow_responses.fetch_add(1, Ordering::Relaxed);
        // The server may disconnect a client that is too slow.
        let _ended = match number.is_multiple_of(2) {
            true => http1(&target, &path, rate, &counters).await,
            false => http2(&target, &path, rate, &counters).await,
        };
        tokio::time::sleep(RETRY).await;
    }
}

async fn http1(target: &Target, path: &str, rate: usize, counters: &Counters) -> anyhow::Result<()> {
    let mut stream = target.connect(false, false).await?;
    stream.write_all(target.head("GET", path, 0).as_bytes()).await?;
    stream.flush().await?;
    let mut buffer = vec![0; rate.max(1)];
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        pause(read, rate, counters).await;
    }
}

async fn http2(target: &Target, path: &str, rate: usize, counters: &Counters) -> anyhow::Result<()> {
    let stream = target.connect(false, true).await?;
    let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .handshake::<_, Empty<Bytes>>(TokioIo::new(stream))
        .await?;
    // Ends when the sender and the response are dropped.
    tokio::spawn(connection);
    let request = Request::get(format!("{}{path}", target.url)).body(Empty::new())?;
    let mut body = sender.send_request(request).await?.into_body();
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            pause(data.len(), rate, counters).await;
        }
    }
    Ok(())
}

/// Waits for as long as the bytes take at the rate.
async fn pause(read: usize, rate: usize, counters: &Counters) {
    counters.slow_bytes.fetch_add(read as u64, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs_f64(read as f64 / rate.max(1) as f64)).await;
}
