//! `windlass up` with the embedded store.

use std::{fs, process::Command, time::Instant};

use tempfile::TempDir;
use windlass_bench::child::Server;

use super::{Places, Running, ready_file, readyz};
use crate::pki::Pki;

/// Starts an API server alone, as its peers are.
pub(super) async fn start(folder: TempDir, places: &Places) -> anyhow::Result<Running> {
    start_with(folder, places, &["--controllers", "", "--nodes", "0"]).await
}

/// Starts it with the given options.
pub(super) async fn start_with(folder: TempDir, places: &Places, options: &[&str]) -> anyhow::Result<Running> {
    let (data, ready) = (folder.path().join("data"), folder.path().join("ready"));
    // The file of an earlier start has an outdated URL.
    if ready.exists() {
        fs::remove_file(&ready)?;
    }
    let begin = Instant::now();
    let mut command = Command::new(&places.windlass);
    command
        .args(["up", "--port", "0", "--store", "embedded"])
        .args(options)
        .arg("--data-dir")
        .arg(&data)
        .arg("--ready-file")
        .arg(&ready);
    let mut process = Server::spawn(&mut command, &folder.path().join("log"))?;
    let url = ready_file(&ready, &mut process).await?;
    let pki = Pki::at(data.join("pki"));
    let tls = pki.client_config()?;
    readyz(&url, &tls, &mut process).await?;
    Ok(Running { url, tls, pki, ready_in: begin.elapsed(), processes: vec![process], folder })
}
