//! This program again, as the server that returns constants.

use std::{process::Command, time::Instant};

use tempfile::TempDir;
use windlass_bench::child::Server;

use super::{Running, ready_file, readyz};
use crate::{load::Load, pki::Pki};

pub(super) async fn start(folder: TempDir, load: &Load) -> anyhow::Result<Running> {
    let pki = Pki::make(folder.path().join("pki"))?;
    let ready = folder.path().join("ready");
    let begin = Instant::now();
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("floor").arg("--pki").arg(pki.folder()).arg("--ready-file").arg(&ready);
    command.args(["--kind", load.kind.name()]);
    command.args(["--objects", &load.objects.to_string(), "--payload", &load.payload().to_string()]);
    let mut process = Server::spawn(&mut command, &folder.path().join("log"))?;
    let url = ready_file(&ready, &mut process).await?;
    let tls = pki.client_config()?;
    readyz(&url, &tls, &mut process).await?;
    Ok(Running { url, tls, pki, ready_in: begin.elapsed(), processes: vec![process], folder })
}
