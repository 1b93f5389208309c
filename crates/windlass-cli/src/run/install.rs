//! What a run brings into a cluster, and takes away again.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use k8s_openapi::{
    api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceConversion, CustomResourceDefinition},
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    event::Reporter,
    tunnel::{Installation, LABEL, Tunnel},
};
use crate::cluster::{Applied, ApplyOptions, Cluster, Outcome, documents};

/// How long a program may take to print its manifests.
const PRINTING: Duration = Duration::from_secs(30);
/// How often a definition is written anew that somebody else has just written.
const TRIES: usize = 5;

/// Brings objects into a cluster. A cheap handle.
#[derive(Clone)]
pub(crate) struct Installer {
    cluster: Cluster,
    tunnel: Arc<Tunnel>,
    reporter: Reporter,
    /// How definitions were converted before the run, by name; nothing where they were not, or were not there.
    before: Arc<Mutex<HashMap<String, Option<CustomResourceConversion>>>>,
}

impl Installer {
    pub(crate) fn new(cluster: Cluster, tunnel: Tunnel, reporter: Reporter) -> Self {
        Self { cluster, tunnel: Arc::new(tunnel), reporter, before: Arc::default() }
    }

    /// Asks a program what it needs, and applies the definitions. The rest has to wait until somebody answers.
    pub(crate) async fn install(&self, program: PathBuf) -> anyhow::Result<Installation> {
        let objects = manifests(&program).await?;
        let installation = self.tunnel.redirect(objects);
        self.remember_conversions(&installation).await?;
        self.apply(&installation.definitions).await?;
        Ok(installation)
    }

    /// Lets the API server ask the operator, and no longer ask what earlier ones were asked.
    pub(crate) async fn connect(&self, installation: &Installation) -> anyhow::Result<()> {
        self.apply(&installation.configurations).await?;
        let wanted = |kind: &str, name: &str| {
            let same = |object: &Value| object["kind"] == kind && object["metadata"]["name"] == name;
            installation.configurations.iter().any(same)
        };
        self.prune::<MutatingWebhookConfiguration>(&|name| wanted("MutatingWebhookConfiguration", name)).await?;
        self.prune::<ValidatingWebhookConfiguration>(&|name| wanted("ValidatingWebhookConfiguration", name)).await
    }

    /// Applies the manifests of a folder.
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

    /// Takes away what leads to this machine: a webhook that nobody answers would break the cluster.
    pub(crate) async fn withdraw(&self) -> anyhow::Result<()> {
        self.prune::<MutatingWebhookConfiguration>(&|_| false).await?;
        self.prune::<ValidatingWebhookConfiguration>(&|_| false).await?;
        let before = std::mem::take(&mut *self.before.lock());
        for (name, conversion) in before {
            self.restore_conversion(&name, conversion).await.with_context(|| format!("cannot restore {name}"))?;
        }
        Ok(())
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
        for line in told {
            self.reporter.say(line).await;
        }
        done.map(drop)
    }

    /// Removes configurations that a run has made, except for those that are wanted.
    async fn prune<K>(&self, wanted: &(dyn Fn(&str) -> bool + Sync)) -> anyhow::Result<()>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let api: Api<K> = Api::all(self.cluster.client.clone());
        let ours = ListParams::default().labels(&format!("{LABEL}={}", self.tunnel.operator));
        let kind = K::kind(&());
        let found = api.list(&ours).await.with_context(|| format!("cannot look for each {kind} of a run"))?;
        let names: Vec<String> = found.items.iter().map(|object| object.name_any()).collect();
        for name in names {
            if wanted(&name) {
                continue;
            }
            match api.delete(&name, &DeleteParams::default()).await {
                Ok(_) => self.reporter.say(format!("{kind} {name}: deleted")).await,
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error).with_context(|| format!("cannot delete {kind} {name}")),
            }
        }
        Ok(())
    }

    /// How the definitions that will lead here are converted now. One that an earlier run left is not worth it.
    async fn remember_conversions(&self, installation: &Installation) -> anyhow::Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.cluster.client.clone());
        for definition in &installation.definitions {
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            let leads_here = definition["metadata"]["labels"].get(LABEL).is_some();
            if !leads_here || self.before.lock().contains_key(name) {
                continue;
            }
            let found = api.get_opt(name).await.with_context(|| format!("cannot read the definition {name}"))?;
            let conversion = found.filter(|found| !found.labels().contains_key(LABEL));
            self.before.lock().insert(name.to_owned(), conversion.and_then(|found| found.spec.conversion));
        }
        Ok(())
    }

    async fn restore_conversion(
        &self,
        name: &str,
        conversion: Option<CustomResourceConversion>,
    ) -> Result<(), kube::Error> {
        let api: Api<CustomResourceDefinition> = Api::all(self.cluster.client.clone());
        let none = || CustomResourceConversion { strategy: "None".to_owned(), webhook: None };
        let conversion = conversion.unwrap_or_else(none);
        for _ in 0..TRIES {
            let Some(mut definition) = api.get_opt(name).await? else { return Ok(()) };
            if definition.labels_mut().remove(LABEL).is_none() {
                // Somebody has made it anew.
                return Ok(());
            }
            definition.spec.conversion = Some(conversion.clone());
            match api.replace(name, &PostParams::default(), &definition).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                result => return result.map(drop),
            }
        }
        Ok(())
    }
}

/// The definitions and webhook configurations of a program.
async fn manifests(program: &Path) -> anyhow::Result<Vec<Value>> {
    let what = || format!("cannot run {} manifests", program.display());
    let mut command = tokio::process::Command::new(program);
    command.args(["manifests", "--only", "crds,webhooks", "--output", "json"]).kill_on_drop(true);
    command.stdin(std::process::Stdio::null());
    let output = tokio::time::timeout(PRINTING, command.output()).await.with_context(what)?.with_context(what)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} manifests has failed: {}", program.display(), said.trim());
    let list: Value = serde_json::from_slice(&output.stdout).with_context(what)?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}
