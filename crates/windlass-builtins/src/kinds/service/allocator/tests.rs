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

#[test]
fn an_allocated_address_or_port_is_rejected_until_it_is_released() {
    let mut allocator = allocator();
    let mut first =
        service(json!({"type": "NodePort", "clusterIP": "10.0.0.9", "ports": [{"port": 80, "nodePort": 30715}]}));
    let allocation = allocator.allocate(&mut first, None, false).expect("all must be free");
    allocator.commit(allocation);

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
    allocator.release(&first);
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
    let mut allocator = ServiceAllocator::new("10.1.0.0/30").expect("the network must be fine");
    for _ in 0..2 {
        let allocation = allocator.allocate(&mut service(json!({})), None, false).expect("two addresses must be free");
        allocator.commit(allocation);
    }
    assert_eq!(
        error(allocator.allocate(&mut service(json!({})), None, false)),
        "500 failed to allocate a serviceIP for Service \"s\": range is full"
    );
    for bad in ["10.0.0.0", "10.0.0.1/24", "10.0.0.0/31", "10.0.0.0/33", "::/64", ""] {
        assert!(ServiceAllocator::new(bad).is_err(), "{bad}");
    }
    assert!(ServiceAllocator::new("0.0.0.0/0").is_ok());
}

#[test]
fn a_dry_run_reserves_nothing() {
    let mut allocator = allocator();
    let mut dry = service(json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}));
    let allocation = allocator.allocate(&mut dry, None, true).expect("all must be free");
    allocator.commit(allocation);
    assert_eq!(dry["spec"]["clusterIP"], "10.0.0.0");
    assert_eq!(dry["spec"]["ports"][0]["nodePort"], 32769);
    assert_eq!(dry["spec"]["healthCheckNodePort"], 32770);
    let mut certain = service(json!({"clusterIP": "10.0.0.9"}));
    let allocation = allocator.allocate(&mut certain, None, true).expect("it must be free");
    allocator.revert(allocation);
    assert!(allocator.allocate(&mut certain, None, false).is_ok());
}

#[test]
fn released_values_are_freed_only_when_the_update_succeeds() {
    let mut allocator = allocator();
    let mut old =
        service(json!({"type": "NodePort", "clusterIP": "10.0.0.9", "ports": [{"port": 80, "nodePort": 30001}]}));
    let allocation = allocator.allocate(&mut old, None, false).expect("all must be free");
    allocator.commit(allocation);
    let mut new = old.clone();
    new["spec"]["type"] = json!("ExternalName");
    let wants =
        || service(json!({"type": "NodePort", "clusterIP": "10.0.0.9", "ports": [{"port": 80, "nodePort": 30001}]}));

    let failed = allocator.allocate(&mut new.clone(), Some(&old), false).expect("it must be possible");
    allocator.revert(failed);
    assert_ne!(error(allocator.allocate(&mut wants(), None, false)), "");

    let done = allocator.allocate(&mut new, Some(&old), false).expect("it must be possible");
    allocator.commit(done);
    assert_eq!(error(allocator.allocate(&mut wants(), None, false)), "");
}

#[test]
fn a_put_may_omit_allocated_node_ports() {
    let mut allocator = allocator();
    let mut old = service(json!({"type": "NodePort", "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}));
    let allocation = allocator.allocate(&mut old, None, false).expect("all must be free");
    allocator.commit(allocation);
    let mut new = service(json!({"type": "NodePort", "ports": [{"name": "b", "port": 3}, {"name": "c", "port": 4}]}));
    let allocation = allocator.allocate(&mut new, Some(&old), false).expect("all must be free");
    assert_eq!(new["spec"]["clusterIP"], old["spec"]["clusterIP"]);
    assert_eq!(new["spec"]["ports"][0]["nodePort"], old["spec"]["ports"][1]["nodePort"]);
    assert_eq!(allocation.released_ports, [number(&old, "/spec/ports/0/nodePort") as u32]);
    assert_eq!(allocation.taken_ports, [number(&new, "/spec/ports/1/nodePort") as u32]);
    allocator.commit(allocation);
}

proptest! {
    #[test]
    fn no_two_services_share_an_address_or_a_port(steps in prop::collection::vec((0u8..4, any::<u16>()), 0..80)) {
        let mut allocator = ServiceAllocator::new("10.9.0.0/27").expect("the network must be fine").with_seed(3);
        let mut services: Vec<Value> = Vec::new();
        for (step, random) in steps {
            let kind = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"][usize::from(random % 4)];
            let spec = service(json!({"type": kind, "externalTrafficPolicy": "Local"}));
            let at = usize::from(random) % services.len().max(1);
            match step {
                0 | 1 => {
                    let mut new = spec;
                    if let Ok(allocation) = allocator.allocate(&mut new, None, false) {
                        allocator.commit(allocation);
                        services.push(new);
                    }
                }
                2 if !services.is_empty() => {
                    let mut new = spec;
                    if let Ok(allocation) = allocator.allocate(&mut new, Some(&services[at]), false) {
                        if random % 3 == 0 {
                            allocator.revert(allocation);
                        } else {
                            allocator.commit(allocation);
                            services[at] = new;
                        }
                    }
                }
                3 if !services.is_empty() => allocator.release(&services.swap_remove(at)),
                _ => {}
            }
            let mut seen = HashSet::new();
            for service in &services {
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
        for service in &services {
            allocator.release(service);
        }
        let mut free = 0;
        while let Ok(allocation) = allocator.allocate(&mut service(json!({})), None, false) {
            allocator.commit(allocation);
            free += 1;
        }
        prop_assert_eq!(free, 30, "every address must be free again");
    }
}
