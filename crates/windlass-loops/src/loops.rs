//! The control loops: what kube-controller-manager does, as ordinary windlass controllers.
//!
//! Each loop is a file of this folder with a function `add`, which wires it into the [`Operator`] that runs them all, and
//! a line in [`LOOPS`]. Its name there is the one that kube-controller-manager has for it, so that its `--controllers`
//! means the same here. Loops write as the field manager `kube-controller-manager`, by updates and not by apply, so that
//! objects look as they do on a cluster.

mod apiserver_lease_expiry;
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
mod statefulset;
mod taint_eviction;
mod ttl_after_finished;
mod volumeattributesclass_protection;

use std::{str::FromStr, sync::Arc};

use k8s_openapi::api::core::v1::Namespace;
use windlass::{controller::Controller, object::Object, operator::Operator};

use crate::CertificateAndKey;

/// What objects that loops have written name as their manager.
const FIELD_MANAGER: &str = "kube-controller-manager";

/// What loops need to know beside what the server tells them.
#[derive(Debug, Clone, Default)]
pub struct ClusterCertificates {
    /// The certificate of the authority behind the server, in PEM: pods get it in `kube-root-ca.crt`.
    pub root_ca: Option<Arc<str>>,
    /// The authority that signs certificates that are asked for.
    pub authority: Option<CertificateAndKey>,
}

/// A loop that can be switched on and off.
struct Loop {
    name: &'static str,
    add: fn(Operator, &ClusterCertificates) -> Operator,
}

/// All of them, in the order in which they are wired.
#[rustfmt::skip]
const LOOPS: &[Loop] = &[
    Loop { name: "namespace-controller", add: namespace::add },
    Loop { name: "garbage-collector-controller", add: garbage_collector::add },
    Loop { name: "serviceaccount-controller", add: serviceaccount::add },
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
    Loop { name: "event-expiry-controller", add: event_expiry::add },
    Loop { name: "apiserver-lease-expiry-controller", add: apiserver_lease_expiry::add },
];

/// Which loops run: a list as of kube-controller-manager's `--controllers`. `*` is all of them, `name` one of them,
/// `-name` all but this one; the first entry that fits a loop decides, and a loop that none fits does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection(Vec<String>);

/// A list of loops names one that is not there.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("there is no controller {0:?}")]
pub struct UnknownLoop(pub String);

impl Selection {
    /// All loops.
    pub fn all() -> Self {
        Self(vec!["*".to_owned()])
    }

    /// No loop: an API server alone, as envtest gives.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Whether a loop is in it.
    pub fn contains(&self, name: &str) -> bool {
        let decides = |entry: &&String| *entry == "*" || entry.strip_prefix('-').unwrap_or(entry) == name;
        let named = self.0.iter().filter(|entry| *entry != "*").find(decides);
        named.or_else(|| self.0.iter().find(decides)).is_some_and(|entry| !entry.starts_with('-'))
    }

    /// The names of all loops there are.
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

/// An operator with the selected loops.
pub fn operator(selection: &Selection, certificates: &ClusterCertificates) -> Operator {
    let selected = LOOPS.iter().filter(|one| selection.contains(one.name));
    selected.fold(Operator::new(FIELD_MANAGER), |operator, one| (one.add)(operator, certificates))
}

/// A controller as all loops have them.
fn controller<K: Object<DynamicType: Default>>(
    name: &str,
    reconciler: impl windlass::controller::Reconciler<K>,
) -> Controller<K> {
    Controller::new(name, reconciler).field_manager(FIELD_MANAGER).reporter(name)
}

/// Whether a namespace is there to stay.
fn is_active_namespace(namespace: &Namespace) -> bool {
    namespace.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Active")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_selects_as_that_of_kube_controller_manager() {
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
