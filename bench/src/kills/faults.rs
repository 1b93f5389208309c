//! `windlass-bench faults`: several API servers over a cluster of etcd, with faults of both under load, and a check of
//! every response that clients received.

mod bed;
mod disk;
mod fault;
mod link;
mod members;
mod replica;
mod report;

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use clap::Args;
use serde_json::json;

use self::{
    bed::Bed,
    fault::Fault,
    report::{Interval, Totals},
};
use super::{
    LoadArgs, PRINTED, checker,
    history::{History, Mark},
    lane::Shared,
    random::Random,
    traffic::Traffic,
};
use crate::{
    servers::{Places, Which},
    setup::SetupArgs,
};

/// Maximum time without a successful write of any client, whatever happens.
const WRITES_RESUME_WITHIN: Duration = Duration::from_secs(10);

/// Run several API servers over three members of etcd, inject faults under load, and check that no acknowledged write is
/// lost, that objects are linearizable across all servers, and that writes resume
#[derive(Debug, Args)]
pub(crate) struct FaultsArgs {
    #[command(flatten)]
    setup: SetupArgs,
    /// Number of API servers
    #[arg(long, default_value_t = 3)]
    servers: u8,
    /// Number of rounds; each begins without data and has all faults once, in random order
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// Mean duration of a fault
    #[arg(long, value_name = "SECONDS", default_value_t = 6.0)]
    seconds: f64,
    /// Mean time between the recovery from a fault and the next one
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    seconds_between: f64,
    /// Fault to inject; may be repeated [default: all]
    #[arg(long, value_enum)]
    fault: Vec<Fault>,
    #[command(flatten)]
    load: LoadArgs,
}

pub(crate) async fn run(args: FaultsArgs) -> anyhow::Result<()> {
    let positive = args.servers > 0 && args.rounds > 0 && args.load.clients > 0 && args.load.keys > 0;
    ensure!(positive, "--servers, --rounds, --clients and --keys must be at least 1");
    let times = [args.seconds, args.seconds_between];
    ensure!(times.iter().all(|time| time.is_finite() && *time >= 0.0), "times must be positive");
    let places = args.setup.places(&[Which::Windlass])?;
    let mut totals = Totals::default();
    for round in 1..=args.rounds {
        let seed = args.load.seed.wrapping_mul(1_000_003).wrapping_add(round);
        let recorded = record(&args, &places, seed).await.with_context(|| format!("round {round}"))?;
        let Recorded { history, intervals, bed } = recorded;
        let (history, verdict) = tokio::task::spawn_blocking(move || {
            let verdict = checker::check(&history);
            (history, verdict)
        })
        .await?;
        totals.add(&history, args.load.clients, &intervals, &verdict);
        eprintln!("round {round}: {}", super::report::line(intervals.len(), "faults", &history, &verdict));
        for violation in verdict.violations.iter().take(PRINTED) {
            println!("\nVIOLATION: {violation}");
        }
        if !verdict.violations.is_empty() {
            if args.load.seed_bug.is_none() {
                println!("\nthe data are kept in {}", bed.keep().display());
            }
            break;
        }
    }
    println!("\n{}\n{}", totals.table(), totals.summary());
    let mut json = totals.to_json();
    json["seed"] = json!(args.load.seed);
    args.setup.write_json(&json)?;
    ensure!(totals.violations == 0, "{} violations, {} acknowledged writes lost", totals.violations, totals.lost);
    let longest = totals.longest_pause();
    ensure!(longest <= WRITES_RESUME_WITHIN, "no write succeeded for {:.1} s", longest.as_secs_f64());
    Ok(())
}

/// The history of a round.
struct Recorded {
    history: History,
    intervals: Vec<Interval>,
    bed: Bed,
}

/// Runs the load on a new cluster, injects all faults once, and records the history.
async fn record(args: &FaultsArgs, places: &Places, seed: u64) -> anyhow::Result<Recorded> {
    let shared = Shared::new(&args.load, args.servers.into());
    let mut bed = Bed::start(places, &shared).await?;
    let mut traffic = Traffic::begin(shared.clone(), &args.load, seed).await?;
    let mut random = Random::new(seed, u64::MAX);
    let around = |mean: f64, random: &mut Random| Duration::from_secs_f64(mean * (0.5 + random.share()));
    let mut faults = args.faults(&shared);
    shuffle(&mut faults, &mut random);
    let mut history = History::default();
    let mut intervals = Vec::new();
    for fault in faults {
        traffic.run_for(around(args.seconds_between, &mut random)).await?;
        let mut interval = Interval { fault, begin: shared.now(), healed: 0, end: 0, note: None };
        let mut mark = |what: &str| {
            let at = shared.now();
            eprintln!("  {:.1} s  {}: {what}", at as f64 / 1e6, fault.name());
            history.faults.push(Mark { at, what: format!("{}: {what}", fault.name()) });
            at
        };
        let duration = around(args.seconds * fault.length(), &mut random);
        let injected = traffic.run_until(bed.inject(fault, duration, &mut random)).await;
        let injected = injected.with_context(|| format!("failed to inject the fault {}", fault.name()))?;
        mark(&injected.what);
        if injected.skipped {
            interval.note = Some(injected.what);
            interval.end = interval.begin;
            intervals.push(interval);
            continue;
        }
        let note = traffic.run_until(bed.hold(&injected, duration)).await?;
        mark(note.as_deref().unwrap_or("the fault ends"));
        traffic.run_until(bed.heal(&injected)).await.with_context(|| format!("after the fault {}", fault.name()))?;
        interval.healed = shared.now();
        traffic.run_until(bed.recovered()).await.with_context(|| format!("after the fault {}", fault.name()))?;
        interval.end = mark("all servers are ready");
        interval.note = note;
        intervals.push(interval);
    }
    traffic.run_for(around(args.seconds_between, &mut random)).await?;
    let recording = traffic.end().await?;
    history = History { faults: history.faults, ..recording.history };
    Ok(Recorded { history, intervals, bed })
}

impl FaultsArgs {
    /// Returns the faults of a round.
    fn faults(&self, shared: &Arc<Shared>) -> Vec<Fault> {
        let mut faults = if self.fault.is_empty() { Fault::ALL.to_vec() } else { self.fault.clone() };
        faults.extend(shared.bugs.loses_writes().then_some(Fault::SetBack));
        faults
    }
}

fn shuffle(faults: &mut [Fault], random: &mut Random) {
    for last in (1..faults.len()).rev() {
        let other = random.below(u32::try_from(last + 1).unwrap_or(u32::MAX));
        faults.swap(last, other as usize);
    }
}
