//! The three servers. Each runs in a directory of its own and stops when its value is dropped.

mod floor;
pub(crate) mod kubernetes;
pub(crate) mod windlass;

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use http::Method;
use rustls::ClientConfig;
use tempfile::TempDir;
use windlass_bench::child::Server;

use crate::{
    client::{Body, Client},
    load::Load,
    pki::Pki,
};

/// Maximum time for a server to become ready.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// A server that uses less processor time per second is idle: kube-apiserver and etcd always use some.
const IDLE: Duration = Duration::from_millis(150);
/// Time after which an idle server has returned free memory to the system.
const AT_REST_AFTER: Duration = Duration::from_secs(4);
/// Number of seconds that a server may take to become idle.
const SETTLED_WITHIN: usize = 60;

/// One of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Which {
    /// kube-apiserver and etcd
    Kubernetes,
    /// Windlass, with its embedded store
    Windlass,
    /// A server that returns constants
    Floor,
}

impl Which {
    pub(crate) const ALL: [Self; 3] = [Self::Kubernetes, Self::Windlass, Self::Floor];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Kubernetes => "kube-apiserver + etcd",
            Self::Windlass => "Windlass",
            Self::Floor => "floor",
        }
    }

    fn folder_name(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Windlass => "windlass",
            Self::Floor => "floor",
        }
    }
}

/// Paths of the programs and of the servers' data.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    pub(crate) peers: PathBuf,
    pub(crate) windlass: PathBuf,
    pub(crate) data: PathBuf,
}

/// A server that is ready.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) url: String,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) pki: Pki,
    /// Time from the start of its first process to its first successful response.
    pub(crate) ready_in: Duration,
    // In this order: the processes end before their data is deleted.
    processes: Vec<Server>,
    folder: TempDir,
}

impl Running {
    /// Returns the resident memory of all its processes in bytes.
    pub(crate) fn memory(&self) -> anyhow::Result<u64> {
        self.processes.iter().map(Server::memory).sum()
    }

    /// Returns the number of open file descriptors of all its processes.
    pub(crate) fn open_files(&self) -> anyhow::Result<usize> {
        self.processes.iter().map(Server::open_files).sum()
    }

    /// Returns the bytes that its data occupies on the disk.
    pub(crate) fn disk(&self) -> anyhow::Result<u64> {
        occupied(self.folder.path())
    }

    /// Waits until the server is nearly idle, as after its start or after many writes.
    pub(crate) async fn settle(&self) -> anyhow::Result<()> {
        for _ in 0..SETTLED_WITHIN {
            let before = self.processor_time()?;
            tokio::time::sleep(Duration::from_secs(1)).await;
            if self.processor_time()? - before < IDLE {
                return Ok(());
            }
        }
        eprintln!("  still busy after {SETTLED_WITHIN} s, continuing");
        Ok(())
    }

    /// Returns the memory once the server is at rest.
    pub(crate) async fn memory_at_rest(&self) -> anyhow::Result<u64> {
        self.settle().await?;
        tokio::time::sleep(AT_REST_AFTER).await;
        self.memory()
    }

    /// Returns the processor time of all its processes.
    pub(crate) fn processor_time(&self) -> anyhow::Result<Duration> {
        self.processes.iter().map(Server::processor_time).sum()
    }
}

/// Starts a server without data and waits until it is ready.
pub(crate) async fn start(which: Which, places: &Places, load: &Load) -> anyhow::Result<Running> {
    match which {
        Which::Floor => {
            floor::start(folder(places, which)?, load).await.with_context(|| format!("cannot start {}", which.title()))
        }
        _ => start_empty(which, places).await,
    }
}

/// Starts a server with an empty data directory that survives restarts, and waits until it is ready.
pub(crate) async fn start_empty(which: Which, places: &Places) -> anyhow::Result<Running> {
    start_in(folder(places, which)?, which, places).await
}

/// Starts Windlass with its control loops and simulated nodes, without data.
pub(crate) async fn start_with_nodes(places: &Places, nodes: usize) -> anyhow::Result<Running> {
    windlass::start_with(
        folder(places, Which::Windlass)?,
        places,
        &["--store", "embedded", "--nodes", &nodes.to_string()],
    )
    .await
}

/// Shuts a server down and starts it again on the same data.
pub(crate) async fn restart(server: Running, which: Which, places: &Places) -> anyhow::Result<Running> {
    let Running { processes, folder, .. } = server;
    tokio::task::spawn_blocking(move || processes.into_iter().try_for_each(Server::end))
        .await?
        .with_context(|| format!("cannot end {}", which.title()))?;
    start_in(folder, which, places).await
}

/// Kills a server and starts it again on the same data.
pub(crate) async fn kill_and_restart(server: Running, which: Which, places: &Places) -> anyhow::Result<Running> {
    let Running { processes, folder, .. } = server;
    drop(processes);
    start_in(folder, which, places).await
}

async fn start_in(folder: TempDir, which: Which, places: &Places) -> anyhow::Result<Running> {
    match which {
        Which::Kubernetes => kubernetes::start(folder, places).await,
        Which::Windlass => windlass::start(folder, places).await,
        Which::Floor => bail!("the floor stores no data"),
    }
    .with_context(|| format!("cannot start {}", which.title()))
}

/// Creates a directory for a server's data on the disk of the build, since in-memory file systems are not durable.
pub(crate) fn folder(places: &Places, which: Which) -> anyhow::Result<TempDir> {
    fs::create_dir_all(&places.data).with_context(|| format!("cannot create {}", places.data.display()))?;
    Ok(tempfile::Builder::new().prefix(&format!("{}-", which.folder_name())).tempdir_in(&places.data)?)
}

/// Returns the bytes that a directory occupies on the disk.
fn occupied(folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { occupied(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(bytes)
}

/// Waits for the file that a server writes once it serves, and returns the URL in it.
async fn ready_file(path: &Path, process: &mut Server) -> anyhow::Result<String> {
    let start = Instant::now();
    loop {
        if let Ok(url) = fs::read_to_string(path) {
            return Ok(url.trim().to_owned());
        }
        process.check()?;
        if start.elapsed() > READY_WITHIN {
            bail!("{} was not written in time", path.display());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until `/readyz` succeeds.
async fn readyz(url: &str, tls: &Arc<ClientConfig>, process: &mut Server) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        let answer = async { Client::connect(url, tls, 1).await?.ask(Method::GET, "/readyz", Body::default()).await };
        let answer = match answer.await {
            Ok((status, _)) if status.is_success() => return Ok(()),
            Ok((status, body)) => anyhow::anyhow!("{status}: {body}"),
            Err(error) => error,
        };
        process.check()?;
        if start.elapsed() > READY_WITHIN {
            return Err(answer).with_context(|| format!("{url} did not become ready"));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
