//! `windlass-bench`: drives kube-apiserver with etcd, Windlass, and a server of constants with the same load, one after
//! the other on the same machine, and prints how they compare.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]

mod child;
mod client;
mod figures;
mod floor;
mod kind;
mod load;
mod phase;
mod pki;
mod report;
mod servers;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, Parser, Subcommand};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    figures::{Figure, Figures, Measure, medians},
    load::Load,
    report::Results,
    servers::{Places, Which},
};

/// Memory is read so long after a server is ready: what it does at its start is then over.
const SETTLE: Duration = Duration::from_secs(1);

/// Measures Windlass beside kube-apiserver with etcd, and beside a server that answers constants
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
    /// Start kube-apiserver with etcd, write a kubeconfig, and wait for Ctrl-C
    Pair(PairArgs),
    #[command(hide = true)]
    Floor(floor::FloorArgs),
}

#[derive(Debug, Args)]
struct BenchArgs {
    /// Folder with kube-apiserver and etcd, as `cargo xtask peers` makes it [default: target/peers]
    #[arg(long, value_name = "DIR", env = "WINDLASS_PEERS")]
    peers: Option<PathBuf>,
    /// The windlass program [default: built from this workspace]
    #[arg(long, value_name = "FILE")]
    windlass: Option<PathBuf>,
    /// Folder for the servers' data; it should be on a disk [default: target/bench]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Measure only this server; may be repeated
    #[arg(long, value_enum)]
    only: Vec<Which>,
    /// Measure so many times, and take the median of each number
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Write all numbers to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    load: Load,
}

#[derive(Debug, Args)]
struct PairArgs {
    /// Folder with kube-apiserver and etcd, as `cargo xtask peers` makes it [default: target/peers]
    #[arg(long, value_name = "DIR", env = "WINDLASS_PEERS")]
    peers: Option<PathBuf>,
    /// File to write, once it serves
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
            None => bench(cli.bench).await,
        }
    };
    // Whatever happens first, the task is dropped, and with it the servers end.
    tokio::select! {
        result = task => return result,
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    if waits_for_signal { Ok(()) } else { bail!("interrupted") }
}

async fn bench(args: BenchArgs) -> anyhow::Result<()> {
    ensure!(args.runs > 0 && args.load.objects > 0, "there must be a run, and objects in it");
    if cfg!(debug_assertions) {
        eprintln!("warning: not built with --release, the client itself is slow");
    }
    let which = if args.only.is_empty() { Which::ALL.to_vec() } else { args.only };
    let places = Places {
        peers: args.peers.unwrap_or_else(|| target().join("peers")),
        windlass: match args.windlass {
            Some(program) => program,
            None if which.contains(&Which::Windlass) => build_windlass()?,
            None => PathBuf::new(),
        },
        data: args.data.unwrap_or_else(|| target().join("bench")),
    };
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
    if let Some(path) = args.json {
        let mut json = report::to_json(&results);
        json["kind"] = json!(args.load.kind.name());
        json["runs"] = json!(args.runs);
        fs::write(&path, format!("{json:#}\n")).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Starts a server, drives it, and ends it.
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
    let places = Places {
        peers: args.peers.unwrap_or_else(|| target().join("peers")),
        windlass: PathBuf::new(),
        data: target().join("bench"),
    };
    let server = servers::start_kubernetes(&places).await?;
    fs::write(&args.kubeconfig, server.pki.kubeconfig(&server.url)?)
        .with_context(|| format!("cannot write {}", args.kubeconfig.display()))?;
    println!("export KUBECONFIG={}", args.kubeconfig.display());
    std::future::pending().await
}

/// The target folder of the workspace.
fn target() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("bench must lie in the workspace");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from)
}

fn build_windlass() -> anyhow::Result<PathBuf> {
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--package", "windlass-cli"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "windlass does not build; --windlass FILE takes one that is built");
    Ok(target().join("release").join("windlass"))
}
