//! Options of a running operator.

use std::time::Duration;

use kube::Config;
use tokio::net::TcpListener;

use super::{BindAddress, Flags, OperatorError, WebhookServing};
use crate::{lease::Timing, webhook::CertificateFiles};

/// Options of a running operator. By default, it elects no leader and serves nothing, which suits tests and programs
/// that do both themselves.
#[derive(Debug)]
pub struct Options {
    /// Name of this process in events, usually the pod's name.
    pub instance: String,
    /// Namespaces to watch; all if empty. Controllers with their own scopes keep them.
    pub namespaces: Vec<String>,
    /// Coordination of replicas.
    pub replicas: Replicas,
    /// Listener of `/metrics`.
    pub metrics: Listener,
    /// Whether metrics and debug pages are served over HTTPS, and only to users who are authorized by the API server;
    /// false by default.
    pub metrics_secure: bool,
    /// Certificate of the metrics, if they are secure; self-signed by default.
    pub metrics_certificate: Option<CertificateFiles>,
    /// Listener of `/healthz`, `/livez` and `/readyz`.
    pub probes: Listener,
    /// Whether `/debug/state` is served alongside `/metrics`.
    pub debug_state: bool,
    /// Whether CPU profiles are served alongside `/metrics`, at `/debug/pprof/profile`. Needs the feature `pprof`.
    pub profiling: bool,
    /// Options of the webhook server.
    pub webhooks: WebhookServing,
    /// Whether CRDs are applied before anything else.
    pub install_crds: bool,
    /// Time that work in flight gets to finish.
    pub grace: Duration,
}

/// Listener of an HTTP server.
#[derive(Debug)]
pub enum Listener {
    /// An address, which may be disabled.
    Address(BindAddress),
    /// A socket that is already bound.
    Socket(TcpListener),
}

/// Coordination of an operator's replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// There is only one replica.
    Single,
    /// One replica leads and works; the others stand by with warm caches.
    Leader(LeaseOptions),
    /// All replicas work, each on its own keys.
    Shards(LeaseOptions),
}

/// Name and timing of leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseOptions {
    /// Namespace of the leases.
    pub namespace: String,
    /// Name of the lease, or the prefix of the names of shard leases.
    pub name: String,
    /// Durations of the leases.
    pub timing: Timing,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            instance: host_name(),
            namespaces: Vec::new(),
            replicas: Replicas::Single,
            metrics: Listener::Address(BindAddress::Off),
            metrics_secure: false,
            metrics_certificate: None,
            probes: Listener::Address(BindAddress::Off),
            debug_state: false,
            profiling: false,
            webhooks: WebhookServing {
                address: None,
                port: 9443,
                cert_dir: None,
                namespace: "default".to_owned(),
                service: None,
            },
            install_crds: false,
            grace: Duration::from_secs(30),
        }
    }
}

impl Options {
    /// Returns the options that the flags of a program select. If they name no lease, it is called `operator`. Its
    /// namespace is the pod's, or else the one of the kubeconfig.
    pub fn from_flags(flags: &Flags, operator: &str, config: &Config) -> Result<Self, OperatorError> {
        // Set in every pod.
        let in_cluster = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        Self::from_flags_in(flags, operator, &config.default_namespace, in_cluster)
    }

    fn from_flags_in(flags: &Flags, operator: &str, namespace: &str, in_cluster: bool) -> Result<Self, OperatorError> {
        let timing = Timing {
            lease_duration: flags.leader_election_lease_duration,
            renew_deadline: flags.leader_election_renew_deadline,
            retry_period: flags.leader_election_retry_period,
        };
        timing.validate().map_err(|error| OperatorError::Setting(error.to_string()))?;
        let pod_namespace = flags.pod_namespace.clone().unwrap_or_else(|| namespace.to_owned());
        let lease = LeaseOptions {
            namespace: flags.leader_election_namespace.clone().unwrap_or_else(|| pod_namespace.clone()),
            name: flags.leader_election_id.clone().unwrap_or_else(|| operator.to_owned()),
            timing,
        };
        if flags.profiling && !cfg!(feature = "pprof") {
            let message = "--profiling needs a program that was built with the feature `pprof` of windlass";
            return Err(OperatorError::Setting(message.to_owned()));
        }
        let replicas = match (flags.elects_leader(in_cluster), flags.shards) {
            (true, true) => {
                let message = "--leader-elect and --shards are mutually exclusive: with shards, all replicas work";
                return Err(OperatorError::Setting(message.to_owned()));
            }
            (true, false) => Replicas::Leader(lease),
            (false, true) => Replicas::Shards(lease),
            (false, false) => Replicas::Single,
        };
        Ok(Self {
            instance: flags.pod_name.clone().unwrap_or_else(host_name),
            namespaces: flags.namespaces.iter().filter(|name| !name.is_empty()).cloned().collect(),
            replicas,
            metrics: Listener::Address(flags.metrics_bind_address.clone().within(flags.pod_ip)),
            metrics_secure: flags.metrics_secure,
            metrics_certificate: flags.metrics_cert_dir.clone().map(CertificateFiles::in_directory),
            probes: Listener::Address(flags.health_probe_bind_address.clone().within(flags.pod_ip)),
            debug_state: flags.debug_state,
            profiling: flags.profiling,
            webhooks: WebhookServing {
                address: flags.pod_ip,
                port: flags.webhook_port,
                cert_dir: flags.webhook_cert_dir.clone(),
                namespace: pod_namespace.clone(),
                service: flags.webhook_service.clone(),
            },
            install_crds: flags.install_crds,
            grace: flags.graceful_timeout,
        })
    }
}

impl Listener {
    pub(super) async fn listener(self, what: &'static str) -> Result<Option<TcpListener>, OperatorError> {
        match self {
            Self::Socket(listener) => Ok(Some(listener)),
            Self::Address(address) => {
                address.listen().await.map_err(|source| OperatorError::Listen { what, address, source })
            }
        }
    }
}

/// Returns the host name, which inside a cluster is the name of the pod.
fn host_name() -> String {
    let named = std::env::var("HOSTNAME").ok().or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    named.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        flags: Flags,
    }

    fn options(arguments: &[&str], in_cluster: bool) -> Result<Options, OperatorError> {
        let arguments = Arguments::parse_from(["foo-operator"].iter().chain(arguments));
        Options::from_flags_in(&arguments.flags, "foo-operator", "from-config", in_cluster)
    }

    #[test]
    fn the_lease_is_in_the_namespace_of_the_pod_and_named_after_the_operator() {
        for (arguments, namespace, name) in [
            (&[][..], "from-config", "foo-operator"),
            (&["--pod-namespace=pods"], "pods", "foo-operator"),
            (&["--pod-namespace=pods", "--leader-election-namespace=leases"], "leases", "foo-operator"),
            (&["--leader-election-id=mine"], "from-config", "mine"),
        ] {
            let Replicas::Leader(lease) = options(arguments, true).unwrap().replicas else { panic!("{arguments:?}") };
            assert_eq!((lease.namespace.as_str(), lease.name.as_str()), (namespace, name), "{arguments:?}");
        }
        assert_eq!(options(&[], false).unwrap().replicas, Replicas::Single);
        assert!(matches!(options(&["--shards"], true).unwrap().replicas, Replicas::Shards(_)));
    }

    #[test]
    fn an_empty_namespace_is_all_of_them() {
        assert!(options(&["--namespace="], true).unwrap().namespaces.is_empty());
        assert_eq!(options(&["--namespace=a,,b"], true).unwrap().namespaces, ["a", "b"]);
    }

    #[test]
    fn a_pod_that_is_a_process_listens_on_its_own_address() {
        let options = options(&["--pod-ip=127.5.0.2", "--metrics-bind-address=0.0.0.0:1"], true).unwrap();
        assert_eq!(options.webhooks.address, Some([127, 5, 0, 2].into()));
        let Listener::Address(probes) = options.probes else { panic!("an address") };
        let Listener::Address(metrics) = options.metrics else { panic!("an address") };
        assert_eq!((probes.to_string().as_str(), metrics.to_string().as_str()), ("127.5.0.2:8081", "0.0.0.0:1"));
    }

    #[test]
    fn invalid_settings_are_reported() {
        for (arguments, expected) in [
            (&["--leader-elect", "--shards"][..], "mutually exclusive"),
            (&["--leader-election-lease-duration=5s"], "lease duration must be greater"),
        ] {
            let error = options(arguments, true).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(error.exit_code(), 3);
        }
    }
}
