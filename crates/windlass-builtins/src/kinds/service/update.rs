//! Updates of services: validation, and fields that are dropped with a change of the type.

use std::collections::HashSet;

use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, FieldError, Path};

use super::validation::load_balancer_class;
use super::{cluster_ips, is_externally_accessible, needs_cluster_ip, needs_health_check, node_ports};
use crate::object::{copy, integer, is_set, items, remove, set, text};

/// Validates the rules that apply only to updates.
pub(super) fn validate(service: &Value, old: &Value) -> ErrorList {
    let mut errors = cluster_ips::validate_change(service, old);
    let class = "/spec/loadBalancerClass";
    let balanced = |service: &Value| text(service, "/spec/type") == "LoadBalancer";
    if balanced(service) && balanced(old) && copy(service, class) != copy(old, class) {
        let path = Path::new("spec").child("loadBalancerClass");
        errors.push(FieldError::invalid(&path, &copy(service, class), "may not change once set"));
    }
    errors.extend(load_balancer_class(service));
    if needs_health_check(service) && needs_health_check(old) && health_port(service) != health_port(old) {
        errors.push(FieldError::forbidden(&Path::new("spec").child("healthCheckNodePort"), "field is immutable"));
    }
    errors
}

/// Drops the values of the old type that the new type does not use, unless the client changes them too; in that case
/// they are kept and validation rejects them.
pub(super) fn drop_what_the_type_does_not_use(service: &mut Value, old: &Value) {
    let same = |service: &Value, pointer| copy(service, pointer) == copy(old, pointer);
    if needs_cluster_ip(old) && !needs_cluster_ip(service) {
        if same(service, "/spec/clusterIP") && same(service, "/spec/clusterIPs") {
            remove(service, "/spec/clusterIP");
            remove(service, "/spec/clusterIPs");
        }
        for field in ["/spec/ipFamilies", "/spec/ipFamilyPolicy"] {
            if same(service, field) {
                remove(service, field);
            }
        }
    }
    if has_node_ports(old) && !has_node_ports(service) {
        let known: HashSet<_> = node_ports(old).collect();
        if node_ports(service).all(|port| known.contains(&port)) {
            for i in 0..items(service, "/spec/ports").len() {
                remove(service, &format!("/spec/ports/{i}/nodePort"));
            }
        }
    }
    if needs_health_check(old) && !needs_health_check(service) && health_port(service) == health_port(old) {
        remove(service, "/spec/healthCheckNodePort");
    }
    let balanced = |service: &Value| text(service, "/spec/type") == "LoadBalancer";
    if balanced(old) && !balanced(service) {
        for field in ["/spec/allocateLoadBalancerNodePorts", "/spec/loadBalancerClass"] {
            if is_set(service, field) && same(service, field) {
                remove(service, field);
            }
        }
    }
    if is_externally_accessible(old)
        && !is_externally_accessible(service)
        && same(service, "/spec/externalTrafficPolicy")
    {
        remove(service, "/spec/externalTrafficPolicy");
    }
    drop_unused_traffic_policy(service);
    if !balanced(service) {
        set(service, "/status/loadBalancer", json!({}));
    }
}

/// kube-apiserver hides this field of an `ExternalName` service on reads; an invalid value is left to validation.
pub(super) fn drop_unused_traffic_policy(service: &mut Value) {
    if !needs_cluster_ip(service) && matches!(text(service, "/spec/internalTrafficPolicy"), "Cluster" | "Local") {
        remove(service, "/spec/internalTrafficPolicy");
    }
}

fn has_node_ports(service: &Value) -> bool {
    matches!(text(service, "/spec/type"), "NodePort" | "LoadBalancer")
}

fn health_port(service: &Value) -> i64 {
    integer(service, "/spec/healthCheckNodePort").unwrap_or_default()
}
