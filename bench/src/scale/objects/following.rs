//! Watches: how fast they start, how fast events arrive, and the first sync of an informer.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::{
    figure::{Figure, Figures},
    reads::{both, repeated},
};
use crate::{
    client::{Body, Client, rejection},
    kind::Kind,
    phase::Samples,
};

/// The number of watches that are started.
const STARTS: usize = 200;
/// The number of writes that are watched.
const WRITES: usize = 300;
/// What the bookmark after the initial events contains.
const INITIAL_EVENTS_END: &[u8] = b"k8s.io/initial-events-end";
/// The maximum length of that bookmark.
const BOOKMARK: usize = 512;

pub(super) async fn measure(client: &Client, figures: &mut Figures) -> anyhow::Result<()> {
    let (status, list) =
        client.ask(Method::GET, &format!("{}?limit=1", Kind::Widget.collection()), Body::default()).await?;
    ensure!(status.is_success(), "list: {status}: {list}");
    let revision = list["metadata"]["resourceVersion"].as_str().context("a list must have a resourceVersion")?;
    let newest = format!("resourceVersion={revision}");
    let query = newest.clone();
    let starts = repeated(STARTS, client, move |client, _| {
        let query = query.clone();
        async move { watch(&client, &query).await.map(|_| 0) }
    })
    .await?;
    both(figures, &starts, Figure::WatchStart, Figure::WatchStartSlow);
    both(figures, &events(client, watch(client, &newest).await?).await?, Figure::Event, Figure::EventSlow);
    figures.insert(Figure::Sync, sync(client).await?.as_secs_f64());
    Ok(())
}

/// Starts a watch.
async fn watch(client: &Client, query: &str) -> anyhow::Result<Incoming> {
    let path = format!("{}?watch=1&{query}", Kind::Widget.collection());
    // Writes use another connection.
    let response = client.send(1, Method::GET, &path, Body::default()).await?;
    if !response.status().is_success() {
        return Err(rejection(response).await);
    }
    Ok(response.into_body())
}

/// Writes objects one after the other; returns the times from sending each write to its event.
async fn events(client: &Client, mut watch: Incoming) -> anyhow::Result<Samples> {
    let (mut micros, start) = (Vec::new(), Instant::now());
    for number in 0..WRITES {
        let (path, patch) = Kind::Widget.merge_patch(number, 1_000);
        let begin = Instant::now();
        let write = client.measure(0, Method::PATCH, &path, patch);
        let (written, arrived) = tokio::join!(write, line(&mut watch));
        written?;
        micros.push(u32::try_from((arrived? - begin).as_micros())?);
    }
    micros.sort_unstable();
    Ok(Samples { elapsed: start.elapsed(), micros, bytes: 0 })
}

/// Waits for the end of a line.
async fn line(watch: &mut Incoming) -> anyhow::Result<Instant> {
    loop {
        let Some(frame) = watch.frame().await else { bail!("a watch ended") };
        if frame?.data_ref().is_some_and(|data| data.ends_with(b"\n")) {
            return Ok(Instant::now());
        }
    }
}

/// Returns the time until an informer has all objects, which it requests as the initial events of a watch.
pub(super) async fn sync(client: &Client) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let (mut watch, mut tail) = (watch(client, query).await?, Vec::new());
    loop {
        let Some(frame) = watch.frame().await else { bail!("a watch ended before its initial events") };
        let Ok(data) = frame?.into_data() else { continue };
        tail.extend_from_slice(&data[data.len().saturating_sub(BOOKMARK)..]);
        tail.drain(..tail.len().saturating_sub(BOOKMARK));
        if tail.windows(INITIAL_EVENTS_END.len()).any(|window| window == INITIAL_EVENTS_END) {
            return Ok(begin.elapsed());
        }
    }
}
