//! Clients that strain connections while the soak runs: connections that are opened and cut all the time, clients that
//! read slowly, and a well-behaved client that must be served nevertheless.

mod churn;
mod probe;
mod raw;
mod slow;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::ensure;
use clap::Args;
use http::Method;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::MissedTickBehavior};
use windlass_bench::table::{render, thousands};

use self::{probe::Probes, raw::Target};
use crate::{
    client::{Body, Client},
    phase::{self, Plan},
    servers::Running,
};

/// Number and size of the objects that are read slowly. They are Leases, whose writes do not count as writes at rest.
const OBJECTS: usize = 300;
const OBJECT_BYTES: usize = 10_000;
/// Collection of the objects.
const COLLECTION: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
/// Interval of the readings of memory and files.
const READ_EVERY: Duration = Duration::from_millis(500);
/// Maximum time until a probe is answered.
const PROBED_WITHIN: Duration = Duration::from_secs(10);
/// File descriptors that may be open after all connections have ended, in addition to those before.
const SPARE_FILES: usize = 16;
/// Maximum time for the server to close them.
const CLOSED_WITHIN: Duration = Duration::from_secs(60);

/// Options for clients that strain connections.
#[derive(Debug, Clone, Args)]
pub(super) struct HostileArgs {
    /// Maximum resident memory of the server in MB, at any time
    #[arg(long, value_name = "MB")]
    max_memory: Option<u64>,
    /// Connections to open per second; all are cut, most of them in the middle of a handshake, request or response
    #[arg(long, value_name = "N", default_value_t = 0)]
    churn: u32,
    /// Number of clients that read lists and watches slowly
    #[arg(long, value_name = "N", default_value_t = 0)]
    slow_readers: usize,
    /// Bytes per second that each of them reads
    #[arg(long, value_name = "BYTES", default_value_t = 500)]
    slow_rate: usize,
}

/// Counters of all hostile clients.
#[derive(Debug, Default)]
struct Counters {
    opened: AtomicU64,
    /// Connections that the server did not accept or closed itself.
    rejected: AtomicU64,
    slow_responses: AtomicU64,
    slow_bytes: AtomicU64,
    peak_memory: AtomicU64,
    peak_files: AtomicUsize,
}

/// Running hostile clients.
pub(super) struct Hostile {
    args: HostileArgs,
    counters: Arc<Counters>,
    probes: Arc<Probes>,
    files_before: usize,
    clients: JoinSet<anyhow::Result<()>>,
}

impl Hostile {
    /// Starts the clients.
    pub(super) async fn start(args: HostileArgs, server: &Running) -> anyhow::Result<Self> {
        let (counters, probes) = (Arc::new(Counters::default()), Arc::new(Probes::default()));
        let files_before = server.open_files()?;
        let mut clients = JoinSet::new();
        if args.churn > 0 || args.slow_readers > 0 {
            create_objects(server).await?;
            let target = Arc::new(Target::new(server)?);
            clients.spawn(probe::run(target.clone(), probes.clone()));
            for number in 0..args.slow_readers {
                clients.spawn(slow::run(target.clone(), counters.clone(), number, args.slow_rate));
            }
            if args.churn > 0 {
                clients.spawn(churn::run(target, counters.clone(), args.churn));
            }
        }
        Ok(Self { args, counters, probes, files_before, clients })
    }

    /// Reads memory and files until something is wrong; never returns otherwise.
    pub(super) async fn supervise(&mut self, server: &Running) -> anyhow::Result<()> {
        let mut interval = tokio::time::interval(READ_EVERY);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some(ended) = self.clients.join_next() => ended??,
                _ = interval.tick() => self.read(server)?,
            }
        }
    }

    fn read(&self, server: &Running) -> anyhow::Result<()> {
        let memory = server.memory()?;
        self.counters.peak_memory.fetch_max(memory, Ordering::Relaxed);
        self.counters.peak_files.fetch_max(server.open_files()?, Ordering::Relaxed);
        let limit = self.args.max_memory.unwrap_or(u64::MAX / 1_000_000) * 1_000_000;
        ensure!(memory <= limit, "the server uses {:.1} MB, more than --max-memory", memory as f64 / 1e6);
        Ok(())
    }

    /// Ends all clients, waits until the server has closed their connections, and returns the report.
    pub(super) async fn end(mut self, server: &Running) -> anyhow::Result<Report> {
        self.read(server)?;
        self.clients.shutdown().await;
        let begin = Instant::now();
        let most = self.files_before + SPARE_FILES;
        while server.open_files()? > most && begin.elapsed() < CLOSED_WITHIN {
            tokio::time::sleep(READ_EVERY).await;
        }
        let files_after = server.open_files()?;
        let report = Report {
            counters: self.counters,
            probes: self.probes,
            files: (self.files_before, files_after),
            memory_after: server.memory()?,
        };
        Ok(report)
    }
}

/// Figures about the hostile clients.
pub(super) struct Report {
    counters: Arc<Counters>,
    probes: Arc<Probes>,
    files: (usize, usize),
    memory_after: u64,
}

impl Report {
    pub(super) fn table(&self) -> String {
        let count = |counter: &AtomicU64| thousands(counter.load(Ordering::Relaxed));
        let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
        let (before, after) = self.files;
        let peak = self.counters.peak_files.load(Ordering::Relaxed);
        let rows = [
            ("", String::new()),
            ("peak memory", megabytes(self.counters.peak_memory.load(Ordering::Relaxed))),
            ("memory after all connections ended", megabytes(self.memory_after)),
            ("open files before, at most, after", format!("{before}, {peak}, {after}")),
            ("connections opened and cut", count(&self.counters.opened)),
            ("of them rejected by the server", count(&self.counters.rejected)),
            ("responses read slowly", count(&self.counters.slow_responses)),
            ("bytes read slowly", count(&self.counters.slow_bytes)),
            ("requests of another client", self.probes.to_string()),
        ];
        render(&rows.map(|(name, value)| vec![name.to_owned(), value]))
    }

    pub(super) fn to_json(&self) -> Value {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        json!({
            "peakMemoryBytes": count(&self.counters.peak_memory), "memoryAfterBytes": self.memory_after,
            "openFilesBefore": self.files.0, "openFilesAfter": self.files.1,
            "openFilesPeak": self.counters.peak_files.load(Ordering::Relaxed),
            "connections": count(&self.counters.opened), "rejected": count(&self.counters.rejected),
            "slowResponses": count(&self.counters.slow_responses), "slowBytes": count(&self.counters.slow_bytes),
            "probes": self.probes.to_json(),
        })
    }

    /// Fails if the server kept connections, or did not serve others.
    pub(super) fn judge(&self) -> anyhow::Result<()> {
        let (before, after) = self.files;
        ensure!(after <= before + SPARE_FILES, "{after} files are open after all connections ended, {before} before");
        self.probes.judge()
    }
}

/// Creates the objects that are read slowly.
async fn create_objects(server: &Running) -> anyhow::Result<()> {
    let client = Client::connect(&server.url, &server.tls, 4).await?;
    let plan = Plan { requests: OBJECTS, lanes: 16, at_least: Duration::ZERO };
    phase::run(plan, move |lane, number| {
        let client = client.clone();
        async move { client.measure(lane, Method::POST, COLLECTION, Body::json(&lease(number))).await }
    })
    .await?;
    Ok(())
}

fn name(number: usize) -> String {
    format!("slow-{number}")
}

fn lease(number: usize) -> Value {
    let annotations = json!({"padding": "x".repeat(OBJECT_BYTES)});
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name(number), "annotations": annotations}, "spec": {"holderIdentity": "0"},
    })
}
