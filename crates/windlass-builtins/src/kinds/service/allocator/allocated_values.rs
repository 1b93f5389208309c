//! Values that a client may omit from an update: those allocated before, and one of two linked fields.

use std::collections::HashSet;

use serde_json::Value;

use super::super::{needs_cluster_ip, needs_health_check, node_ports, texts};
use super::gives_node_ports;
use crate::object::{carry_over, copy, integer, items, set, text};

/// Restores the cluster IPs and ports of the old service that a PUT omits.
pub(super) fn patch(service: &mut Value, old: &Value) {
    if needs_cluster_ip(old) && needs_cluster_ip(service) {
        if text(service, "/spec/clusterIP").is_empty() {
            carry_over(service, old, "/spec/clusterIP");
        }
        if items(service, "/spec/clusterIPs").is_empty() {
            carry_over(service, old, "/spec/clusterIPs");
        }
    }
    if gives_node_ports(old) && gives_node_ports(service) {
        let had: HashSet<_> = node_ports(old).collect();
        let used: HashSet<_> = node_ports(service).filter(|port| had.contains(port)).collect();
        for i in 0..items(service, "/spec/ports").len() {
            let pointer = format!("/spec/ports/{i}/nodePort");
            if integer(service, &pointer).unwrap_or_default() != 0 {
                continue;
            }
            let name = text(service, &format!("/spec/ports/{i}/name"));
            // Ports are matched by name; the last one with a name wins.
            let known = items(old, "/spec/ports").iter().rev().find(|port| text(port, "/name") == name);
            let port = known.and_then(|port| integer(port, "/nodePort")).unwrap_or_default();
            if port != 0 && !used.contains(&port) {
                set(service, &pointer, port);
            }
        }
    }
    if needs_health_check(old)
        && needs_health_check(service)
        && integer(service, "/spec/healthCheckNodePort").unwrap_or_default() == 0
    {
        carry_over(service, old, "/spec/healthCheckNodePort");
    }
}

/// Adjusts `clusterIPs` if a client has changed only `clusterIP`.
pub(super) fn cluster_ips(service: &mut Value, old: Option<&Value>) {
    let single = text(service, "/spec/clusterIP").to_owned();
    let many = texts(service, "/spec/clusterIPs");
    let Some(old) = old else {
        if !single.is_empty() && many.is_empty() {
            set(service, "/spec/clusterIPs", vec![Value::from(single)]);
        }
        return;
    };
    let old_single = text(old, "/spec/clusterIP");
    let same = many == texts(old, "/spec/clusterIPs");
    if many.is_empty() && old_single == single {
        if !items(old, "/spec/clusterIPs").is_empty() {
            set(service, "/spec/clusterIPs", copy(old, "/spec/clusterIPs"));
        }
    } else if old_single != single && same {
        if single.is_empty() {
            crate::object::remove(service, "/spec/clusterIPs");
        } else {
            set(service, "/spec/clusterIPs", vec![Value::from(single)]);
        }
    }
}
