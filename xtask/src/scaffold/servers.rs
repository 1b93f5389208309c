//! Has a server accept the manifests of a project: its kustomize tree with an overlay, the installer, and the chart with
//! several values.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};

use super::execute;
use crate::e2e::server::Server;

/// CRDs of other projects that manifests may refer to. Their objects are not validated.
const FOREIGN: &[(&str, &str, &str)] = &[
    ("monitoring.coreos.com", "ServiceMonitor", "servicemonitors"),
    ("cert-manager.io", "Issuer", "issuers"),
    ("cert-manager.io", "Certificate", "certificates"),
];

/// Values to render a chart with.
const VALUES: &[&[&str]] = &[
    &[],
    &["fullnameOverride=other", "replicas=3", "coordination=shards", "podDisruptionBudget.enabled=true"],
    &["metrics.serviceMonitor.enabled=true", "metrics.serviceMonitor.interval=30s", "networkPolicy.enabled=true"],
    &["metrics.secure=false", "metrics.serviceMonitor.enabled=true"],
    &["metrics.enabled=false", "networkPolicy.enabled=true", "serviceAccount.create=false", "rbac.create=false"],
    &[
        "nodeSelector.disk=ssd",
        "tolerations[0].operator=Exists",
        "priorityClassName=high",
        "extraArgs[0]=--debug-state",
    ],
    &["watchNamespaces={default,kube-public}", "replicas=2"],
    &["extraEnv[0].name=A", "extraEnv[0].value=b", "podAnnotations.a=b", "podLabels.c=d", "image.tag=v2"],
];
/// The same for charts with webhooks, and with CRDs.
const WEBHOOKS: &[&str] =
    &["webhooks.certManager.enabled=true", "webhooks.port=10250", "watchNamespaces={default,kube-public}"];
const ISSUER: &[&str] = &[
    "webhooks.certManager.enabled=true",
    "webhooks.certManager.issuerRef.name=ours",
    "webhooks.certManager.issuerRef.kind=ClusterIssuer",
];
const CRDS: &[&str] = &["crds.keep=false", "rbac.aggregate=false"];

/// The server, and where tools are found.
pub(super) struct Options {
    pub(super) against: String,
    pub(super) windlass: PathBuf,
    pub(super) peers: PathBuf,
}

/// Available tools.
pub(super) struct Tools {
    pub(super) kubectl: PathBuf,
    helm: Option<PathBuf>,
}

impl Options {
    /// Finds tools among the peers and on the PATH.
    pub(super) fn tools(&self) -> Option<Tools> {
        let find = |name: &str, check: &[&str]| {
            let candidates = [self.peers.join(name), PathBuf::from(name)];
            candidates.into_iter().find(|program| execute(Command::new(program).args(check)).is_ok())
        };
        let Some(kubectl) = find("kubectl", &["version", "--client"]) else {
            println!("kubectl is not installed: manifests are not applied to a server");
            return None;
        };
        let helm = find("helm", &["version"]);
        if helm.is_none() {
            println!("helm is not installed: charts are not checked");
        }
        Some(Tools { kubectl, helm })
    }

    /// Applies all manifests of a project. Samples come before webhooks, which have no server.
    pub(super) fn check(&self, tools: &Tools, project: &Path, has_samples: bool) -> anyhow::Result<()> {
        let folder = project.with_extension("server");
        fs::create_dir_all(&folder)?;
        let server = Server::start(&self.against, Some(&self.windlass), &self.peers, &folder)?;
        let kubectl = |arguments: &[&str]| {
            let mut command = Command::new(&tools.kubectl);
            command.arg("--kubeconfig").arg(server.kubeconfig()).args(arguments);
            command
        };
        let apply = |file: PathBuf, flags: &[&str]| {
            let option = if file.is_dir() { "--kustomize" } else { "--filename" };
            execute(kubectl(&["apply", option]).arg(file).args(flags))
        };
        let foreign = folder.join("foreign.yaml");
        fs::write(&foreign, foreign_crds())?;
        apply(foreign, &[])?;
        let parts: &[&str] = if has_samples { &["crd", "samples", "default"] } else { &["default"] };
        for part in parts {
            apply(project.join("deploy").join(part), &[])?;
        }
        let overlay = project.join("deploy/overlays/production");
        if overlay.is_dir() {
            apply(overlay, &["--dry-run=server"])?;
        }
        apply(project.join("dist/install.yaml"), &["--server-side", "--force-conflicts"])?;
        if let Some(helm) = &tools.helm {
            let chart = Chart { helm, kubectl: &kubectl, folder: project.join("dist/chart") };
            chart.check()?;
        }
        server.stop()
    }
}

struct Chart<'a> {
    helm: &'a Path,
    kubectl: &'a dyn Fn(&[&str]) -> Command,
    folder: PathBuf,
}

impl Chart<'_> {
    /// Renders it with several values, and has the server validate the result.
    fn check(&self) -> anyhow::Result<()> {
        execute(Command::new(self.helm).args(["lint", "--strict"]).arg(&self.folder))?;
        let values = fs::read_to_string(self.folder.join("values.yaml"))?;
        let mut all: Vec<&[&str]> = VALUES.to_vec();
        if values.contains("\nwebhooks:") {
            all.extend([WEBHOOKS, ISSUER]);
        }
        if values.contains("\ncrds:") {
            all.push(CRDS);
        }
        for values in all {
            let mut command = Command::new(self.helm);
            command.args(["template", "release"]).arg(&self.folder).args([
                "--namespace",
                "default",
                "--kube-version",
                "1.36.0",
            ]);
            command.args(values.iter().flat_map(|value| ["--set", value]));
            let output = command.output().context("cannot run helm")?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure!(output.status.success(), "helm template with {values:?} failed\n{said}");
            self.accepted(&output.stdout).with_context(|| format!("the chart with {values:?}"))?;
        }
        // Invalid values are rejected.
        let mut wrong = Command::new(self.helm);
        let wrong = wrong.args(["template", "release"]).arg(&self.folder).args(["--set", "replicas=many"]).output()?;
        ensure!(!wrong.status.success(), "the schema of the chart's values must reject replicas=many");
        Ok(())
    }

    fn accepted(&self, manifests: &[u8]) -> anyhow::Result<()> {
        let flags = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-"];
        let mut command = (self.kubectl)(&flags);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        child.stdin.take().context("standard input is piped")?.write_all(manifests)?;
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "the server rejects it\n{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

fn foreign_crds() -> String {
    let crds = FOREIGN.iter().map(|(group, kind, plural)| {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
             metadata: {{name: {plural}.{group}}}\n\
             spec:\n  group: {group}\n  scope: Namespaced\n  names: {{kind: {kind}, plural: {plural}}}\n  versions:\n  \
             - name: v1\n    served: true\n    storage: true\n    schema:\n      \
             openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}\n"
        )
    });
    crds.collect::<Vec<_>>().join("---\n")
}
