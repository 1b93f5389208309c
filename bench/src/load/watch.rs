//! Watch fan-out: many watches of one collection, and how fast the events of some writes reach all of them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use http::Method;
use http_body_util::BodyExt as _;
use tokio::{sync::Barrier, task::JoinSet, time::timeout};

use super::Load;
use crate::{
    client::{Body, Client, rejection},
    phase::{self, Plan, Samples},
};

/// Number of concurrent writes.
const WRITERS: usize = 16;
/// Maximum time for the watches to start, and the last event to arrive.
const WATCH_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns one sample per event and watcher. The latencies are those of the writes.
pub(super) async fn fan_out(client: &Client, load: &Arc<Load>) -> anyhow::Result<Samples> {
    let (status, list) =
        client.ask(Method::GET, &format!("{}?limit=1", load.kind.collection()), Body::default()).await?;
    ensure!(status.is_success(), "list: {status}: {list}");
    let revision = list["metadata"]["resourceVersion"].as_str().context("a list must have a resourceVersion")?;
    let path = format!("{}?watch=1&resourceVersion={revision}", load.kind.collection());

    let begun = Arc::new(Barrier::new(load.watchers + 1));
    let (events, bytes) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
    let mut watches = JoinSet::new();
    for lane in 0..load.watchers {
        let (client, path, begun, events, bytes) =
            (client.clone(), path.clone(), begun.clone(), events.clone(), bytes.clone());
        let wanted = load.watch_events;
        watches.spawn(async move {
            let response = client.send(lane, Method::GET, &path, Body::default()).await?;
            if !response.status().is_success() {
                return Err(rejection(response).await);
            }
            begun.wait().await;
            let mut body = response.into_body();
            let mut seen = 0;
            while seen < wanted {
                let Some(frame) = body.frame().await else { bail!("a watch ended after {seen} of {wanted} events") };
                if let Some(data) = frame?.data_ref() {
                    let lines = lines(data);
                    seen += lines;
                    events.fetch_add(lines, Ordering::Relaxed);
                    bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
                }
            }
            Ok(())
        });
    }
    tokio::select! {
        waited = timeout(WATCH_TIMEOUT, begun.wait()) => { waited.context("the watches did not start")?; }
        Some(ended) = watches.join_next() => {
            ended??;
            bail!("a watch ended before it started");
        }
    }

    let start = Instant::now();
    let (writer, writes) = (client.clone(), load.clone());
    let plan = Plan { requests: load.watch_events, lanes: WRITERS, at_least: Duration::ZERO };
    let written = phase::run(plan, move |lane, number| {
        // Values that no earlier phase wrote: a patch that changes nothing creates no event.
        let (path, body) = writes.kind.merge_patch(number % writes.objects, 1_000_000 + number);
        let client = writer.clone();
        async move { client.measure(lane, Method::PATCH, &path, body).await }
    })
    .await?;
    let arrived = async {
        while let Some(watch) = watches.join_next().await {
            watch??;
        }
        anyhow::Ok(())
    };
    timeout(WATCH_TIMEOUT, arrived)
        .await
        .with_context(|| format!("only {} events arrived", events.load(Ordering::Relaxed)))??;

    let elapsed = start.elapsed();
    let events = events.load(Ordering::Relaxed);
    // The rate is computed from the number of samples; each write stands for the events it caused.
    let micros =
        written.micros.iter().flat_map(|micros| std::iter::repeat_n(*micros, events / written.micros.len())).collect();
    Ok(Samples { elapsed, micros, bytes: bytes.load(Ordering::Relaxed) })
}

/// Counts the events that end in this piece of a stream, in chunks whose count fits a byte, which compilers vectorise.
fn lines(data: &[u8]) -> usize {
    let count = |chunk: &[u8]| chunk.iter().fold(0_u8, |count, byte| count + u8::from(*byte == b'\n'));
    data.chunks(usize::from(u8::MAX)).map(|chunk| usize::from(count(chunk))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_however_many() {
        assert_eq!(lines(b""), 0);
        assert_eq!(lines(b"a\nb\nc"), 2);
        assert_eq!(lines(&[b'\n'; 1000]), 1000);
    }
}
