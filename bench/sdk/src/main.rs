//! `windlass-bench-sdk`: fills a server with custom resources, lets the Windlass runtime, kube-runtime and
//! controller-runtime watch, queue and reconcile them one after the other, and prints the comparison.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]

mod arrivals;
mod contender;
mod report;
mod server;
mod subject;
mod subjects;
mod widget;

use std::path::PathBuf;

use anyhow::ensure;
use clap::{Args, Parser, Subcommand};
use windlass_bench::program::{build_windlass, target};

use crate::{
    contender::{Contender, Run},
    report::Figures,
    server::Server,
    subject::SubjectArgs,
};

/// Compare the Windlass runtime with kube-runtime and controller-runtime
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
    #[command(hide = true)]
    Subject(SubjectArgs),
}

#[derive(Debug, Args)]
struct BenchArgs {
    /// Objects to sync
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    /// Keys in the largest queue
    #[arg(long, default_value_t = 1_000_000)]
    keys: usize,
    /// Concurrent reconciles
    #[arg(long, default_value_t = 8)]
    concurrency: u16,
    /// Existing objects while writes are timed
    #[arg(long, default_value_t = 10_000)]
    latency_objects: usize,
    /// Rates of the timed writes, in writes per second, one after the other
    #[arg(long, value_delimiter = ',', default_values_t = [200, 1000])]
    rate: Vec<u32>,
    /// Timed writes per rate
    #[arg(long, default_value_t = 10_000)]
    writes: usize,
    /// Number of runs; the median of each number is reported
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Measure only this runtime; may be repeated
    #[arg(long, value_enum)]
    only: Vec<Contender>,
    /// windlass program to serve with [default: built from this workspace]
    #[arg(long, value_name = "FILE")]
    windlass: Option<PathBuf>,
    /// Directory for the server's data; it should be on a disk [default: target/bench]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    match cli.command {
        Some(Task::Subject(args)) => subject::run(args).await,
        None => measure(cli.bench).await,
    }
}

async fn measure(args: BenchArgs) -> anyhow::Result<()> {
    let contenders = if args.only.is_empty() { Contender::ALL.to_vec() } else { args.only.clone() };
    let windlass = match &args.windlass {
        Some(file) => file.clone(),
        None => build_windlass()?,
    };
    let data = args.data.clone().unwrap_or_else(|| target().join("bench"));
    let programs = contender::Programs::build(&contenders)?;
    let mut figures = Figures::default();
    for run in 1..=args.runs {
        eprintln!("run {run} of {}: making {} widgets", args.runs, args.objects);
        let server = Server::start(&windlass, &data).await?;
        server.populate(args.objects).await?;
        for &contender in contenders.iter().filter(|contender| **contender != Contender::Floor) {
            let run = Run { contender, programs: &programs, server: &server, concurrency: args.concurrency };
            eprintln!("{}", contender.title());
            let synced = run.sync(args.objects)?;
            ensure!(synced.objects == args.objects, "{} found {} objects", contender.title(), synced.objects);
            figures.synced(contender, synced);
            figures.reconciled(contender, run.reconcile(args.objects)?);
        }
        drop(server);
        let server = Server::start(&windlass, &data).await?;
        server.populate(args.latency_objects).await?;
        for &contender in &contenders {
            eprintln!("{}: latency and queue", contender.title());
            let run = Run { contender, programs: &programs, server: &server, concurrency: args.concurrency };
            for &rate in &args.rate {
                figures.latencies(contender, rate, run.latency(args.latency_objects, rate, args.writes).await?);
            }
            if contender == Contender::Floor {
                continue;
            }
            for keys in [args.keys / 100, args.keys / 10, args.keys] {
                figures.queued(contender, run.queue(keys)?);
            }
        }
    }
    figures.print(&contenders);
    Ok(())
}
