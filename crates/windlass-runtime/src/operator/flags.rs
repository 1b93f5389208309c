//! Flags and environment variables of every operator.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use super::{BindAddress, LogFormat};
use crate::client::{Rate, Target};

// clap would use a doc comment as the description of every program that flattens these flags.
#[allow(missing_docs, reason = "set below when rustdoc runs")]
#[cfg_attr(
    any(doc, doctest),
    doc = r#"Flags of an operator, each with an environment variable. A program with its own flags adds these with
`#[command(flatten)]`.

```
use clap::Parser;
use windlass_runtime::operator::Flags;

#[derive(Parser)]
struct Arguments {
    /// Endpoint of the database.
    #[arg(long)]
    database: Option<String>,
    #[command(flatten)]
    flags: Flags,
}

let arguments = Arguments::parse_from(["foo-operator", "--database=db:5432", "--metrics-bind-address=0"]);
assert_eq!(arguments.flags.metrics_bind_address.to_string(), "0");
```
"#
)]
#[derive(Clone, Debug, clap::Args)]
pub struct Flags {
    /// Path of the kubeconfig to use instead of $KUBECONFIG, ~/.kube/config or the in-cluster configuration
    #[arg(long, value_name = "FILE", env = "WINDLASS_KUBECONFIG", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig to use
    #[arg(long, value_name = "NAME", env = "WINDLASS_CONTEXT", help_heading = "Cluster")]
    pub context: Option<String>,

    /// Namespaces to watch, comma-separated; all namespaces by default
    #[arg(
        long = "namespace",
        visible_alias = "namespaces",
        value_name = "NAMES",
        value_delimiter = ',',
        env = "WATCH_NAMESPACE",
        help_heading = "Cluster"
    )]
    pub namespaces: Vec<String>,

    /// Maximum number of requests per second to the API server; unlimited by default
    #[arg(long, value_name = "RATE", env = "WINDLASS_KUBE_API_QPS", value_parser = rate, help_heading = "Cluster")]
    pub kube_api_qps: Option<f32>,

    /// Maximum burst of requests, used with --kube-api-qps
    #[arg(
        long,
        value_name = "COUNT",
        env = "WINDLASS_KUBE_API_BURST",
        default_value = "100",
        help_heading = "Cluster"
    )]
    pub kube_api_burst: u32,

    /// Apply the operator's CustomResourceDefinitions at startup
    #[arg(long, env = "WINDLASS_INSTALL_CRDS", help_heading = "Cluster")]
    pub install_crds: bool,

    /// Elect a leader, so that only one replica is active; on by default inside a cluster, off outside
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        env = "WINDLASS_LEADER_ELECT",
        help_heading = "Replicas"
    )]
    pub leader_elect: Option<bool>,

    /// Namespace of the lease; the pod's namespace by default
    #[arg(long, value_name = "NAME", env = "WINDLASS_LEADER_ELECTION_NAMESPACE", help_heading = "Replicas")]
    pub leader_election_namespace: Option<String>,

    /// Name of the lease; the operator's name by default
    #[arg(long, value_name = "NAME", env = "WINDLASS_LEADER_ELECTION_ID", help_heading = "Replicas")]
    pub leader_election_id: Option<String>,

    /// Time that other replicas wait before they take over from a leader that does not renew its lease
    #[arg(
        long,
        value_name = "TIME",
        env = "WINDLASS_LEADER_ELECTION_LEASE_DURATION",
        default_value = "15s",
        value_parser = duration,
        help_heading = "Replicas"
    )]
    pub leader_election_lease_duration: Duration,

    /// Time that the leader keeps working without renewing its lease
    #[arg(
        long,
        value_name = "TIME",
        env = "WINDLASS_LEADER_ELECTION_RENEW_DEADLINE",
        default_value = "10s",
        value_parser = duration,
        help_heading = "Replicas"
    )]
    pub leader_election_renew_deadline: Duration,

    /// Interval between attempts to acquire or renew the lease
    #[arg(
        long,
        value_name = "TIME",
        env = "WINDLASS_LEADER_ELECTION_RETRY_PERIOD",
        default_value = "2s",
        value_parser = duration,
        help_heading = "Replicas"
    )]
    pub leader_election_retry_period: Duration,

    /// Share the objects among all replicas instead of electing a leader
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        value_parser = switch,
        env = "WINDLASS_SHARDS",
        help_heading = "Replicas"
    )]
    pub shards: bool,

    /// Address of /metrics, with :PORT for all interfaces; 0 disables it
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "WINDLASS_METRICS_BIND_ADDRESS",
        default_value = ":8080",
        help_heading = "Servers"
    )]
    pub metrics_bind_address: BindAddress,

    /// Serve metrics and debug pages over HTTPS, and only to users who are authorized by the API server
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        value_parser = switch,
        env = "WINDLASS_METRICS_SECURE",
        help_heading = "Servers"
    )]
    pub metrics_secure: bool,

    /// Directory with tls.crt and tls.key for secure metrics, reloaded on change; a self-signed certificate by default
    #[arg(long, value_name = "DIRECTORY", env = "WINDLASS_METRICS_CERT_DIR", help_heading = "Servers")]
    pub metrics_cert_dir: Option<PathBuf>,

    /// Record the duration of requests to the API server in the metrics
    #[arg(long, env = "WINDLASS_METRICS_REQUEST_DURATIONS", help_heading = "Servers")]
    pub metrics_request_durations: bool,

    /// Address of /healthz, /livez and /readyz; 0 disables them
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "WINDLASS_HEALTH_PROBE_BIND_ADDRESS",
        default_value = ":8081",
        help_heading = "Servers"
    )]
    pub health_probe_bind_address: BindAddress,

    /// Serve the state of the process at /debug/state, alongside /metrics
    #[arg(long, env = "WINDLASS_DEBUG_STATE", help_heading = "Servers")]
    pub debug_state: bool,

    /// Serve CPU profiles at /debug/pprof/profile, alongside /metrics; needs the feature `pprof`
    #[arg(long, env = "WINDLASS_PROFILING", help_heading = "Servers")]
    pub profiling: bool,

    /// Port of the webhook server
    #[arg(long, value_name = "PORT", env = "WINDLASS_WEBHOOK_PORT", default_value = "9443", help_heading = "Servers")]
    pub webhook_port: u16,

    /// Directory with the webhook server's tls.crt and tls.key, reloaded on change; self-signed certificates by default
    #[arg(long, value_name = "DIRECTORY", env = "WINDLASS_WEBHOOK_CERT_DIR", help_heading = "Servers")]
    pub webhook_cert_dir: Option<PathBuf>,

    /// Service that the API server uses to call the webhooks; OPERATOR-webhook by default
    #[arg(long, value_name = "NAME", env = "WINDLASS_WEBHOOK_SERVICE", help_heading = "Servers")]
    pub webhook_service: Option<String>,

    /// Grace period for running reconciles after the first signal
    #[arg(
        long,
        value_name = "TIME",
        env = "WINDLASS_GRACEFUL_TIMEOUT",
        default_value = "30s",
        value_parser = duration,
        help_heading = "Process"
    )]
    pub graceful_timeout: Duration,

    /// Log level: error, warn, info, debug, trace, off, or a filter such as info,windlass_runtime=debug
    #[arg(long, value_name = "LEVEL", env = "RUST_LOG", default_value = "info", help_heading = "Process")]
    pub log_level: String,

    /// Format of log lines
    #[arg(
        long,
        value_name = "FORMAT",
        env = "WINDLASS_LOG_FORMAT",
        default_value = "text",
        value_enum,
        help_heading = "Process"
    )]
    pub log_format: LogFormat,

    /// Name of the pod that the process runs in
    #[arg(long, value_name = "NAME", env = "POD_NAME", hide = true)]
    pub pod_name: Option<String>,

    /// Namespace of the pod that the process runs in
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE", hide = true)]
    pub pod_namespace: Option<String>,

    /// Address of the pod, if it is a process that shares the machine's addresses with other pods
    #[arg(long, value_name = "ADDRESS", env = "WINDLASS_POD_IP", hide = true)]
    pub pod_ip: Option<IpAddr>,
}

impl Flags {
    /// Returns the cluster to connect to.
    pub fn target(&self) -> Target {
        Target { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() }
    }

    /// Returns the rate limit of requests.
    pub fn rate(&self) -> Option<Rate> {
        self.kube_api_qps.map(|per_second| Rate { per_second, burst: self.kube_api_burst })
    }

    /// Returns whether to elect a leader: as set by the flag, or by default inside a cluster. Sharding needs no leader.
    pub fn elects_leader(&self, in_cluster: bool) -> bool {
        self.leader_elect.unwrap_or(in_cluster && !self.shards)
    }
}

/// Parses `15s`, `1m30s`, `500ms`.
fn duration(text: &str) -> Result<Duration, String> {
    let parsed: Result<jiff::SignedDuration, _> = text.parse();
    parsed
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok())
        .ok_or_else(|| format!("invalid duration {text:?}: expected 15s, 1m30s or 500ms"))
}

fn rate(text: &str) -> Result<f32, String> {
    let rate: Option<f32> = text.parse().ok().filter(|rate| *rate > 0.0 && f32::is_finite(*rate));
    rate.ok_or_else(|| format!("invalid rate {text:?}: expected a number greater than 0"))
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "on" => Ok(true),
        "false" | "off" => Ok(false),
        _ => Err(format!("invalid value {text:?}: expected on or off")),
    }
}

#[cfg(test)]
mod tests;
