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
    event::Reporter,
    trace::{LABEL, Trace},
    tunnel::{Installation, Tunnel},
};
use crate::cluster::{Applied, ApplyOptions, Cluster, Outcome, documents};

/// How long an operator may take to print its manifests.
const PRINTING: Duration = Duration::from_secs(30);

/// A cheap handle for installing resources.
#[derive(Clone)]
pub(crate) struct Installer {
    cluster: Cluster,
    tunnel: Arc<Tunnel>,
    trace: Trace,
    reporter: Reporter,
    /// Number of operators so far.
    connections: Arc<AtomicUsize>,
}

impl Installer {
    pub(crate) fn new(cluster: Cluster, tunnel: Tunnel, reporter: Reporter) -> Self {
        let trace = Trace::new(cluster.client.clone(), &tunnel.operator);
        Self { cluster, tunnel: Arc::new(tunnel), trace, reporter, connections: Arc::default() }
    }

    /// Gets the manifests of an operator, and applies its CRDs. Webhooks are connected once the operator is ready.
    pub(crate) async fn install(&self, program: PathBuf) -> anyhow::Result<Installation> {
        let objects = manifests(&program).await?;
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
        Ok(installation)
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
        let mut told = Vec::new();
        let done = async {
            let (trace, mut tell) = (&self.trace, |line| told.push(line));
            let mutating = |name: &str| wanted("MutatingWebhookConfiguration", name);
            trace.prune::<MutatingWebhookConfiguration>(&mutating, false, &mut tell).await?;
            let validating = |name: &str| wanted("ValidatingWebhookConfiguration", name);
            trace.prune::<ValidatingWebhookConfiguration>(&validating, false, &mut tell).await
        };
        let done = done.await;
        self.say_all(told).await;
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
        let mut told = Vec::new();
        let done = self.trace.withdraw(false, &mut |line| told.push(line)).await;
        self.say_all(told).await;
        done
    }

    async fn apply(&self, objects: &[Value]) -> anyhow::Result<()> {
        let mut told = Vec::new();
        let mut tell = |applied: &Applied| {
            if applied.outcome != Outcome::Unchanged {
                told.push(applied.to_string());
            }
        };
        let options = ApplyOptions { force_conflicts: true, ..ApplyOptions::default() };
        let done = self.cluster.apply(objects, options, &mut tell).await;
        self.say_all(told).await;
        done.map(drop)
    }

    async fn say_all(&self, lines: Vec<String>) {
        for line in lines {
            self.reporter.say(line).await;
        }
    }
}

/// CRDs and webhook configurations of an operator.
async fn manifests(program: &Path) -> anyhow::Result<Vec<Value>> {
    let what = || format!("cannot run {} manifests", program.display());
    let mut command = tokio::process::Command::new(program);
    command.args(["manifests", "--only", "crds,webhooks", "--output", "json"]).kill_on_drop(true);
    command.stdin(std::process::Stdio::null());
    let output = tokio::time::timeout(PRINTING, command.output()).await.with_context(what)?.with_context(what)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} manifests failed: {}", program.display(), said.trim());
    let list: Value = serde_json::from_slice(&output.stdout).with_context(what)?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}
