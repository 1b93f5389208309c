//! What a cluster needs to run an operator: definitions, rights, webhook configurations, a Deployment and what goes
//! with it.
//!
//! Manifests are made from the program itself, so that they cannot fall behind it. Rights are those of what is wired
//! ([`Permission`]), and no more: cluster-wide where something is watched cluster-wide, and within a namespace
//! otherwise. Containers run under the `restricted` pod security standard.
//!
//! Nothing here reads or writes anything. The same input gives the same output, byte by byte.
//!
//! ```
//! use windlass_runtime::manifests::{OperatorManifests, Part, Permission, to_yaml};
//!
//! let mut operator = OperatorManifests::new("foo-operator", "foo-system", "registry.example.com/foo-operator:v1");
//! operator.permissions.push(Permission::new("apps", "deployments", ["get", "list", "watch"]));
//! let manifests = operator.build()?;
//!
//! let kinds: Vec<_> = manifests.iter().map(|manifest| manifest.kind()).collect();
//! assert_eq!(kinds[..3], ["Namespace", "ServiceAccount", "ClusterRole"]);
//!
//! let rights = to_yaml(manifests.iter().filter(|manifest| manifest.part == Part::Rbac));
//! assert!(rights.contains("resources:\n  - deployments\n"));
//! # Ok::<(), windlass_runtime::manifests::ManifestError>(())
//! ```

use std::collections::BTreeSet;

mod definitions;
mod monitoring;
mod operator;
mod output;
mod permission;
mod rbac;
#[cfg(test)]
mod tests;
mod webhooks;
mod workload;

pub use operator::{Coordination, ManifestError, OperatorManifests, WebhookCertificates};
pub use output::{Manifest, Part, to_yaml};

/// What an operator asks of the API server: verbs on a resource.
///
/// The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    /// Group of the resource; empty for the core group.
    pub group: String,
    /// Plural of the resource, with a subresource after a slash, as `foos/status`.
    pub resource: String,
    /// What is done with it.
    pub verbs: BTreeSet<&'static str>,
    /// Only in this namespace.
    pub namespace: Option<String>,
    /// Only with objects of these names; with all if empty. Cannot limit `create`, nor `list` and `watch` without a
    /// selector by name.
    pub names: BTreeSet<String>,
}
