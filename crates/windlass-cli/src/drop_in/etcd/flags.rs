//! The command line of etcd, which is one of Go's `flag` package.

use windlass_schema::go_format::parse_bool;

/// Flags that need no value.
#[rustfmt::skip]
const SWITCHES: &[&str] = &[
    "auto-tls", "client-cert-auth", "discovery-insecure-skip-tls-verify", "discovery-insecure-transport",
    "enable-distributed-tracing", "enable-grpc-gateway", "enable-log-rotation", "enable-pprof",
    "experimental-compact-hash-check-enabled", "experimental-enable-distributed-tracing",
    "experimental-enable-lease-checkpoint", "experimental-enable-lease-checkpoint-persist",
    "experimental-initial-corrupt-check", "experimental-memory-mlock", "experimental-peer-skip-client-san-verification",
    "experimental-stop-grpc-service-on-defrag", "experimental-txn-mode-write-with-shared-buffer", "force-new-cluster",
    "initial-election-tick-advance", "memory-mlock", "peer-auto-tls", "peer-client-cert-auth",
    "peer-skip-client-san-verification", "pre-vote", "socket-reuse-address", "socket-reuse-port",
    "strict-reconfig-check", "unsafe-no-fsync", "version",
];

/// Flags with a value.
#[rustfmt::skip]
const OPTIONS: &[&str] = &[
    "advertise-client-urls", "auth-token", "auth-token-ttl", "auto-compaction-mode", "auto-compaction-retention",
    "backend-batch-interval", "backend-batch-limit", "backend-bbolt-freelist-type", "bcrypt-cost",
    "bootstrap-defrag-threshold-megabytes", "cert-file", "cipher-suites", "client-cert-allowed-hostname",
    "client-cert-file", "client-crl-file", "client-key-file", "compact-hash-check-time", "compaction-batch-limit",
    "compaction-sleep-interval", "config-file", "corrupt-check-time", "cors", "data-dir", "discovery",
    "discovery-cacert", "discovery-cert", "discovery-dial-timeout", "discovery-endpoints", "discovery-fallback",
    "discovery-keepalive-time", "discovery-keepalive-timeout", "discovery-key", "discovery-password", "discovery-proxy",
    "discovery-request-timeout", "discovery-srv", "discovery-srv-name", "discovery-token", "discovery-user",
    "distributed-tracing-address", "distributed-tracing-instance-id", "distributed-tracing-sampling-rate",
    "distributed-tracing-service-name", "downgrade-check-time", "election-timeout",
    "experimental-bootstrap-defrag-threshold-megabytes", "experimental-compact-hash-check-time",
    "experimental-compaction-batch-limit", "experimental-compaction-sleep-interval", "experimental-corrupt-check-time",
    "experimental-distributed-tracing-address", "experimental-distributed-tracing-instance-id",
    "experimental-distributed-tracing-sampling-rate", "experimental-distributed-tracing-service-name",
    "experimental-downgrade-check-time", "experimental-snapshot-catchup-entries", "experimental-warning-apply-duration",
    "experimental-warning-unary-request-duration", "experimental-watch-progress-notify-interval", "feature-gates",
    "grpc-keepalive-interval", "grpc-keepalive-min-time", "grpc-keepalive-timeout", "heartbeat-interval",
    "host-whitelist", "initial-advertise-peer-urls", "initial-cluster", "initial-cluster-state",
    "initial-cluster-token", "key-file", "listen-client-http-urls", "listen-client-urls", "listen-metrics-urls",
    "listen-peer-urls", "log-format", "log-level", "log-outputs", "log-rotation-config-json", "logger",
    "max-concurrent-streams", "max-learners", "max-request-bytes", "max-snapshots", "max-txn-ops", "max-wals",
    "metrics", "name", "peer-cert-allowed-cn", "peer-cert-allowed-hostname", "peer-cert-file", "peer-client-cert-file",
    "peer-client-key-file", "peer-crl-file", "peer-key-file", "peer-trusted-ca-file", "quota-backend-bytes",
    "raft-read-timeout", "raft-write-timeout", "self-signed-cert-validity", "snapshot-catchup-entries",
    "snapshot-count", "tls-max-version", "tls-min-version", "trusted-ca-file", "v2-deprecation", "wal-dir",
    "warning-apply-duration", "warning-unary-request-duration", "watch-progress-notify-interval",
];

/// Flags that change what clients see, but have no effect here. Others tune what does not exist here.
const IGNORED: &[&str] = &[
    "auth-token",
    "auto-tls",
    "cert-file",
    "client-cert-auth",
    "config-file",
    "key-file",
    "listen-client-http-urls",
    "listen-metrics-urls",
    "trusted-ca-file",
];

/// A parsed command line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    Help,
    Version,
    Flags(Flags),
}

/// Flags in the order in which they were given.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Flags {
    given: Vec<(String, String)>,
    extra: Option<String>,
}

impl Flags {
    /// The value of a flag; the last one counts.
    pub(super) fn last(&self, name: &str) -> Option<&str> {
        self.given.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The first argument that is not a flag.
    pub(super) fn extra(&self) -> Option<&str> {
        self.extra.as_deref()
    }

    /// Flags without an effect that the user should know of.
    pub(super) fn ignored(&self) -> Vec<String> {
        let given = |name: &&&str| self.last(name).is_some_and(|value| value != "false");
        IGNORED.iter().filter(given).map(|name| format!("--{name}")).collect()
    }
}

/// Parses a command line. Errors are those of Go.
pub(super) fn parse(arguments: &[String]) -> Result<Parsed, String> {
    let mut flags = Flags::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let Some(flag) = argument.strip_prefix('-').filter(|flag| !flag.is_empty()) else {
            flags.extra = Some(argument.clone());
            break;
        };
        let flag = flag.strip_prefix('-').unwrap_or(flag);
        if flag.is_empty() {
            flags.extra = arguments.next().cloned();
            break;
        }
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        if name.is_empty() || name.starts_with('-') {
            return Err(format!("bad flag syntax: {argument}"));
        }
        if ["h", "help"].contains(&name) {
            return Ok(Parsed::Help);
        }
        let value = if SWITCHES.contains(&name) {
            let value = value.unwrap_or_else(|| "true".to_owned());
            if parse_bool(&value).is_none() {
                return Err(format!("invalid boolean value {value:?} for -{name}: parse error"));
            }
            value
        } else if OPTIONS.contains(&name) {
            let value = value.or_else(|| arguments.next().cloned());
            value.ok_or_else(|| format!("flag needs an argument: -{name}"))?
        } else {
            return Err(format!("flag provided but not defined: -{name}"));
        };
        flags.given.push((name.to_owned(), value));
    }
    Ok(match flags.last("version").and_then(parse_bool) {
        Some(true) => Parsed::Version,
        _ => Parsed::Flags(flags),
    })
}

/// The list of all flags. envtest looks for `--unsafe-no-fsync` at the beginning of a line.
pub(super) fn help() -> String {
    let mut names: Vec<&str> = SWITCHES.iter().chain(OPTIONS).copied().collect();
    names.sort_unstable();
    let list: String = names.iter().map(|name| format!("  --{name}\n")).collect();
    format!(
        "Usage:\n\n  etcd [flags]\n    Keep the data of the kube-apiserver of windlass, and answer health checks.\n\n\
         Flags of etcd that are accepted; all but a few tune what does not exist here:\n{list}"
    )
}
