//! Pods as endpoints of a service.

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{Node, Pod, Service},
    discovery::v1::{Endpoint, EndpointConditions, EndpointHints, EndpointPort, ForNode, ForZone},
};

use crate::{pods, services};

const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// An endpoint with its ports.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reached {
    pub(super) ports: Vec<EndpointPort>,
    /// `None` if the pod cannot be an endpoint now, because its address or node is missing.
    pub(super) endpoint: Option<Endpoint>,
}

/// The address types of a service.
pub(super) fn address_types(service: &Service) -> Vec<&'static str> {
    let spec = service.spec.as_ref();
    let families = spec.and_then(|spec| spec.ip_families.as_deref()).unwrap_or_default();
    let mut types: Vec<&str> = Vec::new();
    for family in families {
        let known = match family.as_str() {
            "IPv4" => "IPv4",
            "IPv6" => "IPv6",
            _ => continue,
        };
        if !types.contains(&known) {
            types.push(known);
        }
    }
    if types.is_empty() {
        // Services of servers without IP families.
        match spec.and_then(|spec| spec.cluster_ip.as_deref()) {
            None | Some("" | "None") => types.extend(["IPv4", "IPv6"]),
            Some(address) if address.contains(':') => types.push("IPv6"),
            Some(_) => types.push("IPv4"),
        }
    }
    types
}

/// Returns a pod as an endpoint, or `None` if it has ended or has no address at all.
pub(super) fn reached(
    pod: &Pod,
    service: &Service,
    address_type: &str,
    node: &dyn Fn(&str) -> Option<Arc<Node>>,
) -> Option<Reached> {
    if !services::can_be_reached(pod, true) {
        return None;
    }
    let spec = service.spec.as_ref();
    let publishes_all = spec.and_then(|spec| spec.publish_not_ready_addresses).unwrap_or(false);
    let node_name = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).filter(|name| !name.is_empty());
    let node = node_name.as_deref().and_then(node);
    let mut addresses: Vec<String> =
        services::addresses(pod).filter(|address| address.contains(':') == (address_type == "IPv6")).collect();
    addresses.sort();
    let is_there = !addresses.is_empty() && (node.is_some() || publishes_all);
    let endpoint = is_there.then(|| {
        let (serving, terminating) = (pods::is_ready(pod), pods::is_terminating(pod));
        let mut endpoint = Endpoint {
            addresses,
            conditions: Some(EndpointConditions {
                ready: Some(publishes_all || (serving && !terminating)),
                serving: Some(serving),
                terminating: Some(terminating),
            }),
            target_ref: Some(services::reference(pod)),
            hostname: services::hostname(pod, service),
            zone: node.and_then(|node| node.metadata.labels.as_ref()?.get(ZONE_LABEL).cloned()),
            node_name,
            ..Endpoint::default()
        };
        endpoint.hints = hints(service, &endpoint);
        endpoint
    });
    Some(Reached { ports: ports(service, pod), endpoint })
}

/// Hints for topology-aware routing.
fn hints(service: &Service, endpoint: &Endpoint) -> Option<EndpointHints> {
    let by_node = match service.spec.as_ref()?.traffic_distribution.as_deref()? {
        "PreferClose" | "PreferSameZone" => false,
        "PreferSameNode" => true,
        _ => return None,
    };
    if endpoint.conditions.as_ref()?.ready != Some(true) {
        return None;
    }
    let for_zones = endpoint.zone.clone().map(|name| vec![ForZone { name }]);
    let for_nodes = endpoint.node_name.clone().filter(|_| by_node).map(|name| vec![ForNode { name }]);
    (for_zones.is_some() || for_nodes.is_some()).then_some(EndpointHints { for_nodes, for_zones })
}

/// The ports of a service that a pod has, in kube-controller-manager's order.
fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let mut ports: Vec<EndpointPort> = ports
        .filter_map(|port| {
            Some(EndpointPort {
                name: Some(port.name.clone().unwrap_or_default()),
                port: Some(services::target_port(pod, port)?),
                protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
                app_protocol: port.app_protocol.clone(),
            })
        })
        .collect();
    services::sort_as_go(&mut ports);
    ports
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(service: Value, pod: Value, expected: Value) {
        let service = json!({ "metadata": { "name": "web", "namespace": "ns" }, "spec": service });
        let node: Node =
            serde_json::from_value(json!({ "metadata": { "name": "n", "labels": { ZONE_LABEL: "z" } } })).unwrap();
        let node = Arc::new(node);
        let lookup = |name: &str| (name == "n").then(|| node.clone());
        let found =
            reached(&serde_json::from_value(pod).unwrap(), &serde_json::from_value(service).unwrap(), "IPv4", &lookup);
        let found = found.map(|found| json!({ "ports": found.ports, "endpoint": found.endpoint }));
        assert_eq!(found.unwrap_or_default(), expected);
    }

    fn pod(node: Option<&str>, ready: &str) -> Value {
        json!({ "metadata": { "name": "a", "namespace": "ns", "uid": "u" },
            "spec": { "nodeName": node, "hostname": "a", "subdomain": "web", "containers": [] },
            "status": { "phase": "Running", "podIP": "10.0.0.1", "podIPs": [{ "ip": "10.0.0.1" }, { "ip": "fd00::1" }],
                "conditions": [{ "type": "Ready", "status": ready }] } })
    }

    #[test]
    fn a_pod_on_a_node_is_an_endpoint() {
        let target = json!({ "kind": "Pod", "namespace": "ns", "name": "a", "uid": "u" });
        check(
            json!({ "ports": [{ "port": 80, "name": "http" }], "trafficDistribution": "PreferClose" }),
            pod(Some("n"), "True"),
            json!({ "ports": [{ "name": "http", "port": 80, "protocol": "TCP" }], "endpoint": {
                "addresses": ["10.0.0.1"], "conditions": { "ready": true, "serving": true, "terminating": false },
                "hostname": "a", "nodeName": "n", "zone": "z", "targetRef": target, "hints": { "forZones": [{ "name": "z" }] } } }),
        );
        check(
            json!({ "publishNotReadyAddresses": true }),
            pod(None, "False"),
            json!({ "ports": [], "endpoint": { "addresses": ["10.0.0.1"], "hostname": "a", "targetRef": target,
                "conditions": { "ready": true, "serving": false, "terminating": false } } }),
        );
    }

    #[test]
    fn a_pod_without_a_node_or_an_address_is_not_an_endpoint() {
        check(json!({}), pod(None, "True"), json!({ "ports": [], "endpoint": null }));
        check(json!({}), pod(Some("other"), "True"), json!({ "ports": [], "endpoint": null }));
        let mut without = pod(Some("n"), "True");
        without["status"] = json!({ "phase": "Running" });
        check(json!({}), without, json!(null));
        let mut ended = pod(Some("n"), "False");
        ended["status"]["phase"] = "Succeeded".into();
        check(json!({}), ended, json!(null));
    }

    #[test]
    fn a_service_has_the_ip_families_of_its_spec_or_address() {
        for (spec, expected) in [
            (json!({ "ipFamilies": ["IPv6", "IPv4"] }), vec!["IPv6", "IPv4"]),
            (json!({ "clusterIP": "fd00::1" }), vec!["IPv6"]),
            (json!({ "clusterIP": "10.0.0.1" }), vec!["IPv4"]),
            (json!({ "clusterIP": "None" }), vec!["IPv4", "IPv6"]),
        ] {
            let service = serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap();
            assert_eq!(address_types(&service), expected, "{spec}");
        }
    }
}
