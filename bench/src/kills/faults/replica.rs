//! An API server with its links to etcd.

use std::{path::PathBuf, process::Command, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use http::Method;
use rustls::ClientConfig;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    super::lane::{Endpoint, Shared},
    link::Link,
};
use crate::{
    client::{Body, Client},
    servers::{
        Places,
        windlass::{Launched, launch},
    },
};

/// Time limit of a health check, and the interval of those that decide whether clients are sent to a server.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// An API server.
pub(super) struct Replica {
    shared: Arc<Shared>,
    places: Places,
    number: usize,
    folder: PathBuf,
    options: Vec<String>,
    links: Vec<Link>,
    server: Option<Launched>,
    /// Sends clients to the server while it is ready, as a load balancer would.
    balancer: JoinSet<()>,
}

impl Replica {
    /// Starts an API server with links of its own to these ports; the first one must be running if there is a join file.
    pub(super) async fn start(
        places: &Places,
        shared: &Arc<Shared>,
        number: usize,
        folder: PathBuf,
        ports: impl Iterator<Item = u16>,
        join: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        let mut links = Vec::new();
        for port in ports {
            links.push(Link::to(port).await?);
        }
        std::fs::create_dir_all(&folder)?;
        let urls: Vec<String> = links.iter().map(|link| format!("http://127.0.0.1:{}", link.port)).collect();
        let mut options: Vec<String> =
            ["--store", "etcd", "--controllers", "", "--nodes", "0", "--etcd-servers"].map(str::to_owned).into();
        options.extend([urls.join(","), "--advertise-address".to_owned(), format!("10.99.0.{}", number + 1)]);
        if let Some(join) = join {
            options.extend(["--join".to_owned(), join.to_str().context("a path must be UTF-8")?.to_owned()]);
        }
        let (shared, places) = (shared.clone(), places.clone());
        let mut replica =
            Self { shared, places, number, folder, options, links, server: None, balancer: JoinSet::new() };
        replica.launch().await?;
        Ok(replica)
    }

    /// Starts it, and sends clients to it when it is ready.
    pub(super) async fn launch(&mut self) -> anyhow::Result<()> {
        let options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        let server = launch(&self.folder, &self.places, &options).await?;
        let endpoint = Endpoint { url: server.url.clone(), tls: server.tls.clone() };
        self.shared.announce(self.number, Some(endpoint.clone()));
        self.balancer.spawn(balance(self.shared.clone(), self.number, endpoint));
        self.server = Some(server);
        Ok(())
    }

    /// Kills it.
    pub(super) async fn kill(&mut self) {
        self.balancer.shutdown().await;
        self.shared.announce(self.number, None);
        self.server = None;
    }

    /// Cuts or restores its links to etcd.
    pub(super) fn cut(&self, is_cut: bool) {
        self.links.iter().for_each(|link| link.cut(is_cut));
    }

    /// Writes the keys that the other API servers need to a file.
    pub(super) fn export(&self, file: &std::path::Path) -> anyhow::Result<()> {
        let mut command = Command::new(&self.places.windlass);
        command.arg("join-file").arg(file).arg("--data-dir").arg(self.folder.join("data"));
        let output = command.output().context("cannot run windlass")?;
        ensure!(output.status.success(), "windlass join-file: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Connects to it.
    pub(super) async fn client(&self) -> anyhow::Result<Client> {
        let server = self.server.as_ref().context("the API server must run")?;
        Client::connect(&server.url, &server.tls, 1).await
    }

    /// Returns whether it is ready. Fails if it has ended.
    pub(super) async fn is_ready(&mut self) -> anyhow::Result<bool> {
        self.server.as_mut().context("the API server must run")?.process.check()?;
        let server = self.server.as_ref().context("the API server must run")?;
        Ok(is_ready(&server.url, &server.tls).await)
    }
}

async fn is_ready(url: &str, tls: &Arc<ClientConfig>) -> bool {
    let answer = async { Client::connect(url, tls, 1).await?.ask(Method::GET, "/readyz", Body::default()).await };
    timeout(ANSWERS_WITHIN, answer).await.is_ok_and(|answer| answer.is_ok_and(|(status, _)| status.is_success()))
}

/// Checks the health of a server forever. Clients that are connected stay until a request fails.
async fn balance(shared: Arc<Shared>, number: usize, endpoint: Endpoint) {
    loop {
        sleep(CHECK_EVERY).await;
        let is_ready = is_ready(&endpoint.url, &endpoint.tls).await;
        shared.announce(number, is_ready.then(|| endpoint.clone()));
    }
}
