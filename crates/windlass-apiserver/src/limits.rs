//! The configurable limits of a server.

use std::time::Duration;

/// The limits of a [`Server`](crate::Server); the default values suit a machine with a few gigabytes of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Open connections. Above this limit, the connection that has been idle longest is closed; if none is idle,
    /// only members of `system:masters` can connect. Lower if the limit on open files requires it.
    pub max_connections: usize,
    /// Open connections of one user outside `system:masters`, or of all clients that have not authenticated. Above this
    /// limit, the client's longest idle connection is closed, or the new one if none is idle.
    pub max_connections_per_client: usize,
    /// Concurrent streams of an HTTP/2 connection.
    pub max_streams_per_connection: u32,
    /// Bytes of all request bodies in memory. One user outside `system:masters` can hold a quarter of them; the last
    /// eighth is reserved for `system:masters`.
    pub max_body_memory: usize,
    /// Requests that are served at a time, together with `max_mutating_requests_inflight`. These are the seats that
    /// priority levels share.
    pub max_requests_inflight: usize,
    /// See `max_requests_inflight`. The two are added, as in kube-apiserver with API Priority and Fairness.
    pub max_mutating_requests_inflight: usize,
    /// Whether requests share these seats by priority levels. Otherwise each of the two limits is that of its requests,
    /// of which more are rejected at once; 0 means no limit.
    pub priority_and_fairness: bool,
    /// Time limit of requests other than watches and connections; clients can set a shorter one.
    pub request_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 4000,
            max_connections_per_client: 1000,
            max_streams_per_connection: 1000,
            max_body_memory: 256 << 20,
            max_requests_inflight: 400,
            max_mutating_requests_inflight: 200,
            priority_and_fairness: true,
            request_timeout: Duration::from_secs(60),
        }
    }
}
