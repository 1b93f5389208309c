//! A server accepts what a project is deployed with: its kustomize tree, the installer, and the chart with several
//! values.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};

use super::execute;
use crate::e2e::server::Server;

/// Definitions of others that manifests may refer to. What is in their objects is not looked at.
const FOREIGN: &[(&str, &str, &str)] = &[
    ("monitoring.coreos.com", "ServiceMonitor", "servicemonitors"),
    ("cert-manager.io", "Issuer", "issuers"),
    ("cert-manager.io", "Certificate", "certificates"),
];

/// Values that a chart is rendered with.
const VALUES: &[&[&str]] = &[
    &[],
    &["fullnameOverride=other", "replicas=3", "coordination=shards", "podDisruptionBudget.enabled=true"],
    &["metrics.serviceMonitor.enabled=true", "metrics.serviceMonitor.interval=30s", "networkPolicy.enabled=true"],
    &["metrics.enabled=false", "networkPolicy.enabled=true", "serviceAccount.create=false", "rbac.create=false"],
    &[
        "nodeSelector.disk=ssd",
        "tolerations[0].operator=Exists",
        "priorityClassName=high",
        "extraArgs[0]=--debug-state",
    ],
    &["extraEnv[0].name=A", "extraEnv[0].value=b", "podAnnotations.a=b", "podLabels.c=d", "image.tag=v2"],
];
/// The same for those with webhooks, and with definitions.
const WEBHOOKS: &[&str] = &["webhooks.certManager.enabled=true", "webhooks.port=10250"];
const ISSUER: &[&str] = &[
    "webhooks.certManager.enabled=true",
    "webhooks.certManager.issuerRef.name=ours",
    "webhooks.certManager.issuerRef.kind=ClusterIssuer",
];
const DEFINITIONS: &[&str] = &["crds.keep=false", "rbac.aggregate=false"];

/// Which server, and where programs are.
pub(super) struct Options {
    pub(super) against: String,
    pub(super) windlass: PathBuf,
    pub(super) peers: PathBuf,
}

/// Programs that there are.
pub(super) struct Tools {
    kubectl: PathBuf,
    helm: Option<PathBuf>,
}

impl Options {
    /// Looks for programs among the peers and on the path.
    pub(super) fn tools(&self) -> Option<Tools> {
        let find = |name: &str, check: &[&str]| {
            let candidates = [self.peers.join(name), PathBuf::from(name)];
            candidates.into_iter().find(|program| execute(Command::new(program).args(check)).is_ok())
        };
        let Some(kubectl) = find("kubectl", &["version", "--client"]) else {
            println!("there is no kubectl: whether a server accepts the manifests is not looked at");
            return None;
        };
        let helm = find("helm", &["version"]);
        if helm.is_none() {
            println!("there is no helm: charts are not looked at");
        }
        Some(Tools { kubectl, helm })
    }

    /// Applies everything that a project has. Samples come before webhooks, which nobody serves.
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
        fs::write(&foreign, definitions_of_others())?;
        apply(foreign, &[])?;
        let parts: &[&str] = if has_samples { &["crd", "samples", "default"] } else { &["default"] };
        for part in parts {
            apply(project.join("deploy").join(part), &[])?;
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
    /// Renders it with several values, and asks the server whether it would accept that.
    fn check(&self) -> anyhow::Result<()> {
        execute(Command::new(self.helm).args(["lint", "--strict"]).arg(&self.folder))?;
        let values = fs::read_to_string(self.folder.join("values.yaml"))?;
        let mut all: Vec<&[&str]> = VALUES.to_vec();
        if values.contains("\nwebhooks:") {
            all.extend([WEBHOOKS, ISSUER]);
        }
        if values.contains("\ncrds:") {
            all.push(DEFINITIONS);
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
        // What is not a value is refused.
        let mut wrong = Command::new(self.helm);
        let wrong = wrong.args(["template", "release"]).arg(&self.folder).args(["--set", "replicas=many"]).output()?;
        ensure!(!wrong.status.success(), "the schema of the chart's values must refuse replicas=many");
        Ok(())
    }

    fn accepted(&self, manifests: &[u8]) -> anyhow::Result<()> {
        let flags = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-"];
        let mut command = (self.kubectl)(&flags);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        child.stdin.take().context("the input must be piped")?.write_all(manifests)?;
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "the server refuses it\n{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

fn definitions_of_others() -> String {
    let definitions = FOREIGN.iter().map(|(group, kind, plural)| {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
             metadata: {{name: {plural}.{group}}}\n\
             spec:\n  group: {group}\n  scope: Namespaced\n  names: {{kind: {kind}, plural: {plural}}}\n  versions:\n  \
             - name: v1\n    served: true\n    storage: true\n    schema:\n      \
             openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}\n"
        )
    });
    definitions.collect::<Vec<_>>().join("---\n")
}
