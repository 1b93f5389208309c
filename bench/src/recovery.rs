//! `windlass-bench recovery`: fills a store, kills the server under load and measures how long it takes to start again.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use clap::Args;
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use windlass_bench::table::{render, thousands};

use crate::{
    client::{Body, Client},
    kind::Kind,
    load::ensure_namespace,
    phase::{self, Plan},
    servers::{
        self, Places, Which,
        windlass::{ALONE, Launched, launch},
    },
    setup::SetupArgs,
};

/// The kinds of the objects, in turn.
const KINDS: [Kind; 2] = [Kind::Configmap, Kind::Widget];
/// Sizes of the objects' strings, as a share of the text that makes an object 1.8 KB.
const SHARES: [f64; 4] = [0.4, 0.8, 1.2, 1.6];
/// Mean size of an object as it is stored.
const OBJECT: usize = 1_800;
/// Time for which the server is under load before it is killed.
const UNDER_LOAD: Duration = Duration::from_secs(2);
/// Number of concurrent writes.
const LANES: usize = 32;
const CONNECTIONS: usize = 4;

/// Fill a store, kill the server under load, and measure the time until it is ready again
#[derive(Debug, Args)]
pub(crate) struct RecoveryArgs {
    #[command(flatten)]
    setup: SetupArgs,
    /// Size of all objects in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    size: usize,
    /// Number of kills; the median is reported
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Directory with the store: filled if it does not exist, and kept for further measurements
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
}

/// A start after a kill.
#[derive(Debug, Clone, Copy)]
struct Start {
    ready: Duration,
    processor: Duration,
    peak_memory: u64,
    /// Longest time without a line in the log.
    silence: Duration,
}

pub(crate) async fn run(args: RecoveryArgs) -> anyhow::Result<()> {
    ensure!(args.runs > 0 && args.size > 0, "--runs and --size must be at least 1");
    let places = args.setup.places(&[Which::Windlass])?;
    let objects = (args.size << 20) / OBJECT;
    let (folder, _deleted_at_the_end) = folder(&args, &places)?;
    let filled = folder.join("filled");
    let mut server = start(&folder, &places).await?;
    if !filled.exists() {
        fill(&server, objects).await.context("failed to fill the store")?;
        fs::write(&filled, "")?;
    }
    let mut starts = Vec::new();
    for run in 1..=args.runs {
        kill_under_load(server, objects).await?;
        let begin = Instant::now();
        let (started, silence) = watched(&folder, start(&folder, &places)).await;
        server = started?;
        let start = Start {
            ready: begin.elapsed(),
            processor: server.process.processor_time()?,
            peak_memory: server.process.peak_memory()?,
            silence,
        };
        eprintln!(
            "  run {run}: ready in {:.2} s, {:.2} s of processor time, peak memory {} MB, a line in the log every {:.2} s",
            start.ready.as_secs_f64(),
            start.processor.as_secs_f64(),
            thousands(start.peak_memory >> 20),
            start.silence.as_secs_f64(),
        );
        check(&server, objects).await?;
        starts.push(start);
    }
    let file = fs::metadata(folder.join("data").join("store.redb")).map_or(0, |file| file.len());
    report(&args, objects, file, &mut starts)
}

/// Returns the directory of the store, and what deletes it at the end unless it is kept.
fn folder(args: &RecoveryArgs, places: &Places) -> anyhow::Result<(PathBuf, Option<TempDir>)> {
    match &args.store {
        Some(folder) => {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
            Ok((folder.clone(), None))
        }
        None => {
            let folder = servers::folder(places, Which::Windlass)?;
            Ok((folder.path().to_owned(), Some(folder)))
        }
    }
}

async fn start(folder: &Path, places: &Places) -> anyhow::Result<Launched> {
    let options: Vec<&str> = ALONE.iter().copied().chain(["-v"]).collect();
    launch(folder, places, &options).await
}

/// Waits for a start, and returns the longest time in which nothing was added to the server's log.
async fn watched<T>(folder: &Path, start: impl Future<Output = T>) -> (T, Duration) {
    let log = folder.join("log");
    let (mut size, mut since, mut longest) = (0, Instant::now(), Duration::ZERO);
    tokio::pin!(start);
    loop {
        let result = tokio::select! {
            result = &mut start => Some(result),
            () = tokio::time::sleep(Duration::from_millis(10)) => None,
        };
        let now = fs::metadata(&log).map_or(0, |log| log.len());
        longest = longest.max(since.elapsed());
        if now != size {
            (size, since) = (now, Instant::now());
        }
        if let Some(result) = result {
            return (result, longest);
        }
    }
}

/// Creates the objects.
async fn fill(server: &Launched, objects: usize) -> anyhow::Result<()> {
    let client = Client::connect(&server.url, &server.tls, CONNECTIONS).await?;
    ensure_namespace(&client).await?;
    for definition in KINDS.iter().filter_map(|kind| kind.definition()) {
        definition.ensure(&client).await?;
    }
    let (begin, done) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let plan = Plan { requests: objects, lanes: LANES, at_least: Duration::ZERO };
    let create = move |lane, number| {
        let (client, done) = (client.clone(), done.clone());
        async move {
            let done = done.fetch_add(1, Ordering::Relaxed);
            if done.is_multiple_of(100_000) {
                let (elapsed, of) = (begin.elapsed().as_secs(), thousands(objects as u64));
                eprintln!("  {} of {of} objects after {elapsed} s", thousands(done as u64));
            }
            let (kind, object) = object(number);
            client.measure(lane, Method::POST, &kind.collection(), Body::json(&object)).await
        }
    };
    phase::run(plan, create).await?;
    Ok(())
}

/// Returns the object with the given number.
fn object(number: usize) -> (Kind, Value) {
    let kind = KINDS[number % KINDS.len()];
    let share = SHARES[number / KINDS.len() % SHARES.len()];
    (kind, kind.object(number, (kind.payload() as f64 * share) as usize))
}

/// Kills the server while it writes.
async fn kill_under_load(server: Launched, objects: usize) -> anyhow::Result<()> {
    let client = Client::connect(&server.url, &server.tls, CONNECTIONS).await?;
    let mut writers = JoinSet::new();
    for lane in 0..LANES {
        let client = client.clone();
        writers.spawn(async move {
            for change in 0.. {
                let number = (change * LANES + lane) * 97 % objects;
                let (path, body) = object(number).0.merge_patch(number, change % 40);
                // Fails when the server is killed.
                if client.measure(lane, Method::PATCH, &path, body).await.is_err() {
                    return;
                }
            }
        });
    }
    tokio::time::sleep(UNDER_LOAD).await;
    ensure!(!writers.is_empty() && writers.try_join_next().is_none(), "a writer failed before the server was killed");
    drop(server);
    while writers.join_next().await.is_some() {}
    Ok(())
}

/// Checks that the server has all objects.
async fn check(server: &Launched, objects: usize) -> anyhow::Result<()> {
    let client = Client::connect(&server.url, &server.tls, 1).await?;
    let mut found = 0;
    for kind in KINDS {
        let (status, list) =
            client.ask(Method::GET, &format!("{}?limit=1", kind.collection()), Body::default()).await?;
        ensure!(status.is_success(), "{status}: {list}");
        found += 1 + list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
    }
    ensure!(found == objects as u64, "the server has {found} objects instead of {objects}");
    Ok(())
}

fn report(args: &RecoveryArgs, objects: usize, file: u64, starts: &mut [Start]) -> anyhow::Result<()> {
    starts.sort_by_key(|start| start.ready);
    let (median, worst) = (starts[starts.len() / 2], starts[starts.len() - 1]);
    let seconds = |duration: Duration| format!("{:.2} s", duration.as_secs_f64());
    let peak = starts.iter().map(|start| start.peak_memory).max().unwrap_or(0);
    let silence = starts.iter().map(|start| start.silence).max().unwrap_or_default();
    let rows = [
        ["objects".to_owned(), thousands(objects as u64)],
        ["file".to_owned(), format!("{} MB", thousands(file / 1_000_000))],
        ["start to ready, median".to_owned(), seconds(median.ready)],
        ["start to ready, longest".to_owned(), seconds(worst.ready)],
        ["processor time, median".to_owned(), seconds(median.processor)],
        ["peak memory".to_owned(), format!("{} MB", thousands(peak / 1_000_000))],
        ["longest silence of the log".to_owned(), seconds(silence)],
    ];
    let header = vec![String::new(), format!("{} kills", starts.len())];
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(rows.map(Vec::from)).collect();
    println!("\n{}", render(&rows));
    let runs: Vec<Value> = starts
        .iter()
        .map(|start| {
            json!({"ready": start.ready.as_secs_f64(), "processor": start.processor.as_secs_f64(),
                "peakMemory": start.peak_memory, "silence": start.silence.as_secs_f64()})
        })
        .collect();
    args.setup.write_json(&json!({"objects": objects, "file": file, "starts": runs}))
}
