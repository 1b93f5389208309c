//! The control loops.
//!
//! Each loop is a file in this directory, named after its controller in kube-controller-manager, with a function `add`
//! that adds it to the [`Operator`], a function `reconcile`, and an entry in [`LOOPS`]. Modules below it are pure, except
//! for `cluster`, which has the reads and writes of loops with many of them. The names in the list are kube-controller-manager's, so
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
mod legacy_serviceaccount_token_cleaner;
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
mod service_cidr;
mod serviceaccount;
mod serviceaccount_token;
mod statefulset;
mod taint_eviction;
mod token_cleaner;
mod ttl_after_finished;
mod volumeattributesclass_protection;

use std::{str::FromStr, sync::Arc};

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use windlass::{controller::Controller, events::EventStyle, object::Object, operator::Operator};

use self::LoopIdentity::{Account, ApiServer, ControllerManager};
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

/// The identity that a loop acts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LoopIdentity {
    /// A service account in `kube-system`, with a ClusterRole `system:controller:NAME` of its own.
    Account(&'static str),
    /// `system:kube-controller-manager`, which is also the identity of the informers that all loops share.
    ControllerManager,
    /// `system:apiserver`: in a cluster this is the work of kube-apiserver.
    ApiServer,
}

/// A loop that can be enabled or disabled.
struct Loop {
    name: &'static str,
    identity: LoopIdentity,
    add: fn(Operator, &ClusterCertificates) -> Operator,
}

/// All loops, in the order in which they are added, with the identities that they have in kube-controller-manager with
/// `--use-service-account-credentials`.
#[rustfmt::skip]
const LOOPS: &[Loop] = &[
    Loop { name: "namespace-controller", identity: Account("namespace-controller"), add: namespace::add },
    Loop { name: "garbage-collector-controller", identity: Account("generic-garbage-collector"), add: garbage_collector::add },
    Loop { name: "serviceaccount-controller", identity: Account("service-account-controller"), add: serviceaccount::add },
    Loop { name: "serviceaccount-token-controller", identity: ControllerManager, add: serviceaccount_token::add },
    Loop { name: "root-ca-certificate-publisher-controller", identity: Account("root-ca-cert-publisher"), add: root_ca_certificate_publisher::add },
    Loop { name: "clusterrole-aggregation-controller", identity: Account("clusterrole-aggregation-controller"), add: clusterrole_aggregation::add },
    Loop { name: "deployment-controller", identity: Account("deployment-controller"), add: deployment::add },
    Loop { name: "replicaset-controller", identity: Account("replicaset-controller"), add: replicaset::add },
    Loop { name: "replicationcontroller-controller", identity: Account("replication-controller"), add: replicationcontroller::add },
    Loop { name: "statefulset-controller", identity: Account("statefulset-controller"), add: statefulset::add },
    Loop { name: "daemonset-controller", identity: Account("daemon-set-controller"), add: daemonset::add },
    Loop { name: "job-controller", identity: Account("job-controller"), add: job::add },
    Loop { name: "cronjob-controller", identity: Account("cronjob-controller"), add: cronjob::add },
    Loop { name: "ttl-after-finished-controller", identity: Account("ttl-after-finished-controller"), add: ttl_after_finished::add },
    Loop { name: "endpointslice-controller", identity: Account("endpointslice-controller"), add: endpointslice::add },
    Loop { name: "endpointslice-mirroring-controller", identity: Account("endpointslicemirroring-controller"), add: endpointslice_mirroring::add },
    Loop { name: "endpoints-controller", identity: Account("endpoint-controller"), add: endpoints::add },
    Loop { name: "service-cidr-controller", identity: Account("service-cidrs-controller"), add: service_cidr::add },
    Loop { name: "disruption-controller", identity: Account("disruption-controller"), add: disruption::add },
    Loop { name: "horizontal-pod-autoscaler-controller", identity: Account("horizontal-pod-autoscaler"), add: horizontal_pod_autoscaler::add },
    Loop { name: "pod-garbage-collector-controller", identity: Account("pod-garbage-collector"), add: pod_garbage_collector::add },
    Loop { name: "taint-eviction-controller", identity: Account("node-controller"), add: taint_eviction::add },
    Loop { name: "node-lifecycle-controller", identity: Account("node-controller"), add: node_lifecycle::add },
    Loop { name: "resourcequota-controller", identity: Account("resourcequota-controller"), add: resourcequota::add },
    Loop { name: "persistentvolume-binder-controller", identity: Account("persistent-volume-binder"), add: persistentvolume_binder::add },
    Loop { name: "persistentvolumeclaim-protection-controller", identity: Account("pvc-protection-controller"), add: persistentvolumeclaim_protection::add },
    Loop { name: "persistentvolume-protection-controller", identity: Account("pv-protection-controller"), add: persistentvolume_protection::add },
    Loop { name: "volumeattributesclass-protection-controller", identity: Account("volumeattributesclass-protection-controller"), add: volumeattributesclass_protection::add },
    Loop { name: "certificatesigningrequest-approving-controller", identity: Account("certificate-controller"), add: certificatesigningrequest_approving::add },
    Loop { name: "certificatesigningrequest-signing-controller", identity: Account("certificate-controller"), add: certificatesigningrequest_signing::add },
    Loop { name: "certificatesigningrequest-cleaner-controller", identity: Account("certificate-controller"), add: certificatesigningrequest_cleaner::add },
    Loop { name: "bootstrap-signer-controller", identity: Account("bootstrap-signer"), add: bootstrap_signer::add },
    Loop { name: "token-cleaner-controller", identity: Account("token-cleaner"), add: token_cleaner::add },
    Loop { name: "legacy-serviceaccount-token-cleaner-controller", identity: Account("legacy-service-account-token-cleaner"), add: legacy_serviceaccount_token_cleaner::add },
    Loop { name: "event-expiry-controller", identity: ApiServer, add: event_expiry::add },
    Loop { name: "apiserver-lease-expiry-controller", identity: ApiServer, add: apiserver_lease_expiry::add },
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

/// Returns an operator with the selected loops, each with the client of its identity. The operator must be run with the
/// client of [`LoopIdentity::ControllerManager`].
pub fn operator(
    selection: &Selection,
    certificates: &ClusterCertificates,
    client: impl Fn(LoopIdentity) -> Client,
) -> Operator {
    let selected = LOOPS.iter().filter(|one| selection.contains(one.name));
    let operator = Operator::new(FIELD_MANAGER).event_style(EventStyle::Counted);
    selected.fold(operator, |operator, one| match one.identity {
        ControllerManager => (one.add)(operator, certificates),
        identity => operator.with_client(client(identity), |operator| (one.add)(operator, certificates)),
    })
}

/// A controller with the settings that all loops share. Like those of kube-controller-manager, they decide themselves
/// what to do with objects that are being deleted.
fn controller<K: Object<DynamicType: Default>>(
    name: &str,
    reconciler: impl windlass::controller::Reconciler<K>,
) -> Controller<K> {
    Controller::new(name, reconciler).field_manager(FIELD_MANAGER).reporter(name).reconcile_terminating()
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
