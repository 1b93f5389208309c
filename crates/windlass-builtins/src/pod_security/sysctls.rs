//! Sysctls: only safe ones, which affect only the pod, are allowed.

use super::{Pod, Violation};
use crate::object::{items, text};

/// The sysctls that pods may set, and the version since which they may.
const ALLOWED: [(&str, u64); 12] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

pub(super) fn check(pod: Pod<'_>) -> Option<Violation> {
    let is_allowed = |name: &str| ALLOWED.iter().any(|(allowed, since)| *allowed == name && *since <= pod.version);
    let names = items(pod.spec, "/securityContext/sysctls").iter().map(|sysctl| text(sysctl, "/name"));
    let wrong: Vec<&str> = names.filter(|name| !is_allowed(name)).collect();
    if wrong.is_empty() { None } else { Violation::new("forbidden sysctls", wrong.join(", ")) }
}
