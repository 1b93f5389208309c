//! One runtime in one scenario, in a process of its own, so that its memory is measured alone. The result is a line of
//! JSON on standard output.

use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use windlass_bench::child::memory_of;

use crate::{
    arrivals::Arrivals,
    subjects,
    widget::{SENT_AT, Widget},
};

/// A runtime written in Rust; the one in Go is a program of its own with the same options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Subject {
    /// The runtime of this project
    Windlass,
    /// The runtime of kube
    KubeRuntime,
    /// No runtime
    Floor,
}

/// A measured scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// Fill a cache
    Sync,
    /// Reconcile all objects once more
    Reconcile,
    /// Measure the time from a write to its reconcile
    Latency,
    /// Add keys to a queue and remove them again
    Queue,
}

#[derive(Debug, Args)]
pub(crate) struct SubjectArgs {
    pub(crate) subject: Subject,
    #[arg(long, value_enum)]
    pub(crate) scenario: Scenario,
    #[arg(long)]
    pub(crate) kubeconfig: PathBuf,
    #[arg(long)]
    pub(crate) objects: usize,
    #[arg(long)]
    pub(crate) concurrency: u16,
}

/// Result of filling a cache.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Synced {
    pub(crate) objects: usize,
    pub(crate) seconds: f64,
    /// Resident memory before, at its peak, and a second after.
    pub(crate) before: u64,
    pub(crate) peak: u64,
    pub(crate) after: u64,
}

/// Result of reconciling all objects.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Reconciled {
    pub(crate) reconciles: usize,
    pub(crate) seconds: f64,
}

/// Microseconds from sending a write, and from reading its event, to its reconcile.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Latencies {
    pub(crate) writes: Vec<i64>,
    pub(crate) events: Vec<i64>,
}

/// Result of sending keys through a queue.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Queued {
    pub(crate) keys: usize,
    pub(crate) seconds: f64,
}

/// Runs a scenario and prints its result.
pub(crate) async fn run(args: SubjectArgs) -> anyhow::Result<()> {
    let result = match (args.subject, args.scenario) {
        (Subject::Windlass, Scenario::Sync) => serde_json::to_string(&subjects::windlass::sync(&args).await?),
        (Subject::Windlass, Scenario::Reconcile) => serde_json::to_string(&subjects::windlass::reconcile(&args).await?),
        (Subject::Windlass, Scenario::Latency) => serde_json::to_string(&subjects::windlass::latency(&args).await?),
        (Subject::Windlass, Scenario::Queue) => serde_json::to_string(&subjects::windlass::queue(&args).await?),
        (Subject::KubeRuntime, Scenario::Sync) => serde_json::to_string(&subjects::kube_runtime::sync(&args).await?),
        (Subject::KubeRuntime, Scenario::Reconcile) => {
            serde_json::to_string(&subjects::kube_runtime::reconcile(&args).await?)
        }
        (Subject::KubeRuntime, Scenario::Latency) => {
            serde_json::to_string(&subjects::kube_runtime::latency(&args).await?)
        }
        (Subject::KubeRuntime, Scenario::Queue) => serde_json::to_string(&subjects::kube_runtime::queue(&args).await?),
        (Subject::Floor, Scenario::Latency) => serde_json::to_string(&subjects::floor::latency(&args).await?),
        (Subject::Floor, _) => bail!("the floor measures only latencies"),
    }?;
    println!("{result}");
    Ok(())
}

impl SubjectArgs {
    /// Returns the client configuration of the server.
    pub(crate) async fn config(&self) -> anyhow::Result<Config> {
        let file = Kubeconfig::read_from(&self.kubeconfig)?;
        Ok(Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?)
    }

    /// Returns kube's own client.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::try_from(self.config().await?)?)
    }

    /// Returns the keys of the queue.
    pub(crate) fn keys(&self) -> Vec<String> {
        (0..self.objects).map(|number| format!("default/object-{number}")).collect()
    }
}

/// Returns a line of `/proc/self/status` in bytes.
pub(crate) fn memory(name: &str) -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    memory_of(&status, name).with_context(|| format!("no {name}"))
}

/// A counter of reconciles.
#[derive(Debug, Clone, Default)]
pub(crate) struct Count(Arc<AtomicUsize>);

impl Count {
    /// Counts one.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the count.
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits until the count is reached.
    pub(crate) async fn reaches(&self, count: usize) {
        while self.get() < count {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }
}

/// Times at which writes were reconciled.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    pub(crate) reconciles: Count,
    pub(crate) arrivals: Arrivals,
    noted: Arc<Mutex<Noted>>,
    /// Writes sent earlier belong to another contender.
    since: i64,
}

#[derive(Debug, Default)]
struct Noted {
    /// Last reconciled write of each object.
    last: HashMap<String, String>,
    latencies: Latencies,
}

impl Times {
    /// Starts to record writes that are sent from now on.
    pub(crate) fn new() -> Self {
        Self { reconciles: Count::default(), arrivals: Arrivals::default(), noted: Arc::default(), since: now() }
    }

    /// Records that an object is reconciled now.
    pub(crate) fn note(&self, widget: &Widget) {
        let now = now();
        self.reconciles.add();
        let name = widget.metadata.name.as_ref();
        let sent = widget.metadata.annotations.as_ref().and_then(|annotations| annotations.get(SENT_AT));
        if let (Some(name), Some(sent)) = (name, sent) {
            let mut noted = self.noted.lock();
            if noted.last.get(name) != Some(sent) {
                noted.last.insert(name.clone(), sent.clone());
                drop(noted);
                self.took(now, sent.parse::<i64>().expect("the time must be a number"));
            }
        }
    }

    /// Records that a write was seen.
    pub(crate) fn took(&self, now: i64, sent: i64) {
        if sent >= self.since {
            let arrived = self.arrivals.take(sent);
            let latencies = &mut self.noted.lock().latencies;
            latencies.writes.push(now - sent);
            latencies.events.extend(arrived.map(|arrived| now - arrived));
        }
    }

    /// Returns all recorded times.
    pub(crate) fn latencies(&self) -> Latencies {
        self.noted.lock().latencies.clone()
    }
}

/// Returns microseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock must be after 1970");
    i64::try_from(since.as_micros()).expect("microseconds since 1970 must fit")
}

/// Signals that writes may begin, and waits for the line that ends them.
pub(crate) async fn while_writing() -> anyhow::Result<()> {
    println!("ready");
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    Ok(())
}
