//! The limits of the API server, and the process's limit on open files.

use clap::{ArgAction, Args};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use windlass_plane::Limits;

/// Options for limits.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Maximum number of open connections; above it, idle connections are closed
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_connections)]
    max_connections: usize,
    /// Maximum number of open connections per user outside system:masters
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_connections_per_client)]
    max_connections_per_client: usize,
    /// Maximum number of concurrent streams per HTTP/2 connection
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_streams_per_connection)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    http2_max_streams_per_connection: u32,
    /// Maximum memory for all request bodies, in MiB
    #[arg(long, value_name = "MIB", default_value_t = Limits::default().max_body_memory >> 20)]
    max_body_memory: usize,
    /// Maximum number of concurrent read requests; added to --max-mutating-requests-inflight and shared by priority
    /// levels
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_requests_inflight)]
    max_requests_inflight: usize,
    /// Maximum number of concurrent mutating requests; added to --max-requests-inflight and shared by priority levels
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_mutating_requests_inflight)]
    max_mutating_requests_inflight: usize,
    /// Use API Priority and Fairness with the sum of both limits; if false, apply each limit separately (0 for no
    /// limit)
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_priority_and_fairness: bool,
}

impl LimitArgs {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            max_connections: self.max_connections.max(1),
            max_connections_per_client: self.max_connections_per_client.max(1),
            max_streams_per_connection: self.http2_max_streams_per_connection,
            max_body_memory: self.max_body_memory.saturating_mul(1 << 20),
            max_requests_inflight: self.max_requests_inflight,
            max_mutating_requests_inflight: self.max_mutating_requests_inflight,
            priority_and_fairness: self.enable_priority_and_fairness,
            ..Limits::default()
        }
    }
}

/// Raises the soft limit on open files to the hard limit: every connection is one.
pub(crate) fn raise_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, ?current, ?maximum, "failed to raise the limit on open files");
    }
}
