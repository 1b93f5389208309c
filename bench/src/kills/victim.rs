//! The server that is killed, and its data directory.

use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use tempfile::TempDir;
use tokio::time::timeout;

use super::{
    history::Mark,
    lane::{Endpoint, Shared},
    seeded::copy,
    traffic::prepare,
};
use crate::{
    client::Client,
    servers::{
        self, Places, Which,
        windlass::{ALONE, Launched, launch},
    },
};

/// Age of the copy that replaces the data after a crash that loses writes.
const SET_BACK: Duration = Duration::from_millis(300);

pub(super) struct Victim {
    shared: Arc<Shared>,
    places: Places,
    // In this order: the process ends before its data is deleted.
    server: Option<Launched>,
    folder: TempDir,
    /// The kills.
    pub(super) kills: Vec<Mark>,
    /// Number of kills before the server was ready.
    pub(super) during_start: u64,
    /// Durations of the starts, until the server was ready.
    pub(super) starts: Vec<Duration>,
}

impl Victim {
    /// Starts a server without data and creates the namespace of the objects.
    pub(super) async fn start(places: &Places, shared: Arc<Shared>) -> anyhow::Result<Self> {
        let folder = servers::folder(places, Which::Windlass)?;
        let (places, kills, starts) = (places.clone(), Vec::new(), Vec::new());
        let mut victim = Self { shared, places, server: None, folder, kills, during_start: 0, starts };
        let server = launch(victim.folder.path(), &victim.places, ALONE).await?;
        prepare(&Client::connect(&server.url, &server.tls, 1).await?).await?;
        victim.serve(server);
        Ok(victim)
    }

    fn serve(&mut self, server: Launched) {
        let endpoint = Endpoint { url: server.url.clone(), tls: server.tls.clone() };
        self.shared.announce(0, Some(endpoint));
        self.server = Some(server);
    }

    fn mark_kill(&mut self) {
        self.kills.push(Mark { at: self.shared.now(), what: "the server was killed".to_owned() });
    }

    /// Returns the number of kills.
    pub(super) fn killed(&self) -> u32 {
        u32::try_from(self.kills.len()).unwrap_or(u32::MAX)
    }

    /// Kills the server. If this loses writes, its data is replaced by a copy from a moment before.
    pub(super) async fn kill(&mut self, loses_writes: bool) -> anyhow::Result<()> {
        let (data, earlier) = (self.folder.path().join("data"), self.folder.path().join("earlier"));
        if loses_writes {
            let server = self.server.as_ref().context("the server must be running")?;
            // While it is stopped, its files are what a crash would leave.
            server.process.signal("STOP")?;
            let copied = copy(&data, &earlier);
            server.process.signal("CONT")?;
            copied.context("failed to copy the data directory")?;
            tokio::time::sleep(SET_BACK).await;
        }
        self.mark_kill();
        self.server = None;
        self.shared.announce(0, None);
        if loses_writes {
            fs::remove_dir_all(&data)?;
            fs::rename(&earlier, &data)?;
        }
        Ok(())
    }

    /// Starts the server again on its data. With a share, it is killed once more within that share of the time that
    /// starts take.
    pub(super) async fn restart(&mut self, killed_after: Option<f64>) -> anyhow::Result<()> {
        if let Some(share) = killed_after {
            let usual = self.starts.last().copied().unwrap_or(Duration::from_millis(20));
            let started = timeout(usual.mul_f64(share), launch(self.folder.path(), &self.places, ALONE)).await;
            // Dropping the start or the server has killed it.
            started.ok().transpose()?;
            self.mark_kill();
            self.during_start += 1;
        }
        let begin = Instant::now();
        let server = launch(self.folder.path(), &self.places, ALONE).await?;
        self.starts.push(begin.elapsed());
        self.serve(server);
        Ok(())
    }

    /// Keeps the data directory and returns its path.
    pub(super) fn keep(self) -> PathBuf {
        drop(self.server);
        self.folder.keep()
    }
}
