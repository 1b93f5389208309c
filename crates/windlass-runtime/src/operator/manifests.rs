//! Manifests of an operator, derived from its controllers and webhooks.

use clap::ValueEnum;
use serde_json::json;

use super::Operator;
use crate::clusters::Clusters;
use crate::manifests::{Coordination, Manifest, ManifestError, OperatorManifests, Part, WebhookCertificates, to_yaml};

// A doc comment would show up in the help.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ManifestFlags {
    /// Parts to print, comma-separated; all by default
    #[arg(long, value_name = "PARTS", value_enum, value_delimiter = ',')]
    only: Vec<Part>,

    /// Image of the operator; OPERATOR:VERSION by default
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,

    /// Namespace of the operator; OPERATOR-system by default
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,

    /// Namespaces to watch, comma-separated; RBAC rules are limited to them
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    watch_namespaces: Vec<String>,

    /// Number of replicas
    #[arg(long, value_name = "COUNT", default_value = "1")]
    replicas: u32,

    /// Share the objects among all replicas instead of electing a leader
    #[arg(long)]
    shards: bool,

    /// Let cert-manager issue the webhook certificate instead of the operator itself
    #[arg(long)]
    cert_manager: bool,

    /// Add a ServiceMonitor for the Prometheus Operator
    #[arg(long)]
    service_monitor: bool,

    /// Add a NetworkPolicy that allows only metrics and webhook traffic
    #[arg(long)]
    network_policy: bool,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "yaml")]
    output: Format,
}

/// Output format of manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// YAML, one document per object
    #[default]
    Yaml,
    /// JSON, one List
    Json,
}

impl Operator {
    /// Returns the manifests of this operator: CRDs, RBAC rules and webhook configurations are derived from what was
    /// added to it. Its other fields can be set before it is [built](OperatorManifests::build).
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass_runtime::{controller::{Action, Controller}, operator::Operator};
    ///
    /// let controller = Controller::<ConfigMap>::new("maps", async |_map, _ctx| Ok(Action::done()));
    /// let operator = Operator::new("map-operator").controller(controller);
    /// let manifests = operator.manifests("map-operator", "example.com/map-operator:1.0").build()?;
    /// assert!(manifests.iter().any(|manifest| manifest.kind() == "ClusterRole"));
    /// # Ok::<(), windlass_runtime::manifests::ManifestError>(())
    /// ```
    pub fn manifests(&self, namespace: &str, image: &str) -> OperatorManifests {
        let mut manifests = OperatorManifests::new(&self.name, namespace, image);
        manifests.definitions = self.definitions.clone();
        manifests.permissions = self.controllers.iter().flat_map(|controller| controller.permissions()).collect();
        manifests.permissions.extend(self.webhooks.permissions());
        manifests.permissions.extend(self.clusters.iter().flat_map(Clusters::permissions));
        manifests.permissions.extend(self.permissions.iter().cloned());
        manifests.watched_namespaces.clone_from(&self.restricted_to);
        manifests.webhooks = self.webhooks.describe();
        manifests.event_style = self.event_style;
        manifests.metrics_secure = !self.plain_metrics;
        manifests
    }
}

/// Returns the output of the subcommand `manifests`.
pub(super) fn print(operator: Operator, flags: ManifestFlags) -> Result<String, ManifestError> {
    let operator = operator.namespaces(flags.watch_namespaces.iter().cloned());
    let namespace = flags.namespace.unwrap_or_else(|| format!("{}-system", operator.name));
    let image = flags.image.unwrap_or_else(|| format!("{}:{}", operator.name, operator.version.unwrap_or("latest")));
    let mut manifests = operator.manifests(&namespace, &image);
    manifests.replicas = flags.replicas;
    manifests.service_monitor = flags.service_monitor;
    manifests.network_policy = flags.network_policy;
    if flags.shards {
        manifests.coordination = Coordination::Shards;
    }
    if flags.cert_manager {
        manifests.certificates = WebhookCertificates::CertManager;
    }
    if !flags.watch_namespaces.is_empty() {
        manifests.arguments.push(format!("--namespace={}", flags.watch_namespaces.join(",")));
    }
    let mut all = manifests.build()?;
    if !flags.only.is_empty() {
        all.retain(|manifest| flags.only.contains(&manifest.part));
    }
    Ok(render(&all, flags.output))
}

/// Returns the output of the subcommand `crds`.
pub(super) fn print_definitions(operator: &Operator, format: Format) -> Result<String, ManifestError> {
    let mut all = operator.manifests("", "").build()?;
    all.retain(|manifest| manifest.part == Part::Crds);
    Ok(render(&all, format))
}

fn render(manifests: &[Manifest], format: Format) -> String {
    match format {
        Format::Yaml => to_yaml(manifests),
        Format::Json => {
            let items: Vec<_> = manifests.iter().map(|manifest| &manifest.object).collect();
            format!("{:#}\n", json!({ "apiVersion": "v1", "kind": "List", "items": items }))
        }
    }
}
