//! Subsets of Endpoints: ports with the same addresses are grouped.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Pod, Service};
use windlass_schema::sorting;

use crate::{pods, services};

/// Maximum number of addresses per object.
const MAX_ADDRESSES: usize = 1000;

/// An address behind a port.
#[derive(Clone, Debug, PartialEq)]
struct Reached {
    address: EndpointAddress,
    ready: bool,
}

/// The subsets of a service with these pods.
pub(super) fn of(service: &Service, pods: &[Arc<Pod>]) -> Vec<EndpointSubset> {
    let spec = service.spec.as_ref();
    let publishes_all = spec.and_then(|spec| spec.publish_not_ready_addresses).unwrap_or(false);
    let ports = spec.and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let is_without_ports = ports.is_empty() && spec.is_some_and(|spec| spec.cluster_ip.as_deref() == Some("None"));
    let mut all: Vec<(Option<EndpointPort>, Vec<Reached>)> = Vec::new();
    for pod in pods.iter().filter(|pod| services::can_be_reached(pod, publishes_all)) {
        let Some(address) = address(service, pod) else { continue };
        let reached = Reached { address, ready: publishes_all || pods::is_ready(pod) };
        let numbered = ports.iter().filter_map(|port| {
            Some(EndpointPort {
                name: port.name.clone().filter(|name| !name.is_empty()),
                port: services::target_port(pod, port)?,
                protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
                app_protocol: port.app_protocol.clone(),
            })
        });
        for port in numbered.map(Some).chain(is_without_ports.then_some(None)) {
            reach(&mut all, port, reached.clone());
        }
    }
    packed(all)
}

/// Subsets in the canonical form that this loop writes.
pub(in crate::loops) fn repacked(subsets: &[EndpointSubset]) -> Vec<EndpointSubset> {
    let mut all = Vec::new();
    for subset in subsets {
        let ports = subset.ports.as_deref().unwrap_or_default();
        let ports: Vec<_> = if ports.is_empty() { vec![None] } else { ports.iter().cloned().map(Some).collect() };
        for port in ports {
            for (addresses, ready) in [(&subset.addresses, true), (&subset.not_ready_addresses, false)] {
                for address in addresses.iter().flatten() {
                    reach(&mut all, port.clone(), Reached { address: address.clone(), ready });
                }
            }
        }
    }
    packed(all)
}

/// Adds an address to a port. An address that is both ready and not ready is not ready.
fn reach(all: &mut Vec<(Option<EndpointPort>, Vec<Reached>)>, port: Option<EndpointPort>, reached: Reached) {
    let place = all.iter().position(|(known, _)| *known == port).unwrap_or_else(|| {
        all.push((port, Vec::new()));
        all.len() - 1
    });
    let addresses = &mut all[place].1;
    match addresses.iter_mut().find(|known| key(&known.address) == key(&reached.address)) {
        Some(known) => known.ready &= reached.ready,
        None => addresses.push(reached),
    }
}

fn key(address: &EndpointAddress) -> (&str, Option<&str>) {
    (&address.ip, address.target_ref.as_ref().and_then(|target| target.uid.as_deref()))
}

/// Groups ports with the same addresses, sorted.
fn packed(all: Vec<(Option<EndpointPort>, Vec<Reached>)>) -> Vec<EndpointSubset> {
    let mut packed: Vec<(Vec<EndpointPort>, Vec<Reached>)> = Vec::new();
    for (port, mut addresses) in all {
        sorting::sort_by(&mut addresses, |a, b| key(&a.address).cmp(&key(&b.address)));
        match packed.iter_mut().find(|(_, known)| *known == addresses) {
            Some((ports, _)) => ports.extend(port),
            None => packed.push((port.into_iter().collect(), addresses)),
        }
    }
    let subset = |(mut ports, addresses): (Vec<EndpointPort>, Vec<Reached>)| {
        services::sort_as_go(&mut ports);
        let (ready, not_ready): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|reached| reached.ready);
        let addresses = |reached: Vec<Reached>| {
            let addresses: Vec<_> = reached.into_iter().map(|reached| reached.address).collect();
            (!addresses.is_empty()).then_some(addresses)
        };
        EndpointSubset {
            addresses: addresses(ready),
            not_ready_addresses: addresses(not_ready),
            ports: (!ports.is_empty()).then_some(ports),
        }
    };
    let mut subsets: Vec<EndpointSubset> = packed.into_iter().map(subset).collect();
    services::sort_as_go(&mut subsets);
    subsets
}

/// A pod's address of the service's first IP family.
fn address(service: &Service, pod: &Pod) -> Option<EndpointAddress> {
    let spec = service.spec.as_ref()?;
    let is_v6 = match spec.ip_families.as_ref().and_then(|families| families.first()) {
        Some(family) => family == "IPv6",
        None => {
            let own = spec.cluster_ip.as_deref().filter(|address| !matches!(*address, "" | "None"));
            let first = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref());
            own.or(first).is_some_and(|address| address.contains(':'))
        }
    };
    let ip = services::addresses(pod).find(|address| address.contains(':') == is_v6)?;
    Some(EndpointAddress {
        ip,
        hostname: services::hostname(pod, service),
        // Without a node, the name is empty rather than absent.
        node_name: Some(pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default()),
        target_ref: Some(services::reference(pod)),
    })
}

/// Returns whether there are more addresses than an object may have.
pub(super) fn are_too_many(subsets: &[EndpointSubset]) -> bool {
    let [ready, not_ready] = totals(subsets);
    ready + not_ready > MAX_ADDRESSES
}

/// Truncates the addresses, proportionally among subsets, dropping unready ones first.
pub(super) fn truncate(subsets: &mut [EndpointSubset]) {
    let [ready, not_ready] = totals(subsets);
    let truncates_ready = ready > MAX_ADDRESSES;
    let (room, total) = if truncates_ready { (MAX_ADDRESSES, ready) } else { (MAX_ADDRESSES - ready, not_ready) };
    let mut left = room;
    for subset in subsets {
        if truncates_ready {
            subset.not_ready_addresses = None;
        }
        let part = if truncates_ready { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        let Some(addresses) = part else { continue };
        let share = (addresses.len() * room).div_ceil(total.max(1)).min(left);
        addresses.truncate(share);
        left -= addresses.len();
        if addresses.is_empty() {
            *part = None;
        }
    }
}

fn totals(subsets: &[EndpointSubset]) -> [usize; 2] {
    let count = |addresses: fn(&EndpointSubset) -> &Option<Vec<EndpointAddress>>| {
        subsets.iter().map(|subset| addresses(subset).as_ref().map_or(0, Vec::len)).sum()
    };
    [count(|subset| &subset.addresses), count(|subset| &subset.not_ready_addresses)]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, ip: &str, ready: bool, ports: Value) -> Arc<Pod> {
        let pod = json!({ "metadata": { "name": name, "namespace": "ns", "uid": name },
            "spec": { "nodeName": "n", "containers": [{ "name": "c", "ports": ports }] },
            "status": { "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }],
                "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }] } });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn service(spec: Value) -> Service {
        serde_json::from_value(json!({ "metadata": { "name": "web", "namespace": "ns" }, "spec": spec })).unwrap()
    }

    fn address(name: &str, ip: &str) -> Value {
        json!({ "ip": ip, "nodeName": "n", "targetRef": { "kind": "Pod", "namespace": "ns", "name": name, "uid": name } })
    }

    #[test]
    fn ports_with_the_same_addresses_are_grouped() {
        let service = service(json!({ "clusterIP": "10.0.0.1", "ports": [{ "name": "a", "port": 80 },
            { "name": "b", "port": 81 }] }));
        let pods = [pod("q", "10.1.0.2", true, json!([])), pod("p", "10.1.0.1", false, json!([]))];
        let subsets = of(&service, &pods);
        assert_eq!(subsets.len(), 1);
        assert_eq!(serde_json::to_value(&subsets[0].addresses).unwrap(), json!([address("q", "10.1.0.2")]));
        assert_eq!(serde_json::to_value(&subsets[0].not_ready_addresses).unwrap(), json!([address("p", "10.1.0.1")]));
        assert_eq!(subsets[0].ports.as_ref().unwrap().len(), 2);
        assert_eq!(repacked(&subsets), subsets);
    }

    #[test]
    fn a_named_port_that_some_pods_lack_makes_two_subsets() {
        let service = service(json!({ "clusterIP": "10.0.0.1", "ports": [{ "port": 80 },
            { "name": "b", "port": 81, "targetPort": "named", "protocol": "TCP" }] }));
        let named = json!([{ "name": "named", "containerPort": 8081 }]);
        let subsets = of(&service, &[pod("p", "10.1.0.1", true, named), pod("q", "10.1.0.2", true, json!([]))]);
        let mut sizes: Vec<_> = subsets.iter().map(|subset| subset.addresses.as_ref().unwrap().len()).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [1, 2]);
    }

    #[test]
    fn a_headless_service_without_ports_has_addresses_alone() {
        let subsets = of(&service(json!({ "clusterIP": "None" })), &[pod("p", "10.1.0.1", true, json!([]))]);
        assert_eq!(serde_json::to_value(subsets).unwrap(), json!([{ "addresses": [address("p", "10.1.0.1")] }]));
        let subsets = of(&service(json!({ "clusterIP": "10.0.0.1" })), &[pod("p", "10.1.0.1", true, json!([]))]);
        assert_eq!(subsets, []);
    }

    #[test]
    fn at_most_a_thousand_addresses_are_kept_and_the_ready_ones_first() {
        let addresses = |count: usize| Some(vec![EndpointAddress::default(); count]);
        let subset = |ready, not_ready| EndpointSubset {
            addresses: addresses(ready),
            not_ready_addresses: addresses(not_ready),
            ports: None,
        };
        let mut subsets = [subset(600, 500), subset(100, 500)];
        assert!(are_too_many(&subsets));
        truncate(&mut subsets);
        assert_eq!(totals(&subsets), [700, 300]);
        let mut subsets = [subset(900, 500), subset(900, 0)];
        truncate(&mut subsets);
        assert_eq!(totals(&subsets), [1000, 0]);
        assert!(!are_too_many(&[subset(1000, 0)]));
    }
}
