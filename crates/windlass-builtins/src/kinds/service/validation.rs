//! Validation of services whose cluster IPs and ports are allocated.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::Value;
use windlass_schema::field::{ErrorKind, ErrorList, FieldError, Path};
use windlass_schema::names::{is_valid_cidr_legacy, is_valid_ip_legacy, parse_ip_sloppy};

use super::{cluster_ips, is_externally_accessible, is_headless, needs_health_check, texts};
use crate::object::{entries, integer, is_set, items, map, text};
use crate::validate;

const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const MAX_AFFINITY_SECONDS: i64 = 86400;

/// Validates everything but the metadata; `old` is the previous service on update.
pub(super) fn service(service: &Value, old: Option<&Value>) -> ErrorList {
    let spec = Path::new("spec");
    let kind = text(service, "/spec/type");
    let mut errors = topology_annotations(service);
    if items(service, "/spec/ports").is_empty() && !is_headless(service) && kind != "ExternalName" {
        errors.push(FieldError::required(&spec.child("ports"), ""));
    }
    errors.extend(type_specific(service));
    errors.extend(ports(service));
    errors.extend(validate::labels(&spec.child("selector"), entries(service, "/spec/selector")));
    errors.extend(session_affinity(service));
    errors.extend(cluster_ips::validate(service, old));
    errors.extend(external_ips(service, old));
    if kind.is_empty() {
        errors.push(FieldError::required(&spec.child("type"), ""));
    } else if !["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"].contains(&kind) {
        let supported = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
        errors.push(FieldError::not_supported(&spec.child("type"), &kind.into(), &supported));
    }
    errors.extend(port_numbers(service));
    errors.extend(source_ranges(service, old));
    let allocates = is_set(service, "/spec/allocateLoadBalancerNodePorts");
    if allocates && kind != "LoadBalancer" {
        errors.push(only_for_load_balancers(&spec.child("allocateLoadBalancerNodePorts")));
    } else if !allocates && kind == "LoadBalancer" {
        errors.push(FieldError::required(&Path::new("allocateLoadBalancerNodePorts"), ""));
    }
    errors.extend(load_balancer_class(service));
    errors.extend(external_traffic_policy(service));
    errors.extend(internal_traffic_policy(service));
    errors.extend(traffic_distribution(service));
    errors
}

/// Validates the load balancer status.
pub(super) fn status(service: &Value, old: &Value) -> ErrorList {
    let pointer = "/status/loadBalancer/ingress";
    let path = Path::new("status").child("loadBalancer").child("ingress");
    let ingress = items(service, pointer);
    if text(service, "/spec/type") != "LoadBalancer" && !ingress.is_empty() {
        return vec![FieldError::forbidden(&path, "may only be used when `spec.type` is 'LoadBalancer'")];
    }
    let known: Vec<_> = items(old, pointer).iter().map(|entry| text(entry, "/ip")).collect();
    let mut errors = ErrorList::new();
    for (i, entry) in ingress.iter().enumerate() {
        let path = path.index(i);
        let ip = text(entry, "/ip");
        if !ip.is_empty() {
            errors.extend(legacy_ip(&path.child("ip"), ip, &known));
        }
        let mode_path = path.child("ipMode");
        match entry.get("ipMode").filter(|mode| !mode.is_null()) {
            None if !ip.is_empty() => {
                errors.push(FieldError::required(&mode_path, "must be specified when `ip` is set"));
            }
            Some(_) if ip.is_empty() => {
                errors.push(FieldError::forbidden(&mode_path, "may not be specified when `ip` is not set"));
            }
            Some(mode) if mode != "VIP" && mode != "Proxy" => {
                errors.push(FieldError::not_supported(&mode_path, mode, &["Proxy", "VIP"]));
            }
            _ => {}
        }
        let hostname = text(entry, "/hostname");
        if !hostname.is_empty() {
            let path = path.child("hostname");
            errors.extend(validate::dns_subdomain(&path, hostname));
            if parse_ip_sloppy(hostname).is_some() {
                let detail = "must be a DNS name, not an IP address";
                errors.push(FieldError::invalid(&path, &hostname.into(), detail));
            }
        }
    }
    errors
}

/// Validates an IP address, unless it was accepted earlier.
pub(super) fn legacy_ip(path: &Path, value: &str, known: &[&str]) -> ErrorList {
    if known.contains(&value) { ErrorList::new() } else { is_valid_ip_legacy(path, value, true) }
}

/// Validates the load balancer class, which only load balancers may have.
pub(super) fn load_balancer_class(service: &Value) -> ErrorList {
    let path = Path::new("spec").child("loadBalancerClass");
    let Some(class) = service.pointer("/spec/loadBalancerClass").filter(|class| !class.is_null()) else {
        return ErrorList::new();
    };
    if text(service, "/spec/type") == "LoadBalancer" {
        return validate::qualified_name(&path, class.as_str().unwrap_or_default());
    }
    vec![only_for_load_balancers(&path)]
}

fn only_for_load_balancers(path: &Path) -> FieldError {
    FieldError::forbidden(path, "may only be used when `type` is 'LoadBalancer'")
}

fn topology_annotations(service: &Value) -> ErrorList {
    let annotation = |key| map(service, "/metadata/annotations").and_then(|all| all.get(key));
    match (annotation(TOPOLOGY_HINTS), annotation(TOPOLOGY_MODE)) {
        (Some(hints), Some(mode)) if hints != mode => {
            let path = Path::new("metadata").child("annotations").key(TOPOLOGY_MODE);
            let detail = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
            vec![FieldError::invalid(&path, mode, detail)]
        }
        _ => ErrorList::new(),
    }
}

fn type_specific(service: &Value) -> ErrorList {
    let spec = Path::new("spec");
    let mut errors = ErrorList::new();
    match text(service, "/spec/type") {
        kind @ ("LoadBalancer" | "NodePort") if is_headless(service) => {
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.push(FieldError::invalid(&spec.child("clusterIPs").index(0), &"None".into(), detail));
        }
        "ExternalName" => {
            let detail = "may not be set for ExternalName services";
            for field in ["clusterIPs", "ipFamilies"] {
                if !items(service, &format!("/spec/{field}")).is_empty() {
                    errors.push(FieldError::forbidden(&spec.child(field), detail));
                }
            }
            if is_set(service, "/spec/ipFamilyPolicy") {
                errors.push(FieldError::forbidden(&spec.child("ipFamilyPolicy"), detail));
            }
            // A trailing dot marks a fully qualified name.
            let full = text(service, "/spec/externalName");
            let path = spec.child("externalName");
            match full.strip_suffix('.').unwrap_or(full) {
                "" => errors.push(FieldError::required(&path, "")),
                name => errors.extend(validate::dns_subdomain(&path, name)),
            }
        }
        _ => {}
    }
    errors
}

fn ports(service: &Value) -> ErrorList {
    let list = items(service, "/spec/ports");
    let mut names = HashSet::new();
    let mut errors = ErrorList::new();
    for (i, port) in list.iter().enumerate() {
        let path = Path::new("spec").child("ports").index(i);
        let name = text(port, "/name");
        if !name.is_empty() {
            errors.extend(validate::dns_label(&path.child("name"), name));
            if !names.insert(name) {
                errors.push(FieldError::duplicate(&path.child("name"), &name.into()));
            }
        } else if list.len() > 1 {
            errors.push(FieldError::required(&path.child("name"), ""));
        }
        errors.extend(validate::port_number(&path.child("port"), integer(port, "/port").unwrap_or_default()));
        errors.extend(validate::protocol(&path.child("protocol"), text(port, "/protocol")));
        let target = port.get("targetPort").unwrap_or(&Value::Null);
        errors.extend(validate::port_number_or_name(&path.child("targetPort"), target));
        if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
            errors.extend(validate::qualified_name(&path.child("appProtocol"), protocol));
        }
    }
    errors
}

/// Validates that ports do not conflict.
fn port_numbers(service: &Value) -> ErrorList {
    let path = Path::new("spec").child("ports");
    let list = items(service, "/spec/ports");
    let node_port = |port| integer(port, "/nodePort").filter(|number| *number != 0);
    let mut errors = ErrorList::new();
    if text(service, "/spec/type") == "ClusterIP" {
        for (i, _) in list.iter().enumerate().filter(|(_, port)| node_port(port).is_some()) {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(&path.index(i).child("nodePort"), detail));
        }
    }
    let mut seen = HashSet::new();
    for (i, port) in list.iter().enumerate() {
        if let Some(number) = node_port(port)
            && !seen.insert((text(port, "/protocol"), number))
        {
            errors.push(FieldError::duplicate(&path.index(i).child("nodePort"), &number.into()));
        }
    }
    let mut seen = HashSet::new();
    for (i, port) in list.iter().enumerate() {
        let (protocol, number) = (text(port, "/protocol"), integer(port, "/port").unwrap_or_default());
        if !seen.insert((protocol, number)) {
            // kube-apiserver prints its internal struct here.
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}",
                Value::from(protocol)
            );
            let error = FieldError::duplicate(&path.index(i), &Value::Null);
            errors.push(FieldError { kind: ErrorKind::Duplicate, value: Some(shown), ..error });
        }
    }
    errors
}

fn session_affinity(service: &Value) -> ErrorList {
    let spec = Path::new("spec");
    let config = spec.child("sessionAffinityConfig");
    let mut errors = ErrorList::new();
    match text(service, "/spec/sessionAffinity") {
        "" => errors.push(FieldError::required(&spec.child("sessionAffinity"), "")),
        "ClientIP" => {
            let detail = "when session affinity type is ClientIP";
            let client = config.child("clientIP");
            let seconds = client.child("timeoutSeconds");
            match integer(service, "/spec/sessionAffinityConfig/clientIP/timeoutSeconds") {
                Some(timeout) if timeout <= 0 || timeout > MAX_AFFINITY_SECONDS => {
                    let detail = format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}");
                    errors.push(FieldError::invalid(&seconds, &timeout.into(), detail));
                }
                Some(_) => {}
                None if !is_set(service, "/spec/sessionAffinityConfig") => {
                    errors.push(FieldError::required(&config, detail));
                }
                None if !is_set(service, "/spec/sessionAffinityConfig/clientIP") => {
                    errors.push(FieldError::required(&client, detail));
                }
                None => errors.push(FieldError::required(&seconds, detail)),
            }
        }
        "None" if is_set(service, "/spec/sessionAffinityConfig") => {
            errors.push(FieldError::forbidden(&config, "must not be set when session affinity is None"));
        }
        "None" => {}
        other => {
            let path = spec.child("sessionAffinity");
            errors.push(FieldError::not_supported(&path, &other.into(), &["ClientIP", "None"]));
        }
    }
    errors
}

fn external_ips(service: &Value, old: Option<&Value>) -> ErrorList {
    let path = Path::new("spec").child("externalIPs");
    let known = old.map(|old| texts(old, "/spec/externalIPs")).unwrap_or_default();
    let mut errors = ErrorList::new();
    for (i, ip) in texts(service, "/spec/externalIPs").into_iter().enumerate() {
        let path = path.index(i);
        let malformed = legacy_ip(&path, ip, &known);
        if malformed.is_empty() {
            errors.extend(endpoint_ip(&path, ip));
        } else {
            errors.extend(malformed);
        }
    }
    errors
}

/// The error about a loopback address.
pub(crate) const LOOPBACK: &str = "may not be in the loopback range (127.0.0.0/8, ::1/128)";

/// Validates an IP address as an endpoint.
pub(crate) fn endpoint_ip(path: &Path, text: &str) -> ErrorList {
    let invalid = |detail: String| FieldError::invalid(path, &text.into(), detail);
    let Some(ip) = parse_ip_sloppy(text).map(|ip| ip.to_canonical()) else {
        return vec![invalid("must be a valid IP address".to_owned())];
    };
    let (link_local, link_local_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.octets()[0] == 0xff && ip.octets()[1] & 0x0f == 0x02),
    };
    let mut errors = ErrorList::new();
    if ip.is_unspecified() {
        errors.push(invalid(format!("may not be unspecified ({text})")));
    }
    if ip.is_loopback() {
        errors.push(invalid(LOOPBACK.to_owned()));
    }
    if link_local {
        errors.push(invalid("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()));
    }
    if link_local_multicast {
        errors.push(invalid("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned()));
    }
    errors
}

fn source_ranges(service: &Value, old: Option<&Value>) -> ErrorList {
    let balanced = text(service, "/spec/type") == "LoadBalancer";
    let ranges = texts(service, "/spec/loadBalancerSourceRanges");
    let mut errors = ErrorList::new();
    if !ranges.is_empty() {
        // The capital letter is kube-apiserver's.
        let path = Path::new("spec").child("LoadBalancerSourceRanges");
        if !balanced {
            errors.push(only_for_load_balancers(&path));
        }
        let known: Vec<_> = old
            .map(|old| texts(old, "/spec/loadBalancerSourceRanges"))
            .unwrap_or_default()
            .into_iter()
            .map(str::trim)
            .collect();
        for (i, range) in ranges.into_iter().map(str::trim).enumerate() {
            if !known.contains(&range) {
                errors.extend(is_valid_cidr_legacy(&path.index(i), range, true));
            }
        }
        return errors;
    }
    let annotation = |object: &Value| {
        let all = map(object, "/metadata/annotations")?;
        all.get(SOURCE_RANGES).map(|ranges| ranges.as_str().unwrap_or_default().to_owned())
    };
    let Some(ranges) = annotation(service) else { return errors };
    let path = Path::new("metadata").child("annotations").key(SOURCE_RANGES);
    if !balanced {
        errors.push(only_for_load_balancers(&path));
    }
    if old.and_then(annotation).as_ref() != Some(&ranges) && !ranges.trim().is_empty() {
        for range in ranges.trim().split(',') {
            errors.extend(is_valid_cidr_legacy(&path, range.trim(), true));
        }
    }
    errors
}

fn external_traffic_policy(service: &Value) -> ErrorList {
    let spec = Path::new("spec");
    let path = spec.child("externalTrafficPolicy");
    let policy = text(service, "/spec/externalTrafficPolicy");
    let mut errors = ErrorList::new();
    if !is_externally_accessible(service) {
        if !policy.is_empty() {
            let detail = "may only be set for externally-accessible services";
            errors.push(FieldError::invalid(&path, &policy.into(), detail));
        }
    } else if policy.is_empty() {
        errors.push(FieldError::required(&path, ""));
    } else if policy != "Cluster" && policy != "Local" {
        errors.push(FieldError::not_supported(&path, &policy.into(), &["Cluster", "Local"]));
    }
    let path = spec.child("healthCheckNodePort");
    let port = integer(service, "/spec/healthCheckNodePort").unwrap_or_default();
    if needs_health_check(service) {
        if port == 0 {
            errors.push(FieldError::required(&path, ""));
        } else {
            errors.extend(validate::port_number(&path, port));
        }
    } else if port != 0 {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(FieldError::invalid(&path, &port.into(), detail));
    }
    errors
}

fn internal_traffic_policy(service: &Value) -> Option<FieldError> {
    let path = Path::new("spec").child("internalTrafficPolicy");
    match service.pointer("/spec/internalTrafficPolicy").filter(|policy| !policy.is_null()) {
        None if matches!(text(service, "/spec/type"), "NodePort" | "LoadBalancer" | "ClusterIP") => {
            Some(FieldError::required(&path, ""))
        }
        Some(policy) if policy != "Cluster" && policy != "Local" => {
            Some(FieldError::not_supported(&path, policy, &["Cluster", "Local"]))
        }
        _ => None,
    }
}

fn traffic_distribution(service: &Value) -> Option<FieldError> {
    const SUPPORTED: &[&str] = &["PreferClose", "PreferSameZone", "PreferSameNode"];
    let choice = service.pointer("/spec/trafficDistribution").filter(|choice| !choice.is_null())?;
    let known = choice.as_str().is_some_and(|choice| SUPPORTED.contains(&choice));
    let path = Path::new("spec").child("trafficDistribution");
    (!known).then(|| FieldError::not_supported(&path, choice, SUPPORTED))
}
