//! The environment of a recording: a server and the proxy in front of it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use futures_util::FutureExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
    config::AuthInfo,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};
use windlass_plane::{NodeOptions, Pki, Plane, PlaneOptions, StoreKind, kubeconfig};
use windlass_schema::sorting::Gather as _;

use super::{POD_NAMESPACE, RECORD_REQUESTS, proxy::Proxy, records::Records};
use crate::{
    cluster::{ApplyOptions, Cluster, ClusterArgs, documents},
    secret_file,
    service_account::{AccountName, namespace_manifest},
};

/// Lifetime of the token of a restricted session; longer than any test runs.
const TOKEN_LIFETIME: Duration = Duration::from_hours(24);

/// The server that requests are forwarded to.
pub(super) enum Upstream<'a> {
    /// A user's cluster.
    Cluster(&'a ClusterArgs),
    /// A plane of its own.
    Plane,
    /// A plane of its own with these roles, where requests are sent by this account.
    Restricted { account: &'a AccountName, roles: &'a [Value] },
}

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
        to: Upstream<'_>,
        apply: &[PathBuf],
        agent: Option<String>,
        records: &Records,
    ) -> anyhow::Result<Self> {
        let folder =
            tempfile::Builder::new().prefix("windlass-learn-").tempdir().context("failed to create a directory")?;
        let (upstream, url, plane) = match to {
            Upstream::Cluster(args) => {
                let (mut config, _) = args.configuration().await?;
                // Watches may be idle for long.
                config.read_timeout = None;
                let url = config.cluster_url.to_string();
                // HTTP/1.1, since connections are upgraded for exec and similar requests.
                let client = Client::try_from(config).context("failed to create a client from the kubeconfig")?;
                (client, url, None)
            }
            Upstream::Plane | Upstream::Restricted { .. } => {
                let nodes = NodeOptions { count: 1, ..NodeOptions::default() };
                let options =
                    PlaneOptions { store: StoreKind::Memory, nodes, ..PlaneOptions::new(folder.path().join("plane")) };
                let plane = Plane::start(options).await?;
                let (client, url) = (plane.server().client(), plane.url().to_owned());
                let (stop, stopped) = oneshot::channel::<()>();
                let task = async move {
                    let stopped = async {
                        let _ = stopped.await;
                    };
                    if let Err(error) = plane.run(stopped).await {
                        tracing::error!(%error, "the control plane has stopped");
                    }
                };
                let running = tokio::spawn(task.boxed());
                (client, url, Some((stop, running)))
            }
        };
        prepare(&upstream, &url, apply).await?;
        let restricted = match to {
            Upstream::Restricted { account, roles } => {
                grant(&upstream, &url, account, roles).await?;
                let token = account.token(&upstream, TOKEN_LIFETIME).await?.token;
                Some(client_with_token(&folder.path().join("plane/kubeconfig"), token).await?)
            }
            Upstream::Cluster(_) | Upstream::Plane => None,
        };

        let pki = Pki::load_or_create(&folder.path().join("pki"), &[]).context("failed to create certificates")?;
        let tls = Arc::new(pki.server_config().context("failed to use the certificates")?);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("cannot listen")?;
        let address = listener.local_addr().context("cannot listen")?;
        let path = folder.path().join("kubeconfig");
        let written = secret_file::create(&path, &kubeconfig(&pki, &format!("https://{address}")));
        written.with_context(|| format!("cannot write {}", path.display()))?;
        let server = upstream.clone();
        let proxy = Proxy { upstream, within: plane.is_some(), restricted, agent, records: records.clone() };
        Ok(Self { kubeconfig: path, server, proxy: tokio::spawn(proxy.serve(listener, tls).boxed()), plane, folder })
    }

    /// Client of the server that bypasses the proxy.
    pub(super) fn server(&self) -> &Client {
        &self.server
    }

    /// File to which tests record requests.
    pub(super) fn requests(&self) -> PathBuf {
        self.folder.path().join("requests")
    }

    /// Environment variables of a program that runs in a namespace.
    pub(super) async fn variables(&self, namespace: &str) -> Vec<(&'static str, PathBuf)> {
        let mut variables = vec![("KUBECONFIG", self.kubeconfig.clone()), (RECORD_REQUESTS, self.requests())];
        // The namespace-local objects of the program belong to its namespace.
        if self.has_namespace(namespace).await {
            variables.push((POD_NAMESPACE, namespace.into()));
        }
        variables
    }

    /// The kubeconfig of the proxy.
    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns whether a namespace exists. It is created on the session's own plane, but not in a user's cluster.
    async fn has_namespace(&self, name: &str) -> bool {
        let namespaces: Api<Namespace> = Api::all(self.server.clone());
        if self.plane.is_some() {
            let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
            let namespace = Namespace { metadata, ..Namespace::default() };
            // It may be among the applied objects.
            let _ = namespaces.create(&PostParams::default(), &namespace).await;
        }
        namespaces.get_opt(name).await.is_ok_and(|found| found.is_some())
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
    apply(client, url, &objects).await
}

/// Applies roles, with their namespaces and the account.
async fn grant(client: &Client, url: &str, account: &AccountName, roles: &[Value]) -> anyhow::Result<()> {
    let mut names: BTreeSet<&str> = roles.iter().filter_map(|role| role["metadata"]["namespace"].as_str()).gather();
    names.insert(&account.namespace);
    let mut objects: Vec<Value> = names.into_iter().map(namespace_manifest).collect();
    objects.push(account.manifest());
    objects.extend(roles.iter().cloned());
    apply(client, url, &objects).await.context("failed to apply the learned roles")
}

async fn apply(client: &Client, url: &str, objects: &[Value]) -> anyhow::Result<()> {
    if objects.is_empty() {
        return Ok(());
    }
    let cluster = Cluster {
        client: client.clone(),
        url: url.to_owned(),
        namespace: client.default_namespace().to_owned(),
        origin: "the recorded server".to_owned(),
    };
    cluster.apply(objects, ApplyOptions::default(), &mut |applied| eprintln!("{applied}")).await?;
    Ok(())
}

/// A client of the server that a kubeconfig names, with a token instead of its credentials.
async fn client_with_token(kubeconfig: &Path, token: String) -> anyhow::Result<Client> {
    let (mut config, _) = ClusterArgs::of(kubeconfig).configuration().await?;
    config.auth_info = AuthInfo { token: Some(token.into()), ..AuthInfo::default() };
    // Watches may be idle for long.
    config.read_timeout = None;
    Client::try_from(config).context("failed to create a client of the service account")
}
