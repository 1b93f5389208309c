//! Fields of services that the allocator reads.

use serde_json::Value;
use windlass_schema::names::parse_ip_sloppy;

use crate::{
    kinds::service::{needs_cluster_ip, needs_health_check, node_ports},
    object::{boolean, integer, text},
};

/// Returns the cluster IP of a service as a number; `None` for headless services.
pub(super) fn address_of(service: &Value) -> Option<u32> {
    if !needs_cluster_ip(service) {
        return None;
    }
    number_of(text(service, "/spec/clusterIPs/0"))
}

pub(super) fn number_of(ip: &str) -> Option<u32> {
    match parse_ip_sloppy(ip)?.to_canonical() {
        std::net::IpAddr::V4(ip) => Some(ip.to_bits()),
        std::net::IpAddr::V6(_) => None,
    }
}

/// Returns all node ports of a service, including the one for health checks. Services of other types have none: those
/// that a change of type leaves behind are removed before the service is stored.
pub(super) fn ports_of(service: &Value) -> Vec<u32> {
    if !has_node_ports(service) {
        return Vec::new();
    }
    let health = Some(number(service, "/spec/healthCheckNodePort")).filter(|_| needs_health_check(service));
    node_ports(service).chain(health).filter(|port| *port != 0).filter_map(|port| u32::try_from(port).ok()).collect()
}

pub(super) fn number(value: &Value, pointer: &str) -> i64 {
    integer(value, pointer).unwrap_or_default()
}

pub(super) fn has_node_ports(service: &Value) -> bool {
    matches!(text(service, "/spec/type"), "NodePort" | "LoadBalancer")
}

/// Returns whether node ports are allocated for ports without one.
pub(super) fn gives_node_ports(service: &Value) -> bool {
    match text(service, "/spec/type") {
        "NodePort" => true,
        "LoadBalancer" => boolean(service, "/spec/allocateLoadBalancerNodePorts").unwrap_or(true),
        _ => false,
    }
}
