//! `windlass-bench`: drives kube-apiserver with etcd, Windlass, and a server of constants with the same load, one after
//! the other on the same machine, and prints the comparison.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]

mod access;
mod client;
mod definition;
mod definitions;
mod envtest;
mod figures;
mod floor;
mod kills;
mod kind;
mod load;
mod phase;
mod pki;
mod policies;
mod projects;
mod recovery;
mod report;
mod scale;
mod servers;
mod setup;
mod soak;

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, Parser, Subcommand};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    figures::{Figure, Figures, Measure, medians},
    load::Load,
    report::Results,
    servers::{Places, Which},
    setup::SetupArgs,
};

/// Delay between readiness and the first memory reading, so that start-up work is over.
const SETTLE: Duration = Duration::from_secs(1);

/// Compare Windlass with kube-apiserver and etcd, and with a server that returns constant responses
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Task>,
    #[command(flatten)]
    bench: BenchArgs,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Start kube-apiserver with etcd, write a kubeconfig, and wait for Ctrl-C. SIGHUP kills both and starts them again
    Pair(PairArgs),
    Access(access::AccessArgs),
    Definitions(definitions::DefinitionsArgs),
    Envtest(envtest::EnvtestArgs),
    Soak(soak::SoakArgs),
    Kills(kills::KillsArgs),
    Faults(kills::faults::FaultsArgs),
    Policies(policies::PoliciesArgs),
    Projects(projects::ProjectsArgs),
    Recovery(recovery::RecoveryArgs),
    Scale(scale::ScaleArgs),
    #[command(hide = true)]
    Floor(floor::FloorArgs),
}

#[derive(Debug, Args)]
struct BenchArgs {
    #[command(flatten)]
    setup: SetupArgs,
    /// Number of runs; the median of each number is reported
    #[arg(long, default_value_t = 1)]
    runs: usize,
    #[command(flatten)]
    load: Load,
}

#[derive(Debug, Args)]
struct PairArgs {
    /// Directory with kube-apiserver and etcd, as built by `cargo xtask peers` [default: target/peers]
    #[arg(long, value_name = "DIR", env = "WINDLASS_PEERS")]
    peers: Option<PathBuf>,
    /// File to write once the servers are ready
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let mut terminate = signal(SignalKind::terminate())?;
    let waits_for_signal = matches!(cli.command, Some(Task::Pair(_)));
    let task = async {
        match cli.command {
            Some(Task::Floor(args)) => floor::serve(args).await,
            Some(Task::Pair(args)) => pair(args).await,
            Some(Task::Access(args)) => access::run(args).await,
            Some(Task::Definitions(args)) => definitions::run(args).await,
            Some(Task::Policies(args)) => policies::run(args).await,
            Some(Task::Soak(args)) => soak::run(args).await,
            Some(Task::Kills(args)) => kills::run(args).await,
            Some(Task::Faults(args)) => kills::faults::run(args).await,
            Some(Task::Recovery(args)) => recovery::run(args).await,
            Some(Task::Scale(args)) => scale::run(args).await,
            // Nothing else runs in the meantime.
            Some(Task::Envtest(args)) => tokio::task::block_in_place(|| envtest::run(args)),
            Some(Task::Projects(args)) => tokio::task::block_in_place(|| projects::run(args)),
            None => bench(cli.bench).await,
        }
    };
    // Whichever completes first, the task is dropped, which ends the servers.
    tokio::select! {
        result = task => return result,
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    if waits_for_signal { Ok(()) } else { bail!("interrupted") }
}

async fn bench(args: BenchArgs) -> anyhow::Result<()> {
    ensure!(args.runs > 0 && args.load.objects > 0, "--runs and --objects must be at least 1");
    let which = args.setup.servers(&Which::ALL);
    let places = args.setup.places(&which)?;
    let mut runs: Vec<(Which, Figures)> = Vec::new();
    for run in 1..=args.runs {
        for which in &which {
            eprintln!("\n{} (run {run} of {})", which.title(), args.runs);
            runs.push((*which, measure(*which, &places, &args.load).await.with_context(|| which.title())?));
        }
    }
    let results: Results = which
        .iter()
        .map(|which| {
            let of_one = runs.iter().filter(|(other, _)| other == which).map(|(_, figures)| figures.clone());
            (*which, medians(&of_one.collect::<Vec<_>>()))
        })
        .collect();
    println!("\n{}", report::table(&results));
    let mut json = report::to_json(&results);
    json["kind"] = json!(args.load.kind.name());
    json["runs"] = json!(args.runs);
    args.setup.write_json(&json)
}

/// Starts a server, drives it and stops it.
async fn measure(which: Which, places: &Places, load: &Load) -> anyhow::Result<Figures> {
    let server = servers::start(which, places, load).await?;
    tokio::time::sleep(SETTLE).await;
    let memory = server.memory()? as f64;
    eprintln!("  ready in {:.1} ms, {:.1} MB", server.ready_in.as_secs_f64() * 1e3, memory / 1e6);
    let mut figures = load::drive(&server, load).await?;
    let loaded = server.memory()? as f64;
    eprintln!("  {:.1} MB after the load", loaded / 1e6);
    figures.insert(Measure::Start, Figure::plain(server.ready_in.as_secs_f64()));
    figures.insert(Measure::MemoryAfterStart, Figure::plain(memory));
    figures.insert(Measure::MemoryAfterLoad, Figure::plain(loaded));
    Ok(figures)
}

async fn pair(args: PairArgs) -> anyhow::Result<()> {
    let mut restart = signal(SignalKind::hangup())?;
    let places = setup::peers(args.peers);
    let mut server = servers::start_empty(Which::Kubernetes, &places).await?;
    fs::write(&args.kubeconfig, server.pki.kubeconfig(&server.url)?)
        .with_context(|| format!("cannot write {}", args.kubeconfig.display()))?;
    println!("export KUBECONFIG={}", args.kubeconfig.display());
    while restart.recv().await.is_some() {
        server = servers::kill_and_restart(server, Which::Kubernetes, &places).await?;
        println!("restarted in {:.1?}", server.ready_in);
    }
    std::future::pending().await
}
