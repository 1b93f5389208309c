//! The flags and variables that every operator understands.

use std::{path::PathBuf, time::Duration};

use super::{BindAddress, LogFormat};
use crate::client::{Rate, Target};

// clap would take a comment for the description of every program that has these flags.
#[allow(missing_docs, reason = "there are docs where docs are made")]
#[cfg_attr(
    any(doc, doctest),
    doc = r#"Flags of an operator, each with a variable of the environment. A program with flags of its own adds these with
`#[command(flatten)]`.

```
use clap::Parser;
use windlass_runtime::operator::Flags;

#[derive(Parser)]
struct Arguments {
    /// Where the moon is.
    #[arg(long)]
    moon: Option<String>,
    #[command(flatten)]
    flags: Flags,
}

let arguments = Arguments::parse_from(["foo-operator", "--moon=up", "--metrics-bind-address=0"]);
assert_eq!(arguments.flags.metrics_bind_address.to_string(), "0");
```
"#
)]
#[derive(Clone, Debug, clap::Args)]
pub struct Flags {
    /// Kubeconfig to use instead of those in KUBECONFIG, of ~/.kube/config or of the cluster around the process
    #[arg(long, value_name = "FILE", env = "WINDLASS_KUBECONFIG", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME", env = "WINDLASS_CONTEXT", help_heading = "Cluster")]
    pub context: Option<String>,

    /// Only these namespaces are watched, comma-separated; all if there is none
    #[arg(
        long = "namespace",
        visible_alias = "namespaces",
        value_name = "NAMES",
        value_delimiter = ',',
        env = "WATCH_NAMESPACE",
        help_heading = "Cluster"
    )]
    pub namespaces: Vec<String>,

    /// Requests per second to the API server; without it, there is no limit
    #[arg(long, value_name = "RATE", env = "WINDLASS_KUBE_API_QPS", value_parser = rate, help_heading = "Cluster")]
    pub kube_api_qps: Option<f32>,

    /// Requests that may be sent at once within --kube-api-qps
    #[arg(
        long,
        value_name = "COUNT",
        env = "WINDLASS_KUBE_API_BURST",
        default_value = "100",
        help_heading = "Cluster"
    )]
    pub kube_api_burst: u32,

    /// Applies the custom resource definitions of the operator when it starts
    #[arg(long, env = "WINDLASS_INSTALL_CRDS", help_heading = "Cluster")]
    pub install_crds: bool,

    /// Only one replica works, the others stand by; on within a cluster and off outside unless given
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

    /// Namespace of the lease; that of the pod unless given
    #[arg(long, value_name = "NAME", env = "WINDLASS_LEADER_ELECTION_NAMESPACE", help_heading = "Replicas")]
    pub leader_election_namespace: Option<String>,

    /// Name of the lease; that of the operator unless given
    #[arg(long, value_name = "NAME", env = "WINDLASS_LEADER_ELECTION_ID", help_heading = "Replicas")]
    pub leader_election_id: Option<String>,

    /// How long others wait for a leader that is silent
    #[arg(
        long,
        value_name = "TIME",
        env = "WINDLASS_LEADER_ELECTION_LEASE_DURATION",
        default_value = "15s",
        value_parser = duration,
        help_heading = "Replicas"
    )]
    pub leader_election_lease_duration: Duration,

    /// How long a leader works without having been able to renew its lease
    #[arg(
        long,
        value_name = "TIME",
        env = "WINDLASS_LEADER_ELECTION_RENEW_DEADLINE",
        default_value = "10s",
        value_parser = duration,
        help_heading = "Replicas"
    )]
    pub leader_election_renew_deadline: Duration,

    /// How often the lease is renewed or tried for
    #[arg(
        long,
        value_name = "TIME",
        env = "WINDLASS_LEADER_ELECTION_RETRY_PERIOD",
        default_value = "2s",
        value_parser = duration,
        help_heading = "Replicas"
    )]
    pub leader_election_retry_period: Duration,

    /// All replicas work, each on its share of the objects, instead of one that leads
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

    /// Where /metrics is served, on all addresses with :PORT; 0 for nowhere
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "WINDLASS_METRICS_BIND_ADDRESS",
        default_value = ":8080",
        help_heading = "Servers"
    )]
    pub metrics_bind_address: BindAddress,

    /// Measures the durations of requests to the API server, too
    #[arg(long, env = "WINDLASS_METRICS_REQUEST_DURATIONS", help_heading = "Servers")]
    pub metrics_request_durations: bool,

    /// Where /healthz, /livez and /readyz are served; 0 for nowhere
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "WINDLASS_HEALTH_PROBE_BIND_ADDRESS",
        default_value = ":8081",
        help_heading = "Servers"
    )]
    pub health_probe_bind_address: BindAddress,

    /// Shows what the process is doing at /debug/state, beside /metrics
    #[arg(long, env = "WINDLASS_DEBUG_STATE", help_heading = "Servers")]
    pub debug_state: bool,

    /// Port of the webhooks, if there are any
    #[arg(long, value_name = "PORT", env = "WINDLASS_WEBHOOK_PORT", default_value = "9443", help_heading = "Servers")]
    pub webhook_port: u16,

    /// Folder with the webhooks' tls.crt and tls.key, watched for change; self-made certificates without it
    #[arg(long, value_name = "FOLDER", env = "WINDLASS_WEBHOOK_CERT_DIR", help_heading = "Servers")]
    pub webhook_cert_dir: Option<PathBuf>,

    /// Service through which the API server calls the webhooks; OPERATOR-webhook unless given
    #[arg(long, value_name = "NAME", env = "WINDLASS_WEBHOOK_SERVICE", help_heading = "Servers")]
    pub webhook_service: Option<String>,

    /// How long work in flight may take to finish after the first signal
    #[arg(
        long,
        value_name = "TIME",
        env = "WINDLASS_GRACEFUL_TIMEOUT",
        default_value = "30s",
        value_parser = duration,
        help_heading = "Process"
    )]
    pub graceful_timeout: Duration,

    /// error, warn, info, debug, trace, off, or a filter as info,windlass_runtime=debug
    #[arg(long, value_name = "LEVEL", env = "RUST_LOG", default_value = "info", help_heading = "Process")]
    pub log_level: String,

    /// How log lines look
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
}

impl Flags {
    /// The cluster to talk to.
    pub fn target(&self) -> Target {
        Target { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() }
    }

    /// The limit on requests.
    pub fn rate(&self) -> Option<Rate> {
        self.kube_api_qps.map(|per_second| Rate { per_second, burst: self.kube_api_burst })
    }

    /// Whether a leader is elected: as told, or where other replicas are likely. Those who share need no leader.
    pub fn elects_leader(&self, in_cluster: bool) -> bool {
        self.leader_elect.unwrap_or(in_cluster && !self.shards)
    }
}

/// `15s`, `1m30s`, `500ms`.
fn duration(text: &str) -> Result<Duration, String> {
    let parsed: Result<jiff::SignedDuration, _> = text.parse();
    parsed
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok())
        .ok_or_else(|| format!("{text:?} is no length of time; it should look like 15s, 1m30s or 500ms"))
}

fn rate(text: &str) -> Result<f32, String> {
    let rate: Option<f32> = text.parse().ok().filter(|rate| *rate > 0.0 && f32::is_finite(*rate));
    rate.ok_or_else(|| format!("{text:?} is no rate; it should be a number greater than 0"))
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "on" => Ok(true),
        "false" | "off" => Ok(false),
        _ => Err(format!("{text:?} is neither on nor off")),
    }
}

#[cfg(test)]
mod tests;
