//! Manifests as objects and as text.

use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject},
};

/// What a manifest is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum)]
#[non_exhaustive]
pub enum Part {
    /// The namespace of the operator.
    Namespace,
    /// Custom resource definitions.
    Crds,
    /// The account of the operator, roles and bindings.
    Rbac,
    /// Services in front of the operator.
    Services,
    /// The Deployment, and its disruption budget.
    Deployment,
    /// Who may connect to the operator.
    NetworkPolicy,
    /// Webhook configurations and, if they are not self-made, certificates.
    Webhooks,
    /// What Prometheus scrapes.
    Monitoring,
}

/// An object for a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// What it is for.
    pub part: Part,
    /// Its resource.
    pub resource: ApiResource,
    /// The object.
    pub object: DynamicObject,
}

impl Manifest {
    /// The kind.
    pub fn kind(&self) -> &str {
        &self.resource.kind
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    /// Where it is to be applied.
    pub fn api(&self, client: Client) -> Api<DynamicObject> {
        match &self.object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &self.resource),
            None => Api::all_with(client, &self.resource),
        }
    }
}

/// A YAML document for each manifest, in the order given.
pub fn to_yaml<'a>(manifests: impl IntoIterator<Item = &'a Manifest>) -> String {
    let mut text = String::new();
    for manifest in manifests {
        if !text.is_empty() {
            text.push_str("---\n");
        }
        let options = serde_saphyr::ser_options! { folded_wrap_chars: 120 };
        let document = serde_saphyr::to_string_with_options(&manifest.object, options);
        text.push_str(&document.expect("an object must have a YAML form"));
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests;
