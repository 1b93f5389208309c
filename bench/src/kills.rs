//! `windlass-bench kills`: kills the server again and again under load, and checks every response that clients
//! received.

mod checker;
mod history;
mod lane;
mod object;
mod random;
mod report;
mod seeded;
mod victim;
mod watcher;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde_json::json;
use tokio::{sync::watch, task::JoinSet};

use self::{
    history::{Call, History, Key, ListKind, Operation, Outcome, Revision},
    lane::{Lane, Shared},
    random::Random,
    report::Totals,
    seeded::{SeededBug, SeededBugs},
    victim::Victim,
    watcher::{Watched, Watcher},
};
use crate::{
    client::Client,
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
    let positive = args.kills > 0 && args.kills_per_history > 0 && args.clients > 0 && args.keys > 0;
    ensure!(positive, "--kills, --kills-per-history, --clients and --keys must be at least 1");
    ensure!(args.seconds_between.is_finite() && args.seconds_between >= 0.0, "--seconds-between must be positive");
    let places = args.setup.places(&[Which::Windlass])?;
    let mut totals = Totals::default();
    let begin = Instant::now();
    let mut left = args.kills;
    for number in 1.. {
        let kills = left.min(args.kills_per_history);
        left -= kills;
        let seed = args.seed.wrapping_mul(1_000_003).wrapping_add(number);
        let mut recorded = record(&args, &places, kills, seed).await.with_context(|| format!("history {number}"))?;
        let history = std::mem::take(&mut recorded.history);
        let (history, verdict) = tokio::task::spawn_blocking(move || {
            let verdict = checker::check(&history);
            (history, verdict)
        })
        .await?;
        totals.add(&history, &recorded, &verdict);
        eprintln!("history {number}: {}", report::line(&history, &verdict));
        for violation in verdict.violations.iter().take(PRINTED) {
            println!("\nVIOLATION: {violation}");
        }
        if !verdict.violations.is_empty() {
            if args.seed_bug.is_none() {
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
    json["seed"] = json!(args.seed);
    args.setup.write_json(&json)?;
    if totals.violations > 0 {
        bail!("{} violations, {} acknowledged writes lost", totals.violations, totals.lost);
    }
    Ok(())
}

/// A history with the figures that are not part of it.
struct Recorded {
    history: History,
    victim: Victim,
    /// Whether a watch at the end delivered all events since the beginning.
    replayed_in_full: bool,
    resumed: u64,
    expired: u64,
}

/// Runs the load on a new data directory and records its history.
async fn record(args: &KillsArgs, places: &Places, kills: u32, seed: u64) -> anyhow::Result<Recorded> {
    let shared = Arc::new(Shared {
        start: Instant::now(),
        keys: args.keys,
        padding: "x".repeat(args.payload),
        bugs: SeededBugs::new(args.seed_bug),
        stopped: AtomicBool::new(false),
        endpoint: watch::Sender::new(None),
        operations: AtomicU32::new(0),
        connections: AtomicU32::new(0),
    });
    let mut victim = Victim::start(places, shared.clone()).await?;
    let (start, mut operations) = begin(&shared, args.clients).await?;
    let mut clients = JoinSet::new();
    for number in 0..args.clients {
        clients.spawn(Lane::new(shared.clone(), number, seed).run());
    }
    let (target, targets) = watch::channel(None);
    let mut watchers = JoinSet::new();
    for number in 0..args.watchers {
        watchers.spawn(Watcher::new(shared.clone(), args.clients + 1 + number, targets.clone()).run());
    }

    let mut random = Random::new(seed, u64::MAX);
    let mut loses_writes_once = shared.bugs.loses_writes();
    while victim.killed() < kills {
        let until = Duration::from_secs_f64(args.seconds_between * (0.1 + 1.8 * random.share()));
        tokio::select! {
            () = tokio::time::sleep(until) => {}
            Some(ended) = clients.join_next() => bail!("a client ended: {:?}", ended?.err()),
            Some(ended) = watchers.join_next() => bail!("a watcher ended: {:?}", ended?.err()),
        }
        let loses_writes = loses_writes_once && victim.killed() >= kills / 2;
        loses_writes_once &= !loses_writes;
        victim.kill(loses_writes).await?;
        let again = victim.killed() < kills && random.below(10) == 0;
        let restarted = victim.restart(again.then(|| random.share())).await;
        restarted.with_context(|| format!("after kill {}", victim.killed()))?;
    }
    // The last kill is followed by as much load as the others.
    tokio::time::sleep(Duration::from_secs_f64(args.seconds_between)).await;
    shared.stopped.store(true, Ordering::Relaxed);
    while let Some(ended) = clients.join_next().await {
        operations.extend(ended??);
    }

    let (end, last) = finish(&shared, args.clients).await?;
    operations.extend(last);
    target.send_replace(Some(end));
    let mut history = History { operations, watches: Vec::new(), kills: victim.kills.clone() };
    // A watch from the beginning observes everything, unless the server no longer has it.
    let replayed = Watcher::new(shared.clone(), args.clients, targets).after(start).run().await?;
    let replayed_in_full = replayed.expired == 0;
    history.operations.extend(replayed.lists);
    history.watches.extend(replayed.streams);
    let (mut resumed, mut expired) = (0, 0);
    while let Some(ended) = watchers.join_next().await {
        let watched: Watched = ended??;
        history.operations.extend(watched.lists);
        history.watches.extend(watched.streams);
        resumed += watched.resumed;
        expired += watched.expired;
    }
    Ok(Recorded { history, victim, replayed_in_full, resumed, expired })
}

/// Lists nothing yet. Returns the revision, after which everything is written.
async fn begin(shared: &Arc<Shared>, number: u32) -> anyhow::Result<(Revision, Vec<Operation>)> {
    let mut lane = Lane::new(shared.clone(), number, 0);
    let (client, connection) = shared.connect().await.context("the server must be running")?;
    lane.perform(&client, connection, Call::List(ListKind::Consistent)).await?;
    match lane.operations.last().map(|operation| &operation.outcome) {
        Some(Outcome::Listed { revision, .. }) => Ok((*revision, lane.operations)),
        other => bail!("failed to list before the first write: {other:?}"),
    }
}

/// Writes a last object and reads everything. Returns the revision of the write, which every watch must reach.
async fn finish(shared: &Arc<Shared>, number: u32) -> anyhow::Result<(Revision, Vec<Operation>)> {
    let mut lane = Lane::new(shared.clone(), number, 0);
    let (client, connection) = shared.connect().await.context("the server must be running")?;
    let mark = Key(shared.keys);
    lane.perform(&client, connection, Call::Create(mark)).await?;
    let written = match lane.operations.last().map(|operation| &operation.outcome) {
        Some(Outcome::Object(version)) => version.revision,
        other => bail!("failed to create the last object: {other:?}"),
    };
    let reads = (0..shared.keys).map(|key| Call::Get(Key(key)));
    for call in reads.chain([Call::List(ListKind::Cached), Call::List(ListKind::Consistent)]) {
        ensure!(lane.perform(&client, connection, call).await?, "failed to read everything: {call}");
    }
    Ok((written, lane.operations))
}

/// Creates the namespace of the objects.
async fn prepare(client: &Client) -> anyhow::Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": object::NAMESPACE}});
    client.ensure("/api/v1/namespaces", &namespace).await
}
