//! The measurements of one size, in order.

use std::time::{Duration, Instant};

use http::Method;

use super::{
    figure::{Figure, Figures},
    following, reads,
};
use crate::{
    client::{Body, Client},
    kind::Kind,
    load::ensure_namespace,
    phase::{self, Plan},
    servers::{self, Places, Running, Which},
};

/// The smallest size: three pages.
pub(super) const FEWEST: usize = 1_000;
/// Number of concurrent creates.
const LANES: usize = 32;
const CONNECTIONS: usize = 4;

/// Fills a server, measures it, restarts it and measures it again.
pub(super) async fn run(objects: usize, places: &Places) -> anyhow::Result<Figures> {
    let mut figures = Figures::new();
    let server = servers::start_empty(Which::Windlass, places).await?;
    let client = Client::connect(&server.url, &server.tls, CONNECTIONS).await?;
    ensure_namespace(&client).await?;
    if let Some(definition) = Kind::Widget.definition() {
        definition.ensure(&client).await?;
    }
    let empty = server.memory_at_rest().await?;
    fill(&client, objects, &mut figures).await?;
    figures.insert(Figure::Memory, per_object(server.memory_at_rest().await?, empty, objects));
    figures.insert(Figure::Disk, server.disk()? as f64 / objects as f64);
    eprintln!("  filled");
    reads::measure(&client, objects, &mut figures).await?;
    eprintln!("  read");
    following::measure(&client, &mut figures).await?;
    eprintln!("  watched");
    drop(client);

    let server = servers::restart(server, Which::Windlass, places).await?;
    restarted(&server, &mut figures).await?;
    figures.insert(Figure::MemoryAfterRestart, per_object(server.memory_at_rest().await?, empty, objects));
    eprintln!("  restarted");
    Ok(figures)
}

/// Creates the objects.
async fn fill(client: &Client, objects: usize, figures: &mut Figures) -> anyhow::Result<()> {
    let plan = Plan { requests: objects, lanes: LANES, at_least: Duration::ZERO };
    let writer = client.clone();
    let created = phase::run(plan, move |lane, number| {
        let client = writer.clone();
        async move {
            let object = Kind::Widget.object(number, Kind::Widget.payload());
            client.measure(lane, Method::POST, &Kind::Widget.collection(), Body::json(&object)).await
        }
    })
    .await?;
    figures.insert(Figure::Create, created.per_second());
    figures.insert(Figure::ObjectBytes, created.bytes as f64 / objects as f64);
    Ok(())
}

/// Measures the time after a restart.
async fn restarted(server: &Running, figures: &mut Figures) -> anyhow::Result<()> {
    let begin = Instant::now();
    figures.insert(Figure::Restart, server.ready_in.as_secs_f64());
    let client = Client::connect(&server.url, &server.tls, 1).await?;
    let first = timed_list(&client).await?;
    server.settle().await?;
    figures.insert(Figure::Settled, begin.elapsed().as_secs_f64());
    let next = timed_list(&client).await?.min(timed_list(&client).await?);
    figures.insert(Figure::ListAfterRestart, first);
    figures.insert(Figure::FirstList, first / next);
    Ok(())
}

async fn timed_list(client: &Client) -> anyhow::Result<f64> {
    let begin = Instant::now();
    reads::list(client).await?;
    Ok(begin.elapsed().as_secs_f64())
}

fn per_object(memory: u64, empty: u64, objects: usize) -> f64 {
    (memory as f64 - empty as f64).max(0.0) / objects as f64
}
