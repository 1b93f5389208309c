//! EndpointSlices: a part of the endpoints of a service.

mod printer;

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::names::{
    ip_warnings, is_dns1123_label, is_dns1123_subdomain, is_valid_ip, is_valid_ip_legacy, is_valid_label_value,
    parse_ip_sloppy,
};

use super::service::endpoint_ip;
use crate::object::{copy, items, remove, set_default, text};
use crate::strategy::{Strategy, WriteContext};
use crate::validate;

pub(crate) use self::printer::PRINTER;

/// Strategy of EndpointSlices.
#[derive(Debug, Clone, Copy)]
pub struct EndpointSlice;

const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20000;
const MAX_HINTS: usize = 8;

impl Strategy for EndpointSlice {
    fn default(&self, object: &mut Value) {
        for port in object.pointer_mut("/ports").and_then(Value::as_array_mut).into_iter().flatten() {
            set_default(port, "/name", "");
            set_default(port, "/protocol", "TCP");
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        drop_topology(object);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = shape(object);
        errors.extend(endpoints(object));
        errors
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, _context: &WriteContext<'_>) {
        if items(object, "/endpoints") != items(old, "/endpoints") {
            drop_topology(object);
        }
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = shape(object);
        // Unchanged endpoints that an older server accepted are tolerated.
        if items(object, "/endpoints") != items(old, "/endpoints") {
            errors.extend(endpoints(object));
        }
        let kind = "/addressType";
        errors.extend(validate::immutable(&Path::new("addressType"), &copy(object, kind), &copy(old, kind)));
        errors
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() && text(object, "/addressType") == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        let managers = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];
        if managers.contains(&text(object, "/metadata/labels/endpointslice.kubernetes.io~1managed-by")) {
            return warnings;
        }
        for (i, endpoint) in items(object, "/endpoints").iter().enumerate() {
            let path = Path::new("endpoints").index(i).child("addresses");
            for (j, address) in items(endpoint, "/addresses").iter().enumerate() {
                warnings.extend(ip_warnings(&path.index(j), address.as_str().unwrap_or_default()));
            }
        }
        warnings
    }
}

/// Drops a field of older versions that this version does not accept.
fn drop_topology(object: &mut Value) {
    for i in 0..items(object, "/endpoints").len() {
        remove(object, &format!("/endpoints/{i}/deprecatedTopology"));
    }
}

/// Validates the address type and the ports.
fn shape(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("addressType");
    match text(object, "/addressType") {
        "" => errors.push(FieldError::required(&path, "")),
        "FQDN" | "IPv4" | "IPv6" => {}
        other => errors.push(FieldError::not_supported(&path, &other.into(), &["FQDN", "IPv4", "IPv6"])),
    }
    let path = Path::new("ports");
    let ports = items(object, "/ports");
    if ports.len() > MAX_PORTS {
        errors.push(FieldError::too_many(&path, ports.len(), MAX_PORTS));
        return errors;
    }
    let mut names = std::collections::HashSet::new();
    for (i, port) in ports.iter().enumerate() {
        let path = path.index(i);
        let name = text(port, "/name");
        if !name.is_empty() {
            errors.extend(validate::dns_label(&path.child("name"), name));
        }
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), &name.into()));
        }
        errors.extend(validate::protocol(&path.child("protocol"), text(port, "/protocol")));
        if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
            errors.extend(validate::qualified_name(&path.child("appProtocol"), protocol));
        }
    }
    errors
}

fn endpoints(object: &Value) -> ErrorList {
    let path = Path::new("endpoints");
    let list = items(object, "/endpoints");
    if list.len() > MAX_ENDPOINTS {
        return vec![FieldError::too_many(&path, list.len(), MAX_ENDPOINTS)];
    }
    let kind = text(object, "/addressType");
    let mut errors = ErrorList::new();
    for (i, endpoint) in list.iter().enumerate() {
        let path = path.index(i);
        let addresses = items(endpoint, "/addresses");
        let addresses_path = path.child("addresses");
        if addresses.is_empty() {
            errors.push(FieldError::required(&addresses_path, "must contain at least 1 address"));
        } else if addresses.len() > MAX_ADDRESSES {
            errors.push(FieldError::too_many(&addresses_path, addresses.len(), MAX_ADDRESSES));
        }
        for (j, address) in addresses.iter().enumerate() {
            errors.extend(address_errors(&addresses_path, j, address.as_str().unwrap_or_default(), kind));
        }
        if let Some(node) = endpoint.get("nodeName").and_then(Value::as_str) {
            errors.extend(validate::dns_subdomain(&path.child("nodeName"), node));
        }
        if let Some(hostname) = endpoint.get("hostname").and_then(Value::as_str) {
            errors.extend(validate::dns_label(&path.child("hostname"), hostname));
        }
        errors.extend(hints(&path.child("hints"), endpoint));
    }
    errors
}

fn address_errors(path: &Path, index: usize, address: &str, kind: &str) -> ErrorList {
    let at = path.index(index);
    let mut errors = match kind {
        "IPv4" => is_valid_ip_legacy(&at, address, true),
        "IPv6" => is_valid_ip(&at, address),
        "FQDN" => return domain_name(&at, address),
        _ => return ErrorList::new(),
    };
    if errors.is_empty() {
        let is_v6 = parse_ip_sloppy(address).is_some_and(|ip| ip.to_canonical().is_ipv6());
        if is_v6 != (kind == "IPv6") {
            errors.push(FieldError::invalid(path, &address.into(), format!("must be an {kind} address")));
        }
        errors.extend(endpoint_ip(&at, address));
    }
    errors
}

fn domain_name(path: &Path, full: &str) -> ErrorList {
    if full.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let name = full.strip_suffix('.').unwrap_or(full);
    let invalid = |value: &str, detail: String| vec![FieldError::invalid(path, &value.into(), detail)];
    let problems = is_dns1123_subdomain(name);
    if !problems.is_empty() {
        return invalid(name, problems.join(","));
    }
    if !name.contains('.') {
        return invalid(name, "should be a domain with at least two segments separated by dots".to_owned());
    }
    let bad = name.split('.').map(|label| (label, is_dns1123_label(label))).find(|(_, problems)| !problems.is_empty());
    bad.map(|(label, problems)| invalid(label, problems.join(","))).unwrap_or_default()
}

fn hints(path: &Path, endpoint: &Value) -> ErrorList {
    let rules: [(&str, validate::TextCheck); 2] =
        [("forZones", is_valid_label_value), ("forNodes", is_dns1123_subdomain)];
    let mut errors = ErrorList::new();
    for (list, rule) in rules {
        let path = path.child(list);
        let hints = items(endpoint, &format!("/hints/{list}"));
        if hints.len() > MAX_HINTS {
            errors.push(FieldError::too_many(&path, hints.len(), MAX_HINTS));
            return errors;
        }
        for (i, hint) in hints.iter().enumerate() {
            let path = path.index(i).child("name");
            let name = text(hint, "/name");
            if hints[..i].iter().any(|other| text(other, "/name") == name) {
                errors.push(FieldError::duplicate(&path, &name.into()));
            }
            errors.extend(validate::each(&path, name, rule(name)));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use serde_json::json;

    fn check(object: Value, expected: Expect) {
        let errors = EndpointSlice.validate(&object);
        expected.assert_eq(&errors.iter().map(|error| format!("{error}\n")).collect::<String>());
    }

    #[test]
    fn addresses_must_fit_their_type() {
        check(
            json!({"addressType": "IPv7", "endpoints": [{"addresses": []}]}),
            expect![[r#"
                addressType: Unsupported value: "IPv7": supported values: "FQDN", "IPv4", "IPv6"
                endpoints[0].addresses: Required value: must contain at least 1 address
            "#]],
        );
        check(
            json!({"addressType": "IPv6", "endpoints": [{"addresses": ["10.1.1.1"]}], "ports": [{"port": 80, "protocol": "X"}]}),
            expect![[r#"
                ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"
                endpoints[0].addresses: Invalid value: "10.1.1.1": must be an IPv6 address
            "#]],
        );
        check(
            json!({"addressType": "FQDN", "endpoints": [{"addresses": ["a.b.", "single", ""]}]}),
            expect![[r#"
                endpoints[0].addresses[1]: Invalid value: "single": should be a domain with at least two segments separated by dots
                endpoints[0].addresses[2]: Required value
            "#]],
        );
    }

    #[test]
    fn the_address_type_never_changes() {
        let old = json!({"addressType": "IPv4", "endpoints": null});
        let errors = EndpointSlice.validate_update(&json!({"addressType": "FQDN", "endpoints": null}), &old);
        assert_eq!(errors[0].to_string(), "addressType: Invalid value: \"FQDN\": field is immutable");
    }

    #[test]
    fn ports_get_an_empty_name_and_topology_is_dropped() {
        let mut object = json!({"ports": [{"port": 80}], "endpoints": [{"addresses": ["1.1.1.1"], "deprecatedTopology": {"a": "b"}}]});
        EndpointSlice.default(&mut object);
        EndpointSlice.prepare_for_create(&mut object, &WriteContext::test());
        assert_eq!(object["ports"][0], json!({"port": 80, "name": "", "protocol": "TCP"}));
        assert_eq!(object["endpoints"][0], json!({"addresses": ["1.1.1.1"]}));
    }
}
