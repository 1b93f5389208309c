//! The manifests of an operator, from what is wired.

use clap::ValueEnum;
use serde_json::json;

use super::Operator;
use crate::manifests::{Coordination, Manifest, ManifestError, OperatorManifests, Part, WebhookCertificates, to_yaml};

// Flags of `manifests`; no documentation, which clap would show.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ManifestFlags {
    /// Only these parts, comma-separated
    #[arg(long, value_name = "PARTS", value_enum, value_delimiter = ',')]
    only: Vec<Part>,

    /// Image of the operator; OPERATOR:VERSION unless given
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,

    /// Namespace of the operator; OPERATOR-system unless given
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,

    /// Only these namespaces are watched, comma-separated; the operator gets rights in no others
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    watch_namespaces: Vec<String>,

    /// How many replicas
    #[arg(long, value_name = "COUNT", default_value = "1")]
    replicas: u32,

    /// All replicas work, each on its share of the objects, instead of one that leads
    #[arg(long)]
    shards: bool,

    /// cert-manager makes the certificate of the webhooks, not the operator itself
    #[arg(long)]
    cert_manager: bool,

    /// Prometheus Operator scrapes the metrics
    #[arg(long)]
    service_monitor: bool,

    /// Only metrics and webhooks may be connected to
    #[arg(long)]
    network_policy: bool,

    /// Format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "yaml")]
    output: Format,
}

/// Format of manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A document for each
    #[default]
    Yaml,
    /// One List
    Json,
}

impl Operator {
    /// What a cluster needs to run this operator, as seen from what is wired: definitions, rights, webhooks. Its other
    /// fields can be set before it is [built](OperatorManifests::build).
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
        manifests.permissions.extend(self.permissions.iter().cloned());
        manifests.webhooks = self.webhooks.describe();
        manifests
    }
}

/// What `manifests` prints.
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

/// What `crds` prints.
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
