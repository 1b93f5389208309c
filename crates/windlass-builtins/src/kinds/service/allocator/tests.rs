use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn service(spec: Value) -> Value {
    let mut object =
        json!({"metadata": {"name": "s"}, "spec": {"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}]}});
    for (key, value) in spec.as_object().expect("a spec must be an object") {
        object["spec"][key] = value.clone();
    }
    object
}

fn allocator() -> ServiceAllocator {
    ServiceAllocator::default().with_seed(7)
}

fn error(result: Result<Allocation, AllocationError>) -> String {
    match result {
        Ok(_) => String::new(),
        Err(AllocationError::Invalid(errors)) => errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        Err(AllocationError::Internal(message)) => format!("500 {message}"),
    }
}

/// Allocates for a service and stores it.
fn store(allocator: &mut ServiceAllocator, key: &str, service: &mut Value, old: Option<&Value>) {
    let allocation = allocator.allocate(service, old, false).expect("all must be free");
    allocator.observe(key, Some(service));
    allocator.release(allocation);
}

#[test]
fn an_allocated_address_or_port_is_rejected_until_it_is_released() {
    let mut allocator = allocator();
    let mut first =
        service(json!({"type": "NodePort", "clusterIP": "10.0.0.9", "ports": [{"port": 80, "nodePort": 30715}]}));
    store(&mut allocator, "n/first", &mut first, None);

    let mut same_address = service(json!({"clusterIP": "10.0.0.9"}));
    assert_eq!(
        error(allocator.allocate(&mut same_address, None, false)),
        "spec.clusterIPs: Invalid value: [\"10.0.0.9\"]: failed to allocate IP 10.0.0.9: provided IP is already allocated"
    );
    let same_port = || service(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30715}]}));
    for dry_run in [false, true] {
        assert_eq!(
            error(allocator.allocate(&mut same_port(), None, dry_run)),
            "spec.ports[0].nodePort: Invalid value: 30715: provided port is already allocated"
        );
    }
    allocator.observe("n/first", None);
    let again = allocator.allocate(&mut first.clone(), None, false);
    assert!(again.is_ok(), "{again:?}");
}

#[test]
fn ports_and_addresses_out_of_range_are_rejected() {
    let mut allocator = allocator();
    let mut port = service(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 8080}]}));
    assert_eq!(
        error(allocator.allocate(&mut port, None, false)),
        "spec.ports[0].nodePort: Invalid value: 8080: provided port is not in the valid range. The range of valid ports is 30000-32767"
    );
    for (ip, dry_run, reason) in [
        ("10.0.0.0", false, "the provided network does not match the current range"),
        ("10.0.0.255", false, "the provided network does not match the current range"),
        (
            "10.1.0.1",
            true,
            "the provided IP (10.1.0.1) is not in the valid range. The range of valid IPs is 10.0.0.0/24",
        ),
    ] {
        assert_eq!(
            error(allocator.allocate(&mut service(json!({"clusterIP": ip})), None, dry_run)),
            format!("spec.clusterIPs: Invalid value: [\"{ip}\"]: failed to allocate IP {ip}: {reason}")
        );
    }
    assert_eq!(
        error(allocator.allocate(&mut service(json!({"clusterIP": "2001:db8::1"})), None, false)),
        "spec.clusterIPs[0]: Invalid value: [\"2001:db8::1\"]: IPv6 is not configured on this cluster"
    );
}

#[test]
fn a_full_network_is_an_internal_error() {
    let mut allocator = ServiceAllocator::new("10.1.0.0/30".parse().expect("the network must be fine"));
    for name in ["a", "b"] {
        store(&mut allocator, name, &mut service(json!({})), None);
    }
    assert_eq!(
        error(allocator.allocate(&mut service(json!({})), None, false)),
        "500 failed to allocate a serviceIP for Service \"s\": range is full"
    );
    for bad in ["10.0.0.0", "10.0.0.1/24", "10.0.0.0/31", "10.0.0.0/33", "::/64", ""] {
        assert!(bad.parse::<ServiceNetwork>().is_err(), "{bad}");
    }
    assert!("0.0.0.0/0".parse::<ServiceNetwork>().is_ok());
}

#[test]
fn further_service_cidrs_extend_the_range() {
    let mut allocator = ServiceAllocator::new("10.1.0.0/30".parse().expect("the network must be fine"));
    for name in ["a", "b"] {
        store(&mut allocator, name, &mut service(json!({})), None);
    }
    let cidr = |status: Value, deleted: Value| {
        json!({"metadata": {"name": "more", "deletionTimestamp": deleted}, "status": status,
            "spec": {"cidrs": ["10.2.0.0/29", "2001:db8::/112"]}})
    };
    let ready = |status: &str| json!({"conditions": [{"type": "Ready", "status": status}]});
    let mut certain = service(json!({"clusterIP": "10.2.0.3"}));
    let rejected = "spec.clusterIPs: Invalid value: [\"10.2.0.3\"]: failed to allocate IP 10.2.0.3: the provided network \
                   does not match the current range";
    assert_eq!(error(allocator.allocate(&mut certain, None, false)), rejected);
    for unusable in [cidr(ready("False"), json!(null)), cidr(ready("True"), json!("2026-01-01T00:00:00Z"))] {
        allocator.observe_network("more", Some(&unusable));
        assert_eq!(error(allocator.allocate(&mut certain, None, false)), rejected);
        assert_ne!(error(allocator.allocate(&mut service(json!({})), None, false)), "");
    }
    allocator.observe_network("more", Some(&cidr(json!({}), json!(null))));
    store(&mut allocator, "c", &mut certain, None);
    let mut any = service(json!({}));
    store(&mut allocator, "d", &mut any, None);
    assert!(any["spec"]["clusterIP"].as_str().is_some_and(|ip| ip.starts_with("10.2.0.")), "{any}");
    let dry = allocator.allocate(&mut service(json!({"clusterIP": "10.2.0.3"})), None, true);
    assert!(dry.is_ok_and(|dry| dry.is_empty()));
    let usage = |cidr: &str, allocated, free| NetworkUsage { cidr: cidr.to_owned(), allocated, free };
    assert_eq!(allocator.allocated().networks, [usage("10.1.0.0/30", 2, 0), usage("10.2.0.0/29", 2, 4)]);

    // An address stays allocated while its network is gone.
    allocator.observe_network("more", None);
    assert_eq!(allocator.problems().len(), 2);
    allocator.observe_network("more", Some(&cidr(ready("True"), json!(null))));
    assert_eq!(allocator.problems(), []);
    assert_ne!(error(allocator.allocate(&mut service(json!({"clusterIP": "10.2.0.3"})), None, false)), "");
}

#[test]
fn a_network_is_ready_if_one_of_its_service_cidrs_is() {
    let mut allocator = ServiceAllocator::new("10.1.0.0/30".parse().expect("the network must be fine"));
    let cidr = |status: &str| json!({"spec": {"cidrs": ["10.1.0.0/30"]}, "status": {"conditions": [{"type": "Ready", "status": status}]}});
    let works = |allocator: &mut ServiceAllocator| match allocator.allocate(&mut service(json!({})), None, false) {
        Ok(allocation) => {
            allocator.release(allocation);
            true
        }
        Err(_) => false,
    };
    allocator.observe_network("kubernetes", Some(&cidr("False")));
    assert!(!works(&mut allocator));
    allocator.observe_network("same", Some(&cidr("True")));
    assert!(works(&mut allocator));
    allocator.observe_network("same", None);
    allocator.observe_network("kubernetes", None);
    assert!(works(&mut allocator), "the network of the cluster is always known");
}

#[test]
fn a_dry_run_reserves_nothing() {
    let mut allocator = allocator();
    let mut dry = service(json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}));
    let allocation = allocator.allocate(&mut dry, None, true).expect("all must be free");
    assert!(allocation.is_empty());
    allocator.release(allocation);
    assert_eq!(dry["spec"]["clusterIP"], "10.0.0.0");
    assert_eq!(dry["spec"]["ports"][0]["nodePort"], 32769);
    assert_eq!(dry["spec"]["healthCheckNodePort"], 32770);
    let mut certain = service(json!({"clusterIP": "10.0.0.9"}));
    let allocation = allocator.allocate(&mut certain, None, true).expect("it must be free");
    allocator.release(allocation);
    assert!(allocator.allocate(&mut certain, None, false).is_ok());
}

#[test]
fn values_are_free_when_no_stored_service_uses_them() {
    let mut allocator = allocator();
    let mut old =
        service(json!({"type": "NodePort", "clusterIP": "10.0.0.9", "ports": [{"port": 80, "nodePort": 30001}]}));
    store(&mut allocator, "n/s", &mut old, None);
    let mut new = old.clone();
    new["spec"]["type"] = json!("ExternalName");
    let wants =
        || service(json!({"type": "NodePort", "clusterIP": "10.0.0.9", "ports": [{"port": 80, "nodePort": 30001}]}));

    let failed = allocator.allocate(&mut new.clone(), Some(&old), false).expect("it must be possible");
    allocator.release(failed);
    assert_ne!(error(allocator.allocate(&mut wants(), None, false)), "");

    let done = allocator.allocate(&mut new, Some(&old), false).expect("it must be possible");
    assert!(allocator.observe("n/s", Some(&new)) && !allocator.observe("n/s", Some(&new)));
    allocator.release(done);
    assert_eq!(error(allocator.allocate(&mut wants(), None, false)), "");
}

#[test]
fn shared_values_and_values_out_of_range_are_problems() {
    let mut allocator = allocator();
    let shared = service(json!({"type": "NodePort", "clusterIPs": ["10.0.0.9"], "ports": [
        {"port": 80, "nodePort": 30001, "protocol": "TCP"}, {"port": 80, "nodePort": 30001, "protocol": "UDP"}]}));
    allocator.observe("n/a", Some(&shared));
    assert_eq!(allocator.problems(), []);
    allocator.observe("n/b", Some(&shared));
    let strange = json!({"type": "NodePort", "clusterIPs": ["10.9.0.9"], "ports": [{"port": 80, "nodePort": 80}]});
    allocator.observe("n/c", Some(&service(strange)));
    let problems: Vec<String> =
        allocator.problems().iter().map(|problem| format!("{} {}", problem.service, problem.message)).collect();
    assert_eq!(
        problems,
        [
            "n/b Cluster IP [IPv4]:10.0.0.9 was assigned to multiple services; please recreate service",
            "n/b Port 30001 was assigned to multiple services; please recreate service",
            "n/c Cluster IP [IPv4]: 10.9.0.9 is not within any configured Service CIDR; please recreate service",
            "n/c Port 80 is not within the port range 30000-32767; please recreate service",
        ]
    );
    // The values stay allocated until the last of the services that share them is deleted.
    allocator.observe("n/a", None);
    assert_eq!(allocator.problems().len(), 2);
    assert_ne!(error(allocator.allocate(&mut service(json!({"clusterIP": "10.0.0.9"})), None, false)), "");
    allocator.observe("n/b", None);
    assert_eq!(error(allocator.allocate(&mut service(json!({"clusterIP": "10.0.0.9"})), None, false)), "");
}

#[test]
fn a_put_may_omit_allocated_node_ports() {
    let mut allocator = allocator();
    let mut old = service(json!({"type": "NodePort", "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}));
    store(&mut allocator, "n/s", &mut old, None);
    let mut new = service(json!({"type": "NodePort", "ports": [{"name": "b", "port": 3}, {"name": "c", "port": 4}]}));
    let allocation = allocator.allocate(&mut new, Some(&old), false).expect("all must be free");
    assert_eq!(new["spec"]["clusterIP"], old["spec"]["clusterIP"]);
    assert_eq!(new["spec"]["ports"][0]["nodePort"], old["spec"]["ports"][1]["nodePort"]);
    assert_eq!(allocation.taken_ports, [number(&new, "/spec/ports/1/nodePort") as u32]);
    allocator.observe("n/s", Some(&new));
    allocator.release(allocation);
    assert!(!allocator.ports.is_taken(number(&old, "/spec/ports/0/nodePort") as u32));
    assert_eq!(allocator.allocated().ports, 2);
}

proptest! {
    #[test]
    fn no_two_services_share_an_address_or_a_port(steps in prop::collection::vec((0u8..4, any::<u16>()), 0..80)) {
        let mut allocator = ServiceAllocator::new("10.9.0.0/27".parse().expect("the network must be fine")).with_seed(3);
        let mut services: BTreeMap<String, Value> = BTreeMap::new();
        for (number, (step, random)) in steps.into_iter().enumerate() {
            let kind = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"][usize::from(random % 4)];
            let mut new = service(json!({"type": kind, "externalTrafficPolicy": "Local"}));
            let old = services.iter().nth(usize::from(random) % services.len().max(1));
            let old = old.map(|(key, service)| (key.clone(), service.clone()));
            let (key, old) = match (step, old) {
                (0 | 1, _) => (number.to_string(), None),
                (2, Some((key, old))) => (key, Some(old)),
                (_, Some((key, _))) => {
                    allocator.observe(&key, None);
                    services.remove(&key);
                    continue;
                }
                (_, None) => continue,
            };
            if let Ok(allocation) = allocator.allocate(&mut new, old.as_ref(), false) {
                if random % 3 != 0 {
                    allocator.observe(&key, Some(&new));
                    services.insert(key, new);
                }
                allocator.release(allocation);
            }
            let mut seen = HashSet::new();
            for service in services.values() {
                if let Some(address) = address_of(service) {
                    prop_assert!(seen.insert(u64::from(address) << 32), "{}", service);
                    prop_assert!(allocator.addresses.is_taken(address));
                }
                for port in ports_of(service) {
                    prop_assert!(seen.insert(u64::from(port)), "{}", service);
                    prop_assert!(allocator.ports.is_taken(port));
                }
            }
        }
        for key in services.keys() {
            allocator.observe(key, None);
        }
        let allocated = allocator.allocated();
        prop_assert_eq!((allocated.networks[0].allocated, allocated.ports), (0, 0), "everything must be free again");
        let mut free = 0;
        while let Ok(allocation) = allocator.allocate(&mut service(json!({})), None, false) {
            prop_assert!(!allocation.is_empty());
            free += 1;
        }
        prop_assert_eq!(free, 30, "every address must be free again");
    }
}
