//! The environment of a recording: a server and the proxy in front of it.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};
use windlass_plane::{NodeOptions, Pki, Plane, PlaneOptions, StoreKind, kubeconfig};

use super::{proxy::Proxy, records::Records};
use crate::cluster::{ApplyOptions, Cluster, ClusterArgs, documents};

/// A running server and proxy.
pub(super) struct RecordingSession {
    kubeconfig: PathBuf,
    /// Client of the server that bypasses the proxy.
    server: Client,
    proxy: JoinHandle<()>,
    plane: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    // Dropped last, as the others use it.
    folder: TempDir,
}

impl RecordingSession {
    /// Starts a proxy in front of a cluster, or of its own plane.
    pub(super) async fn open(
        cluster: Option<&ClusterArgs>,
        apply: &[PathBuf],
        agent: Option<String>,
        records: &Records,
    ) -> anyhow::Result<Self> {
        let folder =
            tempfile::Builder::new().prefix("windlass-learn-").tempdir().context("failed to create a directory")?;
        let (upstream, url, plane) = match cluster {
            Some(args) => {
                let (mut config, _) = args.configuration().await?;
                // Watches may be idle for long.
                config.read_timeout = None;
                let url = config.cluster_url.to_string();
                // HTTP/1.1, since connections are upgraded for exec and similar requests.
                let client = Client::try_from(config).context("failed to create a client from the kubeconfig")?;
                (client, url, None)
            }
            None => {
                let nodes = NodeOptions { count: 1, ..NodeOptions::default() };
                let options =
                    PlaneOptions { store: StoreKind::Memory, nodes, ..PlaneOptions::new(folder.path().join("plane")) };
                let plane = Plane::start(options).await?;
                let (client, url) = (plane.server().client(), plane.url().to_owned());
                let (stop, stopped) = oneshot::channel::<()>();
                let running = tokio::spawn(async move {
                    let stopped = async {
                        let _ = stopped.await;
                    };
                    if let Err(error) = plane.run(stopped).await {
                        tracing::error!(%error, "the plane has stopped");
                    }
                });
                (client, url, Some((stop, running)))
            }
        };
        prepare(&upstream, &url, apply).await?;

        let pki = Pki::load_or_create(&folder.path().join("pki"), &[]).context("failed to create certificates")?;
        let tls = Arc::new(pki.server_config().context("failed to use the certificates")?);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("cannot listen")?;
        let address = listener.local_addr().context("cannot listen")?;
        let path = folder.path().join("kubeconfig");
        let written = write_secret(&path, &kubeconfig(&pki, &format!("https://{address}")));
        written.with_context(|| format!("cannot write {}", path.display()))?;
        let server = upstream.clone();
        let proxy = Proxy { upstream, within: plane.is_some(), agent, records: records.clone() };
        Ok(Self { kubeconfig: path, server, proxy: tokio::spawn(proxy.serve(listener, tls)), plane, folder })
    }

    /// The kubeconfig of the proxy.
    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns whether a namespace exists. It is created on an own plane, but not in a user's cluster.
    pub(super) async fn has_namespace(&self, name: &str) -> bool {
        let namespaces: Api<Namespace> = Api::all(self.server.clone());
        if self.plane.is_some() {
            let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
            let namespace = Namespace { metadata, ..Namespace::default() };
            // It may be among the applied objects.
            let _ = namespaces.create(&PostParams::default(), &namespace).await;
        }
        namespaces.get_opt(name).await.is_ok_and(|found| found.is_some())
    }

    /// A directory that is deleted afterwards.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Stops everything.
    pub(super) async fn close(mut self) {
        self.proxy.abort();
        if let Some((stop, running)) = self.plane.take() {
            let _ = stop.send(());
            let _ = running.await;
        }
    }
}

impl Drop for RecordingSession {
    fn drop(&mut self) {
        self.proxy.abort();
    }
}

/// Applies manifests, bypassing the proxy.
async fn prepare(client: &Client, url: &str, files: &[PathBuf]) -> anyhow::Result<()> {
    let mut objects = Vec::new();
    for file in files {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        objects.extend(documents::read(&text).with_context(|| file.display().to_string())?);
    }
    if objects.is_empty() {
        return Ok(());
    }
    let cluster = Cluster {
        client: client.clone(),
        url: url.to_owned(),
        namespace: client.default_namespace().to_owned(),
        origin: "the recorded server".to_owned(),
    };
    cluster.apply(&objects, ApplyOptions::default(), &mut |applied| eprintln!("{applied}")).await?;
    Ok(())
}

fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    use io::Write as _;
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}
