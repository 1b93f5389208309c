//! The API server that all subjects use: `windlass up`, filled with widgets.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Config, CustomResourceExt as _,
    api::{Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use tempfile::TempDir;
use windlass_bench::child;

use crate::{
    subject::now,
    widget::{NAMESPACE, SENT_AT, Widget, name, widget},
};

/// Number of objects created concurrently.
const WRITERS: usize = 16;
/// Maximum time for the server to become ready.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A running server, killed when dropped.
pub(crate) struct Server {
    client: Client,
    // In this order: the process ends before its data is deleted.
    _process: child::Server,
    folder: TempDir,
}

impl Server {
    /// Starts the program with an empty data directory.
    pub(crate) async fn start(program: &Path, data: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(data).with_context(|| format!("cannot create {}", data.display()))?;
        let folder = tempfile::Builder::new().prefix("sdk-").tempdir_in(data)?;
        let mut command = Command::new(program);
        command
            // In memory, so that disk latency is not measured.
            .args(["up", "--store", "memory", "--controllers", "", "--nodes", "0", "--port", "0", "--data-dir"])
            .arg(folder.path().join("plane"));
        let mut process = child::Server::spawn(&mut command, &folder.path().join("log"))?;
        let kubeconfig = folder.path().join("plane/kubeconfig");
        let start = Instant::now();
        let client = loop {
            if let Ok(client) = connect(&kubeconfig).await
                && client.apiserver_version().await.is_ok()
            {
                break client;
            }
            process.check()?;
            ensure!(start.elapsed() < READY_WITHIN, "windlass did not become ready");
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        Ok(Self { client, _process: process, folder })
    }

    /// Returns the path of its kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("plane/kubeconfig")
    }

    /// Creates the CRD of the widgets and as many widgets.
    pub(crate) async fn populate(&self, objects: usize) -> anyhow::Result<()> {
        let create = PostParams::default();
        Api::all(self.client.clone()).create(&create, &Widget::crd()).await?;
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(NAMESPACE.to_owned());
        Api::all(self.client.clone()).create(&create, &namespace).await?;
        let widgets: Api<Widget> = Api::namespaced(self.client.clone(), NAMESPACE);
        stream::iter(0..objects)
            .map(|number| {
                let (widgets, create) = (&widgets, &create);
                async move { widgets.create(create, &widget(number)).await }
            })
            .buffer_unordered(WRITERS)
            .try_for_each(async |_| Ok(()))
            .await?;
        Ok(())
    }

    /// Writes to one object after the other at a steady rate, each write carrying the time it was sent.
    pub(crate) async fn write_steadily(&self, objects: usize, rate: u32, writes: usize) -> anyhow::Result<()> {
        let widgets: Api<Widget> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
        let mut writing = tokio::task::JoinSet::new();
        for number in 0..writes {
            ticks.tick().await;
            let widgets = widgets.clone();
            writing.spawn(async move {
                let patch = json!({"metadata": {"annotations": {SENT_AT: now().to_string()}}});
                widgets.patch(&name(number % objects), &PatchParams::default(), &Patch::Merge(patch)).await
            });
        }
        while let Some(written) = writing.join_next().await {
            written??;
        }
        Ok(())
    }
}

async fn connect(kubeconfig: &Path) -> anyhow::Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
