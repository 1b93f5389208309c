//! `windlass up`.

use std::{fs, path::Path, process::Command, sync::Arc, time::Instant};

use rustls::ClientConfig;
use tempfile::TempDir;
use windlass_bench::child::Server;

use super::{Places, Running, ready_file, readyz};
use crate::pki::Pki;

/// Options of an API server alone, as its peers are, with the embedded store.
pub(crate) const ALONE: &[&str] = &["--store", "embedded", "--controllers", "", "--nodes", "0"];

/// A process that is ready.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) url: String,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) pki: Pki,
    pub(crate) process: Server,
}

/// Starts an API server alone.
pub(super) async fn start(folder: TempDir, places: &Places) -> anyhow::Result<Running> {
    start_with(folder, places, ALONE).await
}

/// Starts it with the given options.
pub(super) async fn start_with(folder: TempDir, places: &Places, options: &[&str]) -> anyhow::Result<Running> {
    let begin = Instant::now();
    let Launched { url, tls, pki, process } = launch(folder.path(), places, options).await?;
    Ok(Running { url, tls, pki, ready_in: begin.elapsed(), processes: vec![process], folder })
}

/// Starts it on the data in a directory and waits until it is ready. Dropping the future kills the process.
pub(crate) async fn launch(folder: &Path, places: &Places, options: &[&str]) -> anyhow::Result<Launched> {
    let (data, ready) = (folder.join("data"), folder.join("ready"));
    // The file of an earlier start has an outdated URL.
    if ready.exists() {
        fs::remove_file(&ready)?;
    }
    let mut command = Command::new(&places.windlass);
    command.args(["up", "--port", "0"]).args(options).arg("--data-dir").arg(&data).arg("--ready-file").arg(&ready);
    let mut process = Server::spawn(&mut command, &folder.join("log"))?;
    let url = ready_file(&ready, &mut process).await?;
    let pki = Pki::at(data.join("pki"));
    let tls = pki.client_config()?;
    readyz(&url, &tls, &mut process).await?;
    Ok(Launched { url, tls, pki, process })
}
