//! Kustomize overlays: variants of the deployment.

use serde::{Deserialize, Serialize};

use crate::{ScaffoldError, names};

/// A variant of the deployment. `windlass generate` writes what differs from `deploy/default`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Overlay {
    /// Name of its directory in `deploy/overlays`.
    pub name: String,
    /// Whether cert-manager issues the webhook certificate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cert_manager: bool,
    /// Number of replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// Whether the replicas share the objects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shards: bool,
    /// Namespaces to watch; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch_namespaces: Vec<String>,
}

impl Overlay {
    /// Flags of the operator's `manifests` command.
    pub fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        if self.cert_manager {
            flags.push("--cert-manager".to_owned());
        }
        flags.extend(self.replicas.map(|count| format!("--replicas={count}")));
        if self.shards {
            flags.push("--shards".to_owned());
        }
        if !self.watch_namespaces.is_empty() {
            flags.push(format!("--watch-namespaces={}", self.watch_namespaces.join(",")));
        }
        flags
    }

    /// Rejects invalid names of directories and namespaces, and an overlay that changes nothing.
    pub(crate) fn check(&self) -> Result<(), ScaffoldError> {
        let label = |what: &'static str, name: &String| match names::is_dns_label(name) {
            true => Ok(()),
            false => Err(ScaffoldError::Name {
                what,
                name: name.clone(),
                why: "must consist of at most 63 lower-case letters, digits and '-'".to_owned(),
                hint: "for example production".to_owned(),
            }),
        };
        label("overlay", &self.name)?;
        self.watch_namespaces.iter().try_for_each(|namespace| label("namespace", namespace))?;
        let contradiction = |why: String, hint: &str| Err(ScaffoldError::Contradiction { why, hint: hint.to_owned() });
        match self.flags().is_empty() {
            true => contradiction(
                format!("the overlay {} changes nothing", self.name),
                "give --cert-manager, --replicas, --shards or --watch-namespaces",
            ),
            false if self.replicas == Some(0) => {
                contradiction("0 replicas do no work".to_owned(), "give at least --replicas 1")
            }
            false => Ok(()),
        }
    }
}
