//! The three servers, each started in a folder of its own and ended with the value that stands for it.

mod floor;
mod kubernetes;
mod windlass;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use http::Method;
use rustls::ClientConfig;
use tempfile::TempDir;

pub(crate) use self::kubernetes::start as start_kubernetes;
use crate::{
    child::Server,
    client::{Body, Client},
    load::Load,
    pki::Pki,
};

/// How long a server may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Which {
    /// kube-apiserver and etcd
    Kubernetes,
    /// Windlass, with its embedded store
    Windlass,
    /// A server that answers constants
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
}

/// Where the programs are, and where servers keep their data.
#[derive(Debug)]
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
    /// From the start of its first process to its first good answer.
    pub(crate) ready_in: Duration,
    // In this order: the processes end before their data goes.
    processes: Vec<Server>,
    _folder: TempDir,
}

impl Running {
    /// Resident memory of all its processes, in bytes.
    pub(crate) fn memory(&self) -> anyhow::Result<u64> {
        self.processes.iter().map(Server::memory).sum()
    }

    /// Processor time of all its processes.
    pub(crate) fn processor_time(&self) -> anyhow::Result<Duration> {
        self.processes.iter().map(Server::processor_time).sum()
    }
}

/// Starts a server and waits until it is ready.
pub(crate) async fn start(which: Which, places: &Places, load: &Load) -> anyhow::Result<Running> {
    match which {
        Which::Kubernetes => kubernetes::start(places).await,
        Which::Windlass => windlass::start(places).await,
        Which::Floor => floor::start(places, load).await,
    }
    .with_context(|| format!("cannot start {}", which.title()))
}

/// A folder for a server's data, on the disk where the build is: memory file systems know no durability.
fn folder(places: &Places, name: &str) -> anyhow::Result<TempDir> {
    fs::create_dir_all(&places.data).with_context(|| format!("cannot make {}", places.data.display()))?;
    Ok(tempfile::Builder::new().prefix(&format!("{name}-")).tempdir_in(&places.data)?)
}

/// Waits for the file that a server writes once it serves, and answers with the URL in it.
async fn ready_file(path: &Path, process: &mut Server) -> anyhow::Result<String> {
    let start = Instant::now();
    loop {
        if let Ok(url) = fs::read_to_string(path) {
            return Ok(url.trim().to_owned());
        }
        process.check()?;
        if start.elapsed() > READY_WITHIN {
            bail!("{} does not appear", path.display());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until `/readyz` is good.
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
            return Err(answer).with_context(|| format!("{url} does not get ready"));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
