//! The control loops.
//!
//! Each loop is a file in this directory, named after its controller in kube-controller-manager, with a function `add`
//! that adds it to the [`Operator`] and an entry in [`LOOPS`]. The names in the list are kube-controller-manager's, so
//! that `--controllers` means the same here. Loops write as field manager `kube-controller-manager`, by update rather
//! than apply, so that objects look as they do on a cluster.

mod apiserver_lease_expiry;
mod bootstrap_signer;
mod certificatesigningrequest_approving;
mod certificatesigningrequest_cleaner;
mod certificatesigningrequest_signing;
mod clusterrole_aggregation;
mod cronjob;
mod daemonset;
mod deployment;
mod disruption;
mod endpoints;
mod endpointslice;
mod endpointslice_mirroring;
mod event_expiry;
mod garbage_collector;
mod horizontal_pod_autoscaler;
mod job;
mod namespace;
mod node_lifecycle;
mod persistentvolume_binder;
mod persistentvolume_protection;
mod persistentvolumeclaim_protection;
mod pod_garbage_collector;
mod replicaset;
mod replicationcontroller;
mod resourcequota;
mod root_ca_certificate_publisher;
mod serviceaccount;
mod serviceaccount_token;
mod statefulset;
mod taint_eviction;
mod token_cleaner;
mod ttl_after_finished;
mod volumeattributesclass_protection;

use std::{str::FromStr, sync::Arc};

use k8s_openapi::api::core::v1::Namespace;
use windlass::{controller::Controller, object::Object, operator::Operator};

pub use self::serviceaccount_token::{SecretToken, TokenSigner};
use crate::CertificateAndKey;

/// The field manager of all writes.
const FIELD_MANAGER: &str = "kube-controller-manager";

/// The certificates and keys that loops hand out or sign with.
#[derive(Debug, Clone, Default)]
pub struct ClusterCertificates {
    /// The certificate of the server's certificate authority, in PEM: pods find it in `kube-root-ca.crt`.
    pub root_ca: Option<Arc<str>>,
    /// The authority that signs certificate signing requests.
    pub authority: Option<CertificateAndKey>,
    /// Signs the tokens of Secrets; without it, such Secrets stay empty.
    pub token_signer: Option<TokenSigner>,
}

/// A loop that can be enabled or disabled.
struct Loop {
    name: &'static str,
    add: fn(Operator, &ClusterCertificates) -> Operator,
}

/// All loops, in the order in which they are added.
#[rustfmt::skip]
const LOOPS: &[Loop] = &[
    Loop { name: "namespace-controller", add: namespace::add },
    Loop { name: "garbage-collector-controller", add: garbage_collector::add },
    Loop { name: "serviceaccount-controller", add: serviceaccount::add },
    Loop { name: "serviceaccount-token-controller", add: serviceaccount_token::add },
    Loop { name: "root-ca-certificate-publisher-controller", add: root_ca_certificate_publisher::add },
    Loop { name: "clusterrole-aggregation-controller", add: clusterrole_aggregation::add },
    Loop { name: "deployment-controller", add: deployment::add },
    Loop { name: "replicaset-controller", add: replicaset::add },
    Loop { name: "replicationcontroller-controller", add: replicationcontroller::add },
    Loop { name: "statefulset-controller", add: statefulset::add },
    Loop { name: "daemonset-controller", add: daemonset::add },
    Loop { name: "job-controller", add: job::add },
    Loop { name: "cronjob-controller", add: cronjob::add },
    Loop { name: "ttl-after-finished-controller", add: ttl_after_finished::add },
    Loop { name: "endpointslice-controller", add: endpointslice::add },
    Loop { name: "endpointslice-mirroring-controller", add: endpointslice_mirroring::add },
    Loop { name: "endpoints-controller", add: endpoints::add },
    Loop { name: "disruption-controller", add: disruption::add },
    Loop { name: "horizontal-pod-autoscaler-controller", add: horizontal_pod_autoscaler::add },
    Loop { name: "pod-garbage-collector-controller", add: pod_garbage_collector::add },
    Loop { name: "taint-eviction-controller", add: taint_eviction::add },
    Loop { name: "node-lifecycle-controller", add: node_lifecycle::add },
    Loop { name: "resourcequota-controller", add: resourcequota::add },
    Loop { name: "persistentvolume-binder-controller", add: persistentvolume_binder::add },
    Loop { name: "persistentvolumeclaim-protection-controller", add: persistentvolumeclaim_protection::add },
    Loop { name: "persistentvolume-protection-controller", add: persistentvolume_protection::add },
    Loop { name: "volumeattributesclass-protection-controller", add: volumeattributesclass_protection::add },
    Loop { name: "certificatesigningrequest-approving-controller", add: certificatesigningrequest_approving::add },
    Loop { name: "certificatesigningrequest-signing-controller", add: certificatesigningrequest_signing::add },
    Loop { name: "certificatesigningrequest-cleaner-controller", add: certificatesigningrequest_cleaner::add },
    Loop { name: "bootstrap-signer-controller", add: bootstrap_signer::add },
    Loop { name: "token-cleaner-controller", add: token_cleaner::add },
    Loop { name: "event-expiry-controller", add: event_expiry::add },
    Loop { name: "apiserver-lease-expiry-controller", add: apiserver_lease_expiry::add },
];

/// The loops to run, in the format of kube-controller-manager's `--controllers`: `*` enables all loops, `name` enables
/// one, `-name` disables one. The first entry that matches a loop decides; loops without a match do not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection(Vec<String>);

/// A selection names an unknown loop.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown controller {0:?}")]
pub struct UnknownLoop(pub String);

impl Selection {
    /// Selects all loops.
    pub fn all() -> Self {
        Self(vec!["*".to_owned()])
    }

    /// Selects no loops: only an API server, as in envtest.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Returns whether a loop is selected.
    pub fn contains(&self, name: &str) -> bool {
        let decides = |entry: &&String| *entry == "*" || entry.strip_prefix('-').unwrap_or(entry) == name;
        let named = self.0.iter().filter(|entry| *entry != "*").find(decides);
        named.or_else(|| self.0.iter().find(decides)).is_some_and(|entry| !entry.starts_with('-'))
    }

    /// The names of all loops.
    pub fn names() -> impl Iterator<Item = &'static str> {
        LOOPS.iter().map(|one| one.name)
    }
}

impl FromStr for Selection {
    type Err = UnknownLoop;

    fn from_str(text: &str) -> Result<Self, UnknownLoop> {
        let entries: Vec<String> =
            text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(Into::into).collect();
        for entry in entries.iter().filter(|entry| *entry != "*") {
            let name = entry.strip_prefix('-').unwrap_or(entry);
            if !Self::names().any(|known| known == name) {
                return Err(UnknownLoop(name.to_owned()));
            }
        }
        Ok(Self(entries))
    }
}

/// Returns an operator with the selected loops.
pub fn operator(selection: &Selection, certificates: &ClusterCertificates) -> Operator {
    let selected = LOOPS.iter().filter(|one| selection.contains(one.name));
    selected.fold(Operator::new(FIELD_MANAGER), |operator, one| (one.add)(operator, certificates))
}

/// A controller with the settings that all loops share.
fn controller<K: Object<DynamicType: Default>>(
    name: &str,
    reconciler: impl windlass::controller::Reconciler<K>,
) -> Controller<K> {
    Controller::new(name, reconciler).field_manager(FIELD_MANAGER).reporter(name)
}

/// Returns whether a namespace is active.
fn is_active_namespace(namespace: &Namespace) -> bool {
    namespace.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Active")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_selects_loops_as_in_kube_controller_manager() {
        for (list, deployments, jobs) in [
            ("*", true, true),
            ("", false, false),
            ("job-controller", false, true),
            ("*,-deployment-controller", false, true),
            ("-deployment-controller,*", false, true),
            ("-deployment-controller", false, false),
        ] {
            let selection: Selection = list.parse().unwrap();
            assert_eq!(selection.contains("deployment-controller"), deployments, "{list}");
            assert_eq!(selection.contains("job-controller"), jobs, "{list}");
        }
    }

    #[test]
    fn an_unknown_loop_is_named() {
        assert_eq!("*,-deployments".parse::<Selection>(), Err(UnknownLoop("deployments".into())));
    }
}
