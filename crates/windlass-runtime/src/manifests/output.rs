//! Manifests as objects and as text.

use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject},
};

/// Purpose of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum)]
#[non_exhaustive]
pub enum Part {
    /// Namespace of the operator.
    Namespace,
    /// CustomResourceDefinitions.
    Crds,
    /// ServiceAccount of the operator, roles and bindings.
    Rbac,
    /// Services of the operator.
    Services,
    /// Deployment, and its PodDisruptionBudget.
    Deployment,
    /// NetworkPolicy of the operator.
    NetworkPolicy,
    /// Webhook configurations and, unless self-signed, certificates.
    Webhooks,
    /// ServiceMonitor for Prometheus.
    Monitoring,
}

/// A manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Purpose of the manifest.
    pub part: Part,
    /// Resource of the object.
    pub resource: ApiResource,
    /// The object.
    pub object: DynamicObject,
}

impl Manifest {
    /// Returns the kind.
    pub fn kind(&self) -> &str {
        &self.resource.kind
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the API to apply it with.
    pub fn api(&self, client: Client) -> Api<DynamicObject> {
        match &self.object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &self.resource),
            None => Api::all_with(client, &self.resource),
        }
    }
}

/// Returns a YAML document per manifest, in the given order.
pub fn to_yaml<'a>(manifests: impl IntoIterator<Item = &'a Manifest>) -> String {
    let mut text = String::new();
    for manifest in manifests {
        if !text.is_empty() {
            text.push_str("---\n");
        }
        let options = serde_saphyr::ser_options! { folded_wrap_chars: 120 };
        let document = serde_saphyr::to_string_with_options(&manifest.object, options);
        text.push_str(&document.expect("an object can be serialized as YAML"));
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests;
