//! Resources that a run installs into a cluster, and removes afterwards.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use serde_json::Value;

use super::{
    account::{self, AccountCredentials},
    event::Reporter,
    trace::{LABEL, Trace},
    tunnel::{Installation, Tunnel},
};
use crate::cluster::{Applied, ApplyOptions, Cluster, Outcome, documents};

/// Maximum time for an operator to print its manifests.
const PRINTING: Duration = Duration::from_secs(30);

/// A cheap handle for installing resources.
#[derive(Clone)]
pub(crate) struct Installer {
    cluster: Cluster,
    tunnel: Arc<Tunnel>,
    trace: Trace,
    reporter: Reporter,
    /// Credentials of the operator's service account, if it runs as that.
    credentials: Option<AccountCredentials>,
    /// Number of operators so far.
    connections: Arc<AtomicUsize>,
}

impl Installer {
    pub(crate) fn new(
        cluster: Cluster,
        tunnel: Tunnel,
        credentials: Option<AccountCredentials>,
        reporter: Reporter,
    ) -> Self {
        let trace = Trace::new(cluster.client.clone(), &tunnel.operator);
        Self { cluster, tunnel: Arc::new(tunnel), trace, reporter, credentials, connections: Arc::default() }
    }

    /// Gets the manifests of an operator, and applies its CRDs and roles. Webhooks are connected once the operator is
    /// ready.
    pub(crate) async fn install(&self, program: PathBuf) -> anyhow::Result<Installation> {
        let parts = if self.credentials.is_some() { "crds,webhooks,rbac" } else { "crds,webhooks" };
        let objects = manifests(&program, parts).await?;
        let mut installation = self.tunnel.redirect(objects);
        for definition in &mut installation.definitions {
            if definition["metadata"]["labels"].get(LABEL).is_some() {
                let led = self.trace.lead_here(definition).await;
                led.with_context(|| {
                    format!("failed to redirect the conversion of {}", definition["metadata"]["name"])
                })?;
            }
        }
        self.apply(&installation.definitions).await?;
        if let Some(credentials) = &self.credentials {
            self.grant(&installation.roles, credentials).await?;
        }
        Ok(installation)
    }

    /// Applies the roles of the operator, removes those of earlier ones, and writes its credentials.
    async fn grant(&self, roles: &[Value], credentials: &AccountCredentials) -> anyhow::Result<()> {
        let Some(account) = account::account(roles) else {
            let line = "the operator's manifests have no service account: it runs as the administrator";
            self.reporter.say(line).await;
            return Ok(());
        };
        self.apply(&[&account::namespaces(roles)[..], roles].concat()).await?;
        let pruned = account::prune(&self.cluster.client, &self.tunnel.operator, roles).await;
        self.say_all(pruned.context("failed to remove roles of an earlier operator")?).await;
        credentials.assume(&account).await
    }

    /// Connects the webhooks of the operator, and removes those of earlier ones.
    pub(crate) async fn connect(&self, installation: &Installation) -> anyhow::Result<()> {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        if number > 0 {
            let options = ApplyOptions { force_conflicts: true, ..ApplyOptions::default() };
            self.cluster.apply(&installation.converted_again(number), options, &mut |_| {}).await?;
        }
        self.apply(&installation.configurations).await?;
        let wanted = |kind: &str, name: &str| {
            let same = |object: &Value| object["kind"] == kind && object["metadata"]["name"] == name;
            installation.configurations.iter().any(same)
        };
        let mut reported = Vec::new();
        let done = async {
            let (trace, mut report) = (&self.trace, |line| reported.push(line));
            let mutating = |name: &str| wanted("MutatingWebhookConfiguration", name);
            trace.prune::<MutatingWebhookConfiguration>(&mutating, false, &mut report).await?;
            let validating = |name: &str| wanted("ValidatingWebhookConfiguration", name);
            trace.prune::<ValidatingWebhookConfiguration>(&validating, false, &mut report).await
        };
        let done = done.await;
        self.say_all(reported).await;
        done
    }

    /// Applies the manifests in a directory.
    pub(crate) async fn apply_folder(&self, folder: &Path) -> anyhow::Result<()> {
        let mut files: Vec<PathBuf> = fs::read_dir(folder)
            .with_context(|| format!("cannot list {}", folder.display()))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "yaml" || end == "yml"))
            .filter(|path| path.file_stem().is_none_or(|name| name != "kustomization"))
            .collect();
        files.sort();
        for file in files {
            let name = file.display().to_string();
            let text = fs::read_to_string(&file).with_context(|| format!("cannot read {name}"))?;
            let objects = documents::read(&text).with_context(|| name.clone())?;
            self.apply(&objects).await.with_context(|| name)?;
        }
        Ok(())
    }

    /// Removes webhooks that point to this machine: without an operator to respond, they would block writes.
    pub(crate) async fn withdraw(&self) -> anyhow::Result<()> {
        let mut reported = Vec::new();
        let done = self.trace.withdraw(false, &mut |line| reported.push(line)).await;
        self.say_all(reported).await;
        done
    }

    async fn apply(&self, objects: &[Value]) -> anyhow::Result<()> {
        let mut reported = Vec::new();
        let mut report = |applied: &Applied| {
            if applied.outcome != Outcome::Unchanged {
                reported.push(applied.to_string());
            }
        };
        let options = ApplyOptions { force_conflicts: true, ..ApplyOptions::default() };
        let done = self.cluster.apply(objects, options, &mut report).await;
        self.say_all(reported).await;
        done.map(drop)
    }

    async fn say_all(&self, lines: Vec<String>) {
        for line in lines {
            self.reporter.say(line).await;
        }
    }
}

/// Some parts of the manifests of an operator.
async fn manifests(program: &Path, parts: &str) -> anyhow::Result<Vec<Value>> {
    let what = || format!("cannot run {} manifests", program.display());
    let mut command = tokio::process::Command::new(program);
    command.args(["manifests", "--only", parts, "--output", "json"]).kill_on_drop(true);
    command.stdin(std::process::Stdio::null());
    let output = tokio::time::timeout(PRINTING, command.output()).await.with_context(what)?.with_context(what)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} manifests failed: {}", program.display(), said.trim());
    let list: Value = serde_json::from_slice(&output.stdout).with_context(what)?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}
