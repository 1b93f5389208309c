//! Manifests that install an operator: CRDs, RBAC rules, webhook configurations, a Deployment and its Services.
//!
//! Manifests are generated from the program itself, so that they cannot be out of date. RBAC rules are exactly those
//! that its controllers need ([`Permission`]): cluster-wide where something is watched cluster-wide, and within a
//! namespace otherwise. Containers run under the `restricted` pod security standard.
//!
//! Nothing here does I/O. The same input yields the same output, byte for byte.
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

/// A permission that an operator needs: verbs on a resource.
///
/// The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    /// Group of the resource; empty for the core group.
    pub group: String,
    /// Plural name of the resource, with a subresource after a slash, such as `foos/status`.
    pub resource: String,
    /// Verbs.
    pub verbs: BTreeSet<&'static str>,
    /// Restricts the permission to a namespace.
    pub namespace: Option<String>,
    /// Restricts the permission to objects of these names; all if empty. Cannot restrict `create`, nor `list` and
    /// `watch` without a selector by name.
    pub names: BTreeSet<String>,
}
