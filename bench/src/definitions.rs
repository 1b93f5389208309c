//! CRDs as the load: how soon a new one accepts an object, and what many of them cost.

mod first_instance;
mod many;
mod progress;
mod table;

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Args;
use serde_json::{Value, json};
use windlass_bench::table::thousands;

use self::{first_instance::FirstInstances, many::Written};
use crate::{
    client::Client,
    definition::Definition,
    figures::Unit,
    load,
    report::show,
    servers::{self, Places, Running, Which},
    setup::SetupArgs,
};

/// The servers that can store CRDs.
const SERVERS: [Which; 2] = [Which::Kubernetes, Which::Windlass];

/// Measure CustomResourceDefinitions: write to first object, and many of them across a restart
#[derive(Debug, Args)]
pub(crate) struct DefinitionsArgs {
    #[command(flatten)]
    setup: SetupArgs,
    /// CRDs created one by one, each timed from its write to its first accepted object
    #[arg(long, value_name = "N", default_value_t = 20)]
    samples: usize,
    /// CRDs that Windlass stores
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    definitions: usize,
    /// CRDs that kube-apiserver stores
    #[arg(long, value_name = "N", default_value_t = 200)]
    kubernetes_definitions: usize,
    /// Concurrent requests
    #[arg(long, value_name = "N", default_value_t = 32)]
    concurrency: usize,
    /// HTTP/2 connections
    #[arg(long, value_name = "N", default_value_t = 4)]
    connections: usize,
}

/// Results of one server.
#[derive(Debug)]
struct Outcome {
    first: FirstInstances,
    written: Written,
    /// A restart without CRDs.
    empty: Restart,
    /// A restart with the samples and the many.
    full: Restart,
    /// Number of CRDs stored at that restart.
    kept: usize,
}

/// A start on existing data.
#[derive(Debug)]
struct Restart {
    /// Time to the first successful `/readyz`.
    ready: Duration,
    /// Time to the first list of objects of the last CRD, if there is one.
    served: Duration,
    /// Resident memory once the server is idle.
    memory: u64,
}

/// Measures the servers one after the other and prints the comparison.
pub(crate) async fn run(args: DefinitionsArgs) -> anyhow::Result<()> {
    ensure!(
        args.samples > 0 && args.definitions > 0 && args.kubernetes_definitions > 0,
        "--samples, --definitions and --kubernetes-definitions must be at least 1"
    );
    ensure!(args.concurrency > 0 && args.connections > 0, "--concurrency and --connections must be at least 1");
    let which = args.setup.servers(&SERVERS);
    ensure!(!which.contains(&Which::Floor), "the floor has no CRDs: remove `--only floor`");
    let places = args.setup.places(&which)?;
    let mut outcomes = Vec::new();
    for which in which {
        eprintln!("\n{}", which.title());
        outcomes.push((which, measure(which, &places, &args).await.with_context(|| which.title())?));
    }
    println!("\n{}", table::table(&outcomes));
    let json: serde_json::Map<String, Value> =
        outcomes.iter().map(|(which, outcome)| (which.title().to_owned(), outcome.to_json())).collect();
    args.setup.write_json(&json!({"servers": json}))
}

async fn measure(which: Which, places: &Places, args: &DefinitionsArgs) -> anyhow::Result<Outcome> {
    let count = if which == Which::Kubernetes { args.kubernetes_definitions } else { args.definitions };
    let server = servers::start_empty(which, places).await?;
    server.settle().await?;
    let (server, empty) = restart(server, which, places, None).await.context("failed to restart without CRDs")?;

    let client = Client::connect(&server.url, &server.tls, args.connections).await?;
    load::ensure_namespace(&client).await?;
    let first =
        first_instance::measure(&client, args.samples).await.context("failed to measure write to first object")?;
    let numbers = args.samples..args.samples + count;
    let last = Definition::numbered(numbers.end - 1);
    let written = many::write(&server, &client, numbers, args.concurrency).await.with_context(|| {
        let flag = if which == Which::Kubernetes { "--kubernetes-definitions" } else { "--definitions" };
        format!("failed to write {} CRDs; use {flag} for fewer", thousands(count as u64))
    })?;

    drop(client);
    let (_server, full) =
        restart(server, which, places, Some(&last)).await.context("failed to restart with the CRDs")?;
    Ok(Outcome { first, written, empty, full, kept: args.samples + count })
}

/// Restarts a server, waits until it serves the CRD's objects and is idle, and prints the result.
async fn restart(
    server: Running,
    which: Which,
    places: &Places,
    last: Option<&Definition>,
) -> anyhow::Result<(Running, Restart)> {
    let server = servers::restart(server, which, places).await?;
    let begin = Instant::now();
    if let Some(last) = last {
        Client::connect(&server.url, &server.tls, 1).await?.until_served(0, &last.collection()).await?;
    }
    let served = server.ready_in + begin.elapsed();
    server.settle().await?;
    let restart = Restart { ready: server.ready_in, served, memory: server.memory()? };
    eprintln!(
        "  restart {} CRDs: ready in {}, serves in {}, {:.1} MB",
        if last.is_some() { "with the" } else { "without" },
        show(Unit::Seconds, restart.ready.as_secs_f64()),
        show(Unit::Seconds, restart.served.as_secs_f64()),
        restart.memory as f64 / 1e6
    );
    Ok((server, restart))
}

impl Outcome {
    fn to_json(&self) -> Value {
        json!({"firstInstance": self.first.to_json(), "written": self.written.to_json(), "definitionsKept": self.kept,
            "emptyRestart": self.empty.to_json(), "fullRestart": self.full.to_json()})
    }
}

impl Restart {
    fn to_json(&self) -> Value {
        json!({"readySeconds": self.ready.as_secs_f64(), "servedSeconds": self.served.as_secs_f64(),
            "memoryBytes": self.memory})
    }
}
