use expect_test::{Expect, expect};

use super::allocator::{AllocationError, ServiceAllocator};
use super::*;

/// Returns a service after defaulting, allocation and preparation, and its validation errors.
fn create(mut service: Value) -> (Value, String) {
    Service.default(&mut service);
    match ServiceAllocator::default().with_seed(1).allocate(&mut service, None, false) {
        Ok(_) => {}
        Err(AllocationError::Invalid(errors)) => return (service, show(errors)),
        Err(AllocationError::Internal(message)) => return (service, message),
    }
    Service.prepare_for_create(&mut service, &WriteContext::test());
    let errors = show(Service.validate(&service));
    (service, errors)
}

fn show(errors: ErrorList) -> String {
    errors.iter().map(|error| format!("{error}\n")).collect()
}

fn check(spec: Value, expected: Expect) {
    expected.assert_eq(&create(json!({"metadata": {"name": "s"}, "spec": spec})).1);
}

fn update(spec: Value, change: Value) -> (Value, String) {
    let (old, errors) = create(json!({"metadata": {"name": "s"}, "spec": spec}));
    assert_eq!(errors, "");
    let mut service = old.clone();
    for (key, value) in change.as_object().expect("a change must be an object") {
        service["spec"][key] = value.clone();
    }
    Service.default(&mut service);
    let mut allocator = ServiceAllocator::default().with_seed(2);
    allocator.observe("n/s", Some(&old));
    match allocator.allocate(&mut service, Some(&old), false) {
        Ok(allocation) => allocator.release(allocation),
        Err(error) => return (service, error.to_string()),
    }
    Service.prepare_for_update(&mut service, &old, &WriteContext::test());
    let errors = show(Service.validate_update(&service, &old));
    (service, errors)
}

#[test]
fn a_minimal_service_is_fully_defaulted() {
    let (service, errors) = create(json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}));
    assert_eq!(errors, "");
    let ip = text(&service, "/spec/clusterIP");
    assert!(ip.starts_with("10.0.0."), "{ip}");
    assert_eq!(
        service["spec"],
        json!({
            "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "clusterIP": ip, "clusterIPs": [ip], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        })
    );
    let mut again = service.clone();
    Service.default(&mut again);
    assert_eq!(again, service, "defaulting must be idempotent");
}

#[test]
fn services_get_the_values_their_type_needs() {
    let (headless, _) = create(json!({"spec": {"clusterIP": "None"}}));
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    assert_eq!(headless["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    assert_eq!(headless["spec"]["ipFamilyPolicy"], "RequireDualStack");

    let (selected, _) = create(json!({"spec": {"clusterIP": "None", "selector": {"a": "b"}}}));
    assert_eq!(selected["spec"]["ipFamilies"], json!(["IPv4"]));

    let (external, errors) = create(json!({"spec": {"type": "ExternalName", "externalName": "db.example.com."}}));
    assert_eq!(errors, "");
    let expected = json!({"type": "ExternalName", "sessionAffinity": "None", "externalName": "db.example.com."});
    assert_eq!(external["spec"], expected);

    let balanced = json!({"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [
        {"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP"}]}});
    let (balanced, errors) = create(balanced);
    assert_eq!(errors, "");
    assert_eq!(balanced["spec"]["allocateLoadBalancerNodePorts"], true);
    assert_eq!(balanced["spec"]["ports"][0]["nodePort"], balanced["spec"]["ports"][1]["nodePort"]);
    assert_ne!(integer(&balanced, "/spec/healthCheckNodePort"), None);

    let (sticky, _) = create(json!({"spec": {"sessionAffinity": "ClientIP", "ports": [{"port": 1}]}}));
    assert_eq!(sticky["spec"]["sessionAffinityConfig"], json!({"clientIP": {"timeoutSeconds": 10800}}));
}

#[test]
fn ports_are_checked() {
    check(
        json!({"selector": {"a": "b"}}),
        expect![[r#"
        spec.ports: Required value
    "#]],
    );
    check(
        json!({"ports": [{"port": 0}, {"port": 70000, "protocol": "HTTP"}, {"name": "Up_per", "port": 1}]}),
        expect![[r#"
        spec.ports[0].name: Required value
        spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive
        spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive
        spec.ports[1].name: Required value
        spec.ports[1].port: Invalid value: 70000: must be between 1 and 65535, inclusive
        spec.ports[1].protocol: Unsupported value: "HTTP": supported values: "SCTP", "TCP", "UDP"
        spec.ports[1].targetPort: Invalid value: 70000: must be between 1 and 65535, inclusive
        spec.ports[2].name: Invalid value: "Up_per": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
    "#]],
    );
    check(
        json!({"ports": [{"name": "a", "port": 1, "targetPort": "no_port", "nodePort": 30001}, {"name": "a", "port": 1}]}),
        expect![[r#"
            spec.ports[0].targetPort: Invalid value: "no_port": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)
            spec.ports[1].name: Duplicate value: "a"
            spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'
            spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":1,"TargetPort":0,"NodePort":0}
        "#]],
    );
}

#[test]
fn enumerated_fields_are_checked() {
    let ports = json!([{"port": 1}]);
    check(
        json!({"type": "Magic", "ports": ports, "sessionAffinity": "Cookie"}),
        expect![[r#"
        spec.sessionAffinity: Unsupported value: "Cookie": supported values: "ClientIP", "None"
        spec.type: Unsupported value: "Magic": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"
    "#]],
    );
    check(
        json!({"ports": ports, "internalTrafficPolicy": "x", "externalTrafficPolicy": "Local", "trafficDistribution": "y",
            "healthCheckNodePort": 5, "loadBalancerClass": "c", "allocateLoadBalancerNodePorts": true,
            "loadBalancerSourceRanges": ["10.0.0.1/8"]}),
        expect![[r#"
            spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'
            spec.LoadBalancerSourceRanges[0]: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix length
            spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'
            spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'
            spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services
            spec.healthCheckNodePort: Invalid value: 5: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'
            spec.internalTrafficPolicy: Unsupported value: "x": supported values: "Cluster", "Local"
            spec.trafficDistribution: Unsupported value: "y": supported values: "PreferClose", "PreferSameZone", "PreferSameNode"
        "#]],
    );
    check(
        json!({"type": "ExternalName"}),
        expect![[r#"
        spec.externalName: Required value
    "#]],
    );
    check(
        json!({"type": "NodePort", "clusterIP": "None", "ports": ports}),
        expect![[r#"
        spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for NodePort services
    "#]],
    );
}

#[test]
fn addresses_are_checked() {
    let ports = json!([{"port": 1}]);
    check(
        json!({"ports": ports, "externalIPs": ["1.2.3", "127.0.0.1", "01.2.3.4", "0.0.0.0", "169.254.1.1", "224.0.0.1"]}),
        expect![[r#"
        spec.externalIPs[0]: Invalid value: "1.2.3": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
        spec.externalIPs[1]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)
        spec.externalIPs[2]: Invalid value: "01.2.3.4": must not have leading 0s
        spec.externalIPs[3]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)
        spec.externalIPs[4]: Invalid value: "169.254.1.1": may not be in the link-local range (169.254.0.0/16, fe80::/10)
        spec.externalIPs[5]: Invalid value: "224.0.0.1": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)
    "#]],
    );
    check(
        json!({"ports": ports, "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.8"]}),
        expect![[r#"
        spec.clusterIPs: Invalid value: ["10.0.0.8"]: first value must match `clusterIP`
    "#]],
    );
    check(
        json!({"ports": ports, "clusterIP": "banana", "ipFamilies": ["IPv5"], "ipFamilyPolicy": "Triple"}),
        expect![[r#"
        spec.ipFamilies[0]: Unsupported value: "IPv5": supported values: "IPv4", "IPv6"
        spec.ipFamilyPolicy: Unsupported value: "Triple": supported values: "PreferDualStack", "RequireDualStack", "SingleStack"
        spec.clusterIPs[0]: Invalid value: "banana": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
    "#]],
    );
    check(
        json!({"ports": ports, "ipFamilies": ["IPv6"], "ipFamilyPolicy": "RequireDualStack"}),
        expect![[r#"
        spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services
        spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster
    "#]],
    );
    check(
        json!({"ports": ports, "clusterIP": "192.168.0.1"}),
        expect![[r#"
        spec.clusterIPs: Invalid value: ["192.168.0.1"]: failed to allocate IP 192.168.0.1: the provided network does not match the current range
    "#]],
    );
}

#[test]
fn the_address_of_a_service_never_changes() {
    let (service, errors) =
        update(json!({"clusterIP": "10.0.0.5", "ports": [{"port": 1}]}), json!({"clusterIP": "10.0.0.6"}));
    assert_eq!(service["spec"]["clusterIPs"], json!(["10.0.0.6"]), "the plural follows the singular");
    expect![[r#"
        spec.clusterIPs[0]: Invalid value: ["10.0.0.6"]: may not change once set
    "#]]
    .assert_eq(&errors);
    // A PUT that omits it keeps it.
    let change = json!({"clusterIP": null, "clusterIPs": null, "ipFamilies": null, "ipFamilyPolicy": null});
    let (service, errors) = update(json!({"clusterIP": "10.0.0.5", "ports": [{"port": 1}]}), change);
    assert_eq!((errors.as_str(), &service["spec"]["clusterIP"]), ("", &json!("10.0.0.5")));
    assert_eq!(service["spec"]["ipFamilyPolicy"], "SingleStack");
}

#[test]
fn a_change_of_type_drops_the_fields_of_the_old_type() {
    let balanced = json!({"type": "LoadBalancer", "loadBalancerClass": "a.b/c", "externalTrafficPolicy": "Local",
        "ports": [{"port": 1}]});
    let (service, errors) = update(balanced.clone(), json!({"type": "ClusterIP"}));
    assert_eq!(errors, "");
    for gone in ["allocateLoadBalancerNodePorts", "loadBalancerClass", "externalTrafficPolicy", "healthCheckNodePort"] {
        assert!(service["spec"].get(gone).is_none(), "{gone}");
    }
    assert!(service["spec"]["ports"][0].get("nodePort").is_none());

    let (service, errors) = update(balanced.clone(), json!({"type": "ExternalName", "externalName": "a.example.com"}));
    assert_eq!(errors, "");
    assert_eq!(
        service["spec"],
        json!({"type": "ExternalName", "externalName": "a.example.com", "sessionAffinity": "None",
            "ports": [{"port": 1, "protocol": "TCP", "targetPort": 1}]})
    );
    let (_, errors) = update(balanced, json!({"loadBalancerClass": "a.b/d"}));
    expect![[r#"
        spec.loadBalancerClass: Invalid value: "a.b/d": may not change once set
    "#]]
    .assert_eq(&errors);
}

#[test]
fn status_is_checked() {
    let service = json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [
        {"ip": "bad"}, {"ip": "1.2.3.4", "ipMode": "Odd"}, {"ipMode": "VIP"}, {"hostname": "1.2.3.4"}]}}});
    expect![[r#"
        status.loadBalancer.ingress[0].ip: Invalid value: "bad": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
        status.loadBalancer.ingress[0].ipMode: Required value: must be specified when `ip` is set
        status.loadBalancer.ingress[1].ipMode: Unsupported value: "Odd": supported values: "Proxy", "VIP"
        status.loadBalancer.ingress[2].ipMode: Forbidden: may not be specified when `ip` is not set
        status.loadBalancer.ingress[3].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address
    "#]]
    .assert_eq(&show(Service.validate_subresource_update("status", &service, &json!({}))));
}

#[test]
fn questionable_services_cause_warnings() {
    let service = json!({"metadata": {"annotations": {"service.kubernetes.io/topology-aware-hints": "auto"}}, "spec": {
        "type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"], "loadBalancerIP": "1.2.3.4",
        "externalIPs": ["1.2.3.4"], "sessionAffinity": "ClientIP", "externalName": "x", "trafficDistribution": "PreferClose"}});
    expect![[r#"
        annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead
        spec.loadBalancerIP is ignored for headless services
        spec.externalIPs is ignored for headless services
        spec.SessionAffinity is ignored for headless services
        spec.externalName is ignored when spec.type is not "ExternalName"
        spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone""#]]
    .assert_eq(&Service.warnings(&service, None).join("\n"));
}

#[test]
fn rows_are_printed_as_by_kubectl() {
    for (spec, status, expected) in [
        (
            json!({"type": "ClusterIP", "clusterIPs": ["None"], "ports": [{"port": 80, "protocol": "TCP"}]}),
            json!({}),
            json!(["s", "ClusterIP", "None", "<none>", "80/TCP", "<unknown>", "<none>"]),
        ),
        (
            json!({"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"], "selector": {"a": "b"},
            "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30001}, {"port": 53, "protocol": "UDP"}]}),
            json!({}),
            json!(["s", "LoadBalancer", "10.0.0.1", "<pending>", "80:30001/TCP,53/UDP", "<unknown>", "a=b"]),
        ),
        (
            json!({"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]}),
            json!({"loadBalancer": {"ingress": [{"hostname": "x.y"}, {"ip": "1.1.1.1"}]}}),
            json!(["s", "LoadBalancer", "<none>", "1.1.1.1,x.y,9.9.9.9", "<none>", "<unknown>", "<none>"]),
        ),
        (
            json!({"type": "ExternalName", "externalName": "e.x"}),
            json!({}),
            json!(["s", "ExternalName", "<none>", "e.x", "<none>", "<unknown>", "<none>"]),
        ),
    ] {
        let service = json!({"metadata": {"name": "s"}, "spec": spec, "status": status});
        assert_eq!(json!(cells(&service, Timestamp::UNIX_EPOCH)), expected);
    }
}
