//! Warnings about services.

use serde_json::Value;
use windlass_schema::field::Path;
use windlass_schema::names::{cidr_warnings, ip_warnings};

use super::texts;
use crate::object::{map, text};

/// Returns warnings about a created or updated service.
pub(super) fn service(service: &Value) -> Vec<String> {
    let spec = Path::new("spec");
    let kind = text(service, "/spec/type");
    let cluster_ip = text(service, "/spec/clusterIP");
    let headless = kind == "ClusterIP" && cluster_ip == "None";
    let external_ips = texts(service, "/spec/externalIPs");
    let balancer_ip = text(service, "/spec/loadBalancerIP");
    let mut warnings = Vec::new();
    let mut warn = |text: &str| warnings.push(text.to_owned());

    let hints = "service.kubernetes.io/topology-aware-hints";
    if map(service, "/metadata/annotations").is_some_and(|all| all.contains_key(hints)) {
        warn(&format!("annotation {hints} is deprecated, please use service.kubernetes.io/topology-mode instead"));
    }
    if !cluster_ip.is_empty() && cluster_ip != "None" {
        for (i, ip) in texts(service, "/spec/clusterIPs").into_iter().enumerate() {
            ip_warnings(&spec.child("clusterIPs").index(i), ip).iter().for_each(|text| warn(text));
        }
    }
    if headless {
        if !balancer_ip.is_empty() {
            warn("spec.loadBalancerIP is ignored for headless services");
        }
        if !external_ips.is_empty() {
            warn("spec.externalIPs is ignored for headless services");
        }
        if text(service, "/spec/sessionAffinity") != "None" {
            warn("spec.SessionAffinity is ignored for headless services");
        }
    }
    for (i, ip) in external_ips.iter().enumerate() {
        ip_warnings(&spec.child("externalIPs").index(i), ip).iter().for_each(|text| warn(text));
    }
    if !external_ips.is_empty() && !headless && kind != "ExternalName" {
        warn("spec.externalIPs is deprecated and may no longer be implemented in some clusters");
    }
    if !balancer_ip.is_empty() {
        ip_warnings(&spec.child("loadBalancerIP"), balancer_ip).iter().for_each(|text| warn(text));
    }
    for (i, range) in texts(service, "/spec/loadBalancerSourceRanges").into_iter().enumerate() {
        cidr_warnings(&spec.child("loadBalancerSourceRanges").index(i), range).iter().for_each(|text| warn(text));
    }
    if kind == "ExternalName" && !external_ips.is_empty() {
        warn("spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    }
    if kind != "ExternalName" && !text(service, "/spec/externalName").is_empty() {
        warn("spec.externalName is ignored when spec.type is not \"ExternalName\"");
    }
    if text(service, "/spec/trafficDistribution") == "PreferClose" {
        warn("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"");
    }
    warnings
}
