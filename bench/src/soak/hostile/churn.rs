//! Connections that are opened and cut: before, in and after the handshake, in a request, in a response.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use http::Method;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};

use super::{COLLECTION, Counters, raw::Target};
use crate::client::{Body, Client};

/// Time that a connection stays open in the middle of an exchange before it is cut.
const LINGER: Duration = Duration::from_millis(300);
/// Maximum time that a connection may take.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of ways to cut a connection.
const WAYS: u64 = 8;

/// Opens connections at a rate, forever.
pub(super) async fn run(target: Arc<Target>, counters: Arc<Counters>, per_second: u32) -> anyhow::Result<()> {
    let mut ticks = interval(Duration::from_secs(1) / per_second);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut open = JoinSet::new();
    loop {
        ticks.tick().await;
        while open.try_join_next().is_some() {}
        let number = counters.opened.fetch_add(1, Ordering::Relaxed);
        let (target, counters) = (target.clone(), counters.clone());
        open.spawn(async move {
            if !matches!(timeout(CONNECTION_TIMEOUT, cut(&target, number)).await, Ok(Ok(()))) {
                counters.rejected.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
}

/// Opens a connection and cuts it. Alternate rounds reset it and close it.
async fn cut(target: &Target, number: u64) -> anyhow::Result<()> {
    let abrupt = (number / WAYS).is_multiple_of(2);
    match number % WAYS {
        0 => drop(target.socket(abrupt).await?),
        1 => {
            // The beginning of a handshake that never ends.
            let mut socket = target.socket(abrupt).await?;
            socket.write_all(b"\x16\x03\x01\x02\x00\x01").await?;
            tokio::time::sleep(LINGER).await;
        }
        2 => drop(target.connect(abrupt, false).await?),
        3 => {
            let mut stream = target.connect(abrupt, false).await?;
            stream.write_all(b"GET /apis/coordination.k8s.io/v1/na").await?;
            stream.flush().await?;
            tokio::time::sleep(LINGER).await;
        }
        4 => {
            let mut stream = target.connect(abrupt, false).await?;
            stream.write_all(target.head("POST", COLLECTION, 100_000).as_bytes()).await?;
            stream.write_all(br#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"#).await?;
            stream.flush().await?;
            tokio::time::sleep(LINGER).await;
        }
        5 => {
            let mut stream = target.connect(abrupt, false).await?;
            stream.write_all(target.head("GET", COLLECTION, 0).as_bytes()).await?;
            stream.flush().await?;
            stream.read_exact(&mut [0; 2000]).await?;
        }
        6 => {
            let client = Client::connect(&target.url, &target.tls, 1).await?;
            drop(client.send(0, Method::GET, COLLECTION, Body::default()).await?);
        }
        _ => {
            let client = Client::connect(&target.url, &target.tls, 1).await?;
            let watch = client.send(0, Method::GET, &format!("{COLLECTION}?watch=1"), Body::default()).await?;
            tokio::time::sleep(LINGER).await;
            drop(watch);
        }
    }
    Ok(())
}
