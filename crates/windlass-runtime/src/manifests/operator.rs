//! Input of the manifests, and their generation.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, DynamicObject};
use serde_json::{Value, json};

use super::{Manifest, Part, Permission, definitions, monitoring, rbac, webhooks, workload};
use crate::{
    events::EventStyle,
    webhook::{Description, Endpoint},
};

/// An operator and how it runs in a cluster.
///
/// [`OperatorManifests::new`] sets what most operators need; other fields can be set before [`build`](Self::build).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OperatorManifests {
    /// Name of the operator and of its objects.
    pub name: String,
    /// Namespace of the operator.
    pub namespace: String,
    /// Container image.
    pub image: String,
    /// CRDs of its resources. Versions of one resource are merged.
    pub definitions: Vec<CustomResourceDefinition>,
    /// Permissions of its controllers. Those for coordination, events and certificates are added.
    pub permissions: Vec<Permission>,
    /// The namespaces that the operator is restricted to; all if empty.
    pub watched_namespaces: Vec<String>,
    /// Webhooks that the API server should call.
    pub webhooks: Vec<Description>,
    /// Issuer of the webhook certificate; self-signed by default.
    pub certificates: WebhookCertificates,
    /// Coordination of replicas; leader election by default.
    pub coordination: Coordination,
    /// Whether it records events; true by default.
    pub events: bool,
    /// Style of its events.
    pub event_style: EventStyle,
    /// Number of replicas; 1 by default.
    pub replicas: u32,
    /// Port of metrics, if any; 8080 by default.
    pub metrics_port: Option<u16>,
    /// Whether metrics are served over HTTPS, and only to users who are authorized by the API server; true by default.
    /// Adds `--metrics-secure`, the permission for token and access reviews, and the ClusterRole `NAME-metrics-reader` for users
    /// that scrape them.
    pub metrics_secure: bool,
    /// Port of probes; 8081 by default.
    pub probes_port: u16,
    /// Port of webhooks, if there are any; 9443 by default.
    pub webhook_port: u16,
    /// `resources` of the container; requests of 10m CPU and 64Mi, and a limit of 256Mi by default.
    pub resources: Value,
    /// Additional arguments of the program.
    pub arguments: Vec<String>,
    /// Additional environment variables of the program.
    pub environment: Vec<(String, String)>,
    /// Whether to add a ServiceMonitor for the Prometheus Operator; false by default, as its CRDs may be missing.
    pub service_monitor: bool,
    /// Name of the Service of the webhooks, if it is not the one in the manifests.
    pub(crate) service: Option<String>,
    /// Whether to add a NetworkPolicy that allows only metrics and webhooks; false by default, as not every cluster
    /// supports it.
    pub network_policy: bool,
}

/// Coordination of replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coordination {
    /// There is only one replica.
    Single,
    /// One replica leads, the others are on standby.
    #[default]
    Leader,
    /// Each replica has its share of the keys.
    Shards,
}

/// Issuer of the webhook certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WebhookCertificates {
    /// The operator issues it, stores it in a Secret, and writes the CA bundle.
    #[default]
    SelfSigned,
    /// cert-manager issues it: the manifests contain an Issuer and a Certificate.
    CertManager,
}

/// Error from generating manifests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// CRDs of one resource are inconsistent.
    #[error("failed to merge the versions of {name}: {cause}")]
    Merge {
        /// Name of the CRD.
        name: String,
        /// The inconsistency.
        cause: String,
    },
    /// A conversion webhook is for a kind without a CRD.
    #[error("no CRD for {kind} in {group:?}, which has a conversion webhook")]
    Undefined {
        /// Group of the kind.
        group: String,
        /// The kind.
        kind: String,
    },
}

impl OperatorManifests {
    /// Creates the manifests of an operator without CRDs, permissions of its own, or webhooks.
    pub fn new(name: impl Into<String>, namespace: impl Into<String>, image: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: namespace.into(),
            image: image.into(),
            definitions: Vec::new(),
            permissions: Vec::new(),
            watched_namespaces: Vec::new(),
            webhooks: Vec::new(),
            certificates: WebhookCertificates::default(),
            coordination: Coordination::default(),
            events: true,
            event_style: EventStyle::default(),
            replicas: 1,
            metrics_port: Some(8080),
            metrics_secure: true,
            probes_port: 8081,
            webhook_port: 9443,
            resources: json!({
                "requests": { "cpu": "10m", "memory": "64Mi" },
                "limits": { "memory": "256Mi" },
            }),
            arguments: Vec::new(),
            environment: Vec::new(),
            service_monitor: false,
            network_policy: false,
            service: None,
        }
    }

    /// Returns all manifests in the order in which they should be applied: webhook configurations come after the
    /// Deployment that serves them.
    pub fn build(&self) -> Result<Vec<Manifest>, ManifestError> {
        let mut manifests = vec![self.namespace_manifest()];
        manifests.extend(definitions::manifests(self)?);
        manifests.extend(self.rbac(&self.name));
        manifests.extend(monitoring::reader_role(self));
        manifests.extend(workload::manifests(self));
        manifests.extend(webhooks::manifests(self));
        manifests.extend(monitoring::manifests(self));
        Ok(manifests)
    }

    /// Returns only a ServiceAccount of this name in the operator's namespace, its roles and their bindings, which have the
    /// same name; the role for secure metrics has the suffix `-metrics-auth`. [`build`](Self::build) includes them with the
    /// name of the operator.
    pub fn rbac(&self, service_account: &str) -> Vec<Manifest> {
        let mut manifests = rbac::manifests(self, service_account, self.all_permissions());
        manifests.extend(monitoring::review_role(self, service_account));
        manifests
    }

    /// Returns only the CRDs.
    pub(crate) fn definitions(&self) -> Result<Vec<Manifest>, ManifestError> {
        definitions::manifests(self)
    }

    /// Returns the declared permissions, and those for coordination, events and certificates.
    pub fn all_permissions(&self) -> Vec<Permission> {
        let mut permissions = self.permissions.clone();
        let lease_verbs: &[_] = match self.coordination {
            Coordination::Single => &[],
            Coordination::Leader => &["get", "create", "update"],
            Coordination::Shards => &["get", "list", "create", "update", "delete"],
        };
        let leases = Permission::new("coordination.k8s.io", "leases", lease_verbs.iter().copied());
        permissions.push(leases.in_namespace(&self.namespace));
        if self.has_webhook_server() && self.certificates == WebhookCertificates::SelfSigned {
            permissions.extend(webhooks::self_signed_permissions(self));
        }
        if self.events {
            let group = match self.event_style {
                EventStyle::Series => "events.k8s.io",
                EventStyle::Counted => "",
            };
            let events = Permission::new(group, "events", ["create", "patch"]);
            let is_of_cluster = self.permissions.iter().any(|permission| permission.namespace.is_none());
            // Those about cluster-scoped objects, which no restriction applies to, are in `default`.
            let of_cluster = match (is_of_cluster, self.watched_namespaces.is_empty()) {
                (true, true) => Some(events.clone()),
                (true, false) => Some(events.clone().in_namespace("default")),
                (false, _) => None,
            };
            permissions.extend(of_cluster);
            // Events are in the namespace of their object.
            let about = self.permissions.iter().filter_map(|permission| permission.namespace.as_ref());
            let about = about.chain(&self.watched_namespaces).chain([&self.namespace]);
            permissions.extend(about.map(|namespace| events.clone().in_namespace(namespace)));
        }
        permissions
    }

    fn namespace_manifest(&self) -> Manifest {
        let mut manifest =
            self.manifest(Part::Namespace, ("", "v1", "Namespace", "namespaces"), None, &self.namespace, json!({}));
        let labels = manifest.object.metadata.labels.get_or_insert_default();
        labels.insert("pod-security.kubernetes.io/enforce".to_owned(), "restricted".to_owned());
        manifest
    }

    pub(super) fn serves_secure_metrics(&self) -> bool {
        self.metrics_secure && self.metrics_port.is_some()
    }

    pub(super) fn has_webhook_server(&self) -> bool {
        !self.webhooks.is_empty()
    }

    pub(super) fn webhooks_of(&self, endpoint: Endpoint) -> impl Iterator<Item = &Description> {
        self.webhooks.iter().filter(move |webhook| webhook.endpoint == endpoint)
    }

    pub(super) fn webhook_service(&self) -> String {
        self.service.clone().unwrap_or_else(|| format!("{}-webhook", self.name))
    }

    /// Returns the client configuration of a webhook.
    pub(super) fn webhook_client(&self, path: &str) -> Value {
        let service = json!({
            "name": self.webhook_service(), "namespace": self.namespace, "path": path, "port": 443,
        });
        json!({ "service": service })
    }

    /// Returns the labels of all objects.
    pub(super) fn labels(&self) -> Value {
        json!({ "app.kubernetes.io/name": self.name, "app.kubernetes.io/managed-by": "windlass" })
    }

    /// Returns the selector of the pods.
    pub(super) fn selector(&self) -> Value {
        json!({ "app.kubernetes.io/name": self.name })
    }

    /// Returns an object. `resource` is group, version, kind and plural; `content` is everything besides type and
    /// metadata.
    pub(super) fn manifest(
        &self,
        part: Part,
        resource: (&str, &str, &str, &str),
        namespace: Option<&str>,
        name: &str,
        content: Value,
    ) -> Manifest {
        let (group, version, kind, plural) = resource;
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version,
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        let mut object = DynamicObject::new(name, &resource).data(content);
        object.metadata.namespace = namespace.map(str::to_owned);
        object.metadata.labels = serde_json::from_value(self.labels()).expect("labels must be strings");
        Manifest { part, resource, object }
    }
}
