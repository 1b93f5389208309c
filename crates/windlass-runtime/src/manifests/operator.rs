//! What manifests are made of, and all of them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, DynamicObject};
use serde_json::{Value, json};

use super::{Manifest, Part, Permission, definitions, monitoring, rbac, webhooks, workload};
use crate::webhook::{Description, Endpoint};

/// An operator, as a cluster is to run it.
///
/// [`OperatorManifests::new`] fills in what most operators want; the rest is set before [`build`](Self::build).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OperatorManifests {
    /// Name of the operator, and of its objects.
    pub name: String,
    /// Where it runs.
    pub namespace: String,
    /// The image it is in.
    pub image: String,
    /// Definitions of its resources. Those that are versions of one resource become one.
    pub definitions: Vec<CustomResourceDefinition>,
    /// What its controllers need. What coordination, events and certificates need is added.
    pub permissions: Vec<Permission>,
    /// What it is to be asked by the API server.
    pub webhooks: Vec<Description>,
    /// Where webhooks have their certificate from: self-made.
    pub certificates: WebhookCertificates,
    /// How replicas share the work: one leads.
    pub coordination: Coordination,
    /// Whether it reports events: yes.
    pub events: bool,
    /// How many replicas: 1.
    pub replicas: u32,
    /// Where it serves metrics, if it does: 8080.
    pub metrics_port: Option<u16>,
    /// Where it answers probes: 8081.
    pub probes_port: u16,
    /// Where it serves webhooks, if it has any: 9443.
    pub webhook_port: u16,
    /// `resources` of the container: 10m CPU and 64Mi, at most 256Mi.
    pub resources: Value,
    /// More arguments of the program.
    pub arguments: Vec<String>,
    /// More environment variables of the program.
    pub environment: Vec<(String, String)>,
    /// Whether Prometheus Operator is told to scrape it; no unless said, since its definitions may be missing.
    pub service_monitor: bool,
    /// Name of the Service in front of the webhooks, if it is not the one that is among the manifests.
    pub(crate) service: Option<String>,
    /// Whether only metrics and webhooks may be connected to: no, since not every cluster can.
    pub network_policy: bool,
}

/// How replicas share the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coordination {
    /// They do not: there is one.
    Single,
    /// One leads, the others stand by.
    #[default]
    Leader,
    /// Each has its part of the keys.
    Shards,
}

/// Where webhooks have their certificate from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WebhookCertificates {
    /// The operator makes it, keeps it in a Secret, and tells the API server.
    #[default]
    SelfSigned,
    /// cert-manager makes it: an Issuer and a Certificate are among the manifests.
    CertManager,
}

/// Why manifests cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// Definitions of one resource do not fit together.
    #[error("the versions of {name} cannot be merged: {cause}")]
    Merge {
        /// Name of the definition.
        name: String,
        /// What does not fit.
        cause: String,
    },
    /// A conversion webhook is for a kind that no definition is of.
    #[error("there is no definition of {kind} in {group:?}, which has a conversion webhook")]
    Undefined {
        /// Group of the kind.
        group: String,
        /// The kind.
        kind: String,
    },
}

impl OperatorManifests {
    /// An operator without definitions, rights of its own, or webhooks.
    pub fn new(name: impl Into<String>, namespace: impl Into<String>, image: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: namespace.into(),
            image: image.into(),
            definitions: Vec::new(),
            permissions: Vec::new(),
            webhooks: Vec::new(),
            certificates: WebhookCertificates::default(),
            coordination: Coordination::default(),
            events: true,
            replicas: 1,
            metrics_port: Some(8080),
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

    /// All manifests, in the order in which they are to be applied: webhook configurations come after what answers
    /// them.
    pub fn build(&self) -> Result<Vec<Manifest>, ManifestError> {
        let mut manifests = vec![self.namespace_manifest()];
        manifests.extend(definitions::manifests(self)?);
        manifests.extend(rbac::manifests(self, self.all_permissions()));
        manifests.extend(workload::manifests(self));
        manifests.extend(webhooks::manifests(self));
        manifests.extend(monitoring::manifests(self));
        Ok(manifests)
    }

    /// The definitions alone.
    pub(crate) fn definitions(&self) -> Result<Vec<Manifest>, ManifestError> {
        definitions::manifests(self)
    }

    /// What is declared, and what replicas, events and certificates need.
    fn all_permissions(&self) -> Vec<Permission> {
        let mut permissions = self.permissions.clone();
        let lease_verbs: &[_] = match self.coordination {
            Coordination::Single => &[],
            Coordination::Leader => &["get", "create", "update"],
            Coordination::Shards => &["get", "list", "create", "update", "delete"],
        };
        let leases = Permission::new("coordination.k8s.io", "leases", lease_verbs.iter().copied());
        permissions.push(leases.within(&self.namespace));
        if self.has_webhook_server() && self.certificates == WebhookCertificates::SelfSigned {
            permissions.extend(webhooks::self_signed_permissions(self));
        }
        if self.events {
            let events = Permission::new("events.k8s.io", "events", ["create", "patch"]);
            if self.permissions.iter().any(|permission| permission.namespace.is_none()) {
                permissions.push(events.clone());
            }
            // Events are in the namespace of what they are about.
            let about = self.permissions.iter().filter_map(|permission| permission.namespace.as_ref());
            permissions.extend(about.chain([&self.namespace]).map(|namespace| events.clone().within(namespace)));
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

    pub(super) fn has_webhook_server(&self) -> bool {
        !self.webhooks.is_empty()
    }

    pub(super) fn webhooks_of(&self, endpoint: Endpoint) -> impl Iterator<Item = &Description> {
        self.webhooks.iter().filter(move |webhook| webhook.endpoint == endpoint)
    }

    pub(super) fn webhook_service(&self) -> String {
        self.service.clone().unwrap_or_else(|| format!("{}-webhook", self.name))
    }

    /// How the API server reaches a webhook.
    pub(super) fn webhook_client(&self, path: &str) -> Value {
        let service = json!({
            "name": self.webhook_service(), "namespace": self.namespace, "path": path, "port": 443,
        });
        json!({ "service": service })
    }

    /// Labels of all objects.
    pub(super) fn labels(&self) -> Value {
        json!({ "app.kubernetes.io/name": self.name, "app.kubernetes.io/managed-by": "windlass" })
    }

    /// What selects the pods.
    pub(super) fn selector(&self) -> Value {
        json!({ "app.kubernetes.io/name": self.name })
    }

    /// An object. `resource` is group, version, kind and plural; `content` is everything beside type and metadata.
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
