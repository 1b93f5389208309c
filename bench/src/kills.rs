//! `windlass-bench kills`: kills the server again and again under load, and checks every response that clients
//! received.

mod checker;
pub(crate) mod faults;
mod history;
mod lane;
mod object;
mod random;
mod report;
mod seeded;
mod traffic;
mod victim;
mod watcher;

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde_json::json;

use self::{
    history::History,
    lane::Shared,
    random::Random,
    report::Totals,
    seeded::SeededBug,
    traffic::{Recording, Traffic},
    victim::Victim,
};
use crate::{
    servers::{Places, Which},
    setup::SetupArgs,
};

/// Number of violations that are printed.
const PRINTED: usize = 5;

/// Kill the server under load, restart it on its data, and check that no acknowledged write is lost, that objects are
/// linearizable, and that lists and watches are complete
#[derive(Debug, Args)]
pub(crate) struct KillsArgs {
    #[command(flatten)]
    setup: SetupArgs,
    /// Number of kills
    #[arg(long, default_value_t = 1000)]
    kills: u32,
    /// Mean time between the start of the server and its next kill; the moments are random
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5)]
    seconds_between: f64,
    /// Number of kills on one data directory, whose history is checked as a whole
    #[arg(long, value_name = "N", default_value_t = 50)]
    kills_per_history: u32,
    #[command(flatten)]
    load: LoadArgs,
}

/// The clients and their objects.
#[derive(Debug, Args)]
struct LoadArgs {
    /// Number of clients that write and read
    #[arg(long, default_value_t = 16)]
    clients: u32,
    /// Number of clients that watch
    #[arg(long, default_value_t = 4)]
    watchers: u32,
    /// Number of objects
    #[arg(long, default_value_t = 40)]
    keys: u32,
    /// Size of an object's payload in bytes
    #[arg(long, default_value_t = 200)]
    payload: usize,
    /// Seed of the random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Bug to imitate; the run must then fail
    #[arg(long, value_enum)]
    seed_bug: Option<SeededBug>,
}

pub(crate) async fn run(args: KillsArgs) -> anyhow::Result<()> {
    let positive = args.kills > 0 && args.kills_per_history > 0 && args.load.clients > 0 && args.load.keys > 0;
    ensure!(positive, "--kills, --kills-per-history, --clients and --keys must be at least 1");
    ensure!(args.seconds_between.is_finite() && args.seconds_between >= 0.0, "--seconds-between must be positive");
    let places = args.setup.places(&[Which::Windlass])?;
    let mut totals = Totals::default();
    let begin = Instant::now();
    let mut left = args.kills;
    for number in 1.. {
        let kills = left.min(args.kills_per_history);
        left -= kills;
        let seed = args.load.seed.wrapping_mul(1_000_003).wrapping_add(number);
        let mut recorded = record(&args, &places, kills, seed).await.with_context(|| format!("history {number}"))?;
        let history = std::mem::take(&mut recorded.history);
        let (history, verdict) = tokio::task::spawn_blocking(move || {
            let verdict = checker::check(&history);
            (history, verdict)
        })
        .await?;
        totals.add(&history, &recorded, &verdict);
        eprintln!("history {number}: {}", report::line(history.faults.len(), "kills", &history, &verdict));
        for violation in verdict.violations.iter().take(PRINTED) {
            println!("\nVIOLATION: {violation}");
        }
        if !verdict.violations.is_empty() {
            if args.load.seed_bug.is_none() {
                println!("\nthe data directory is kept in {}", recorded.victim.keep().display());
            }
            break;
        }
        if left == 0 {
            break;
        }
    }
    totals.elapsed = begin.elapsed();
    println!("\n{}\n{}", totals.table(), totals.by_type());
    let mut json = totals.to_json();
    json["seed"] = json!(args.load.seed);
    args.setup.write_json(&json)?;
    if totals.violations > 0 {
        bail!("{} violations, {} acknowledged writes lost", totals.violations, totals.lost);
    }
    Ok(())
}

/// A history with the figures that are not part of it.
struct Recorded {
    history: History,
    recording: Recording,
    victim: Victim,
}

/// Runs the load on a new data directory and records its history.
async fn record(args: &KillsArgs, places: &Places, kills: u32, seed: u64) -> anyhow::Result<Recorded> {
    let shared = Shared::new(&args.load, 1);
    let mut victim = Victim::start(places, shared.clone()).await?;
    let mut traffic = Traffic::begin(shared.clone(), &args.load, seed).await?;
    let mut random = Random::new(seed, u64::MAX);
    let mut loses_writes_once = shared.bugs.loses_writes();
    while victim.killed() < kills {
        let until = Duration::from_secs_f64(args.seconds_between * (0.1 + 1.8 * random.share()));
        traffic.run_for(until).await?;
        let loses_writes = loses_writes_once && victim.killed() >= kills / 2;
        loses_writes_once &= !loses_writes;
        victim.kill(loses_writes).await?;
        let again = victim.killed() < kills && random.below(10) == 0;
        let restarted = victim.restart(again.then(|| random.share())).await;
        restarted.with_context(|| format!("after kill {}", victim.killed()))?;
    }
    // The last kill is followed by as much load as the others.
    traffic.run_for(Duration::from_secs_f64(args.seconds_between)).await?;
    let mut recording = traffic.end().await?;
    let history = History { faults: victim.kills.clone(), ..std::mem::take(&mut recording.history) };
    Ok(Recorded { history, recording, victim })
}
