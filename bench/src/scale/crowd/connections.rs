//! Connections with watches on each, and the events that all of them get.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::{sync::Notify, task::JoinSet, time::timeout};

use super::{CrowdArgs, Row, probe::Probe};
use crate::{
    client::{Body, Client, rejection},
    figures::Unit,
    kind::Kind,
    load::ensure_namespace,
    phase::{self, Plan, Samples},
    servers::{self, Places, Which},
};

/// Number of objects that are written.
const WRITES: usize = 20;
/// Maximum time for an event to reach all watches.
const ARRIVES_WITHIN: Duration = Duration::from_secs(60);
/// Watches that are started at the same time.
const LANES: usize = 8;

pub(super) async fn measure(args: &CrowdArgs, places: &Places) -> anyhow::Result<Vec<Row>> {
    eprintln!("\n{} connections with {} watches", args.connections, args.watches);
    let server = servers::start_empty(Which::Windlass, places).await?;
    let client = Client::connect(&server.url, &server.tls, 1).await?;
    ensure_namespace(&client).await?;
    for number in 0..WRITES {
        client.ensure(&Kind::Configmap.collection(), &Kind::Configmap.object(number, 100)).await?;
    }
    let before = server.memory_at_rest().await?;

    let (mut clients, mut micros, start) = (Vec::new(), Vec::new(), Instant::now());
    for _ in 0..args.connections {
        let begin = Instant::now();
        clients.push(Client::connect(&server.url, &server.tls, 1).await?);
        micros.push(u32::try_from(begin.elapsed().as_micros())?);
    }
    micros.sort_unstable();
    let connected = Samples { elapsed: start.elapsed(), micros, bytes: 0 };
    let with_connections = server.memory_at_rest().await?;

    let arrivals = Arc::new(Arrivals::new(args.watches));
    let (started, mut watches) = watch(args, &client, clients, &arrivals).await?;
    let with_watches = server.memory_at_rest().await?;

    let probe = Probe::start(Client::connect(&server.url, &server.tls, 1).await?, Kind::Configmap.path(0));
    let (half, all) = tokio::select! {
        written = write(&client, &arrivals) => written?,
        Some(ended) = watches.join_next() => {
            ended??;
            bail!("a watch ended");
        }
    };
    let gets = probe.end().await?;
    let each = |memory: u64, before: u64, count: usize| memory.saturating_sub(before) as f64 / count as f64;
    Ok(vec![
        Row::one("connections", Unit::Count, args.connections as f64),
        Row::latencies("connect", &connected),
        Row::one("memory per connection", Unit::Bytes, each(with_connections, before, args.connections)),
        Row::one("watches", Unit::Count, args.watches as f64),
        Row::latencies("watch to response", &started),
        Row::one("memory per watch", Unit::Bytes, each(with_watches, with_connections, args.watches)),
        Row::latencies("write to event at half of the watches", &half),
        Row::latencies("write to event at all watches", &all),
        Row::latencies("get at the same time", &gets),
    ])
}

/// Counts the watches that an event has reached.
struct Arrivals {
    watches: usize,
    count: AtomicUsize,
    half: Notify,
    all: Notify,
}

impl Arrivals {
    fn new(watches: usize) -> Self {
        Self { watches, count: AtomicUsize::new(0), half: Notify::new(), all: Notify::new() }
    }

    fn add(&self) {
        let count = self.count.fetch_add(1, Ordering::AcqRel) + 1;
        if count == self.watches.div_ceil(2) {
            self.half.notify_one();
        }
        if count == self.watches {
            self.all.notify_one();
        }
    }
}

/// Starts all watches.
async fn watch(
    args: &CrowdArgs,
    client: &Client,
    clients: Vec<Client>,
    arrivals: &Arc<Arrivals>,
) -> anyhow::Result<(Samples, JoinSet<anyhow::Result<()>>)> {
    let path = format!("{}?limit=1", Kind::Configmap.collection());
    let (status, list) = client.ask(Method::GET, &path, Body::default()).await?;
    ensure!(status.is_success(), "list: {status}: {list}");
    let revision = list["metadata"]["resourceVersion"].as_str().context("a list must have a resourceVersion")?;
    let path = format!("{}?watch=1&resourceVersion={revision}", Kind::Configmap.collection());
    let (bodies, mut received) = tokio::sync::mpsc::channel(args.watches);
    let plan = Plan { requests: args.watches, lanes: LANES, at_least: Duration::ZERO };
    let clients: Arc<[Client]> = clients.into();
    let started = phase::run(plan, move |_, number| {
        let (clients, path, bodies) = (clients.clone(), path.clone(), bodies.clone());
        async move {
            let client = clients[number % clients.len()].clone();
            let response = client.send(0, Method::GET, &path, Body::default()).await?;
            if !response.status().is_success() {
                return Err(rejection(response).await);
            }
            bodies.send((client, response.into_body())).await?;
            Ok(0)
        }
    })
    .await?;
    let mut watches = JoinSet::new();
    while let Some((client, body)) = received.recv().await {
        watches.spawn(follow(client, body, arrivals.clone()));
    }
    Ok((started, watches))
}

/// Counts events until the watch ends. The client keeps the connection open.
async fn follow(_client: Client, mut body: Incoming, arrivals: Arc<Arrivals>) -> anyhow::Result<()> {
    while let Some(frame) = body.frame().await {
        if frame?.data_ref().is_some_and(|data| data.ends_with(b"\n")) {
            arrivals.add();
        }
    }
    bail!("a watch ended")
}

/// Writes one object after the other, each when all watches have the event of the one before; returns the times until half
/// of the watches have an event, and until all of them have it.
async fn write(client: &Client, arrivals: &Arrivals) -> anyhow::Result<(Samples, Samples)> {
    let (mut half, mut all, start) = (Vec::new(), Vec::new(), Instant::now());
    for number in 0..WRITES {
        arrivals.count.store(0, Ordering::Release);
        let (path, patch) = Kind::Configmap.merge_patch(number, 1_000);
        let begin = Instant::now();
        let arrived = async {
            arrivals.half.notified().await;
            half.push(u32::try_from(begin.elapsed().as_micros())?);
            arrivals.all.notified().await;
            all.push(u32::try_from(begin.elapsed().as_micros())?);
            anyhow::Ok(())
        };
        let written = client.measure(0, Method::PATCH, &path, patch);
        let (written, arrived) = tokio::join!(written, timeout(ARRIVES_WITHIN, arrived));
        written?;
        let count = || format!("an event reached {} watches", arrivals.count.load(Ordering::Relaxed));
        arrived.with_context(count)??;
    }
    let samples = |mut micros: Vec<u32>| {
        micros.sort_unstable();
        Samples { elapsed: start.elapsed(), micros, bytes: 0 }
    };
    Ok((samples(half), samples(all)))
}
