//! Endpoints: the older list of addresses behind a service.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::names::{ip_warnings, is_valid_ip_legacy};

use super::columns_table::network;
use super::service::endpoint_ip;
use crate::check;
use crate::object::{integer, items, set_default_text, text};
use crate::strategy::{Column, Strategy};

/// The strategy of Endpoints.
#[derive(Debug, Clone, Copy)]
pub struct Endpoints;

impl Strategy for Endpoints {
    fn default(&self, object: &mut Value) {
        for subset in object.pointer_mut("/subsets").and_then(Value::as_array_mut).into_iter().flatten() {
            for port in subset.pointer_mut("/ports").and_then(Value::as_array_mut).into_iter().flatten() {
                set_default_text(port, "/protocol", "TCP");
            }
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let path = Path::new("subsets");
        items(object, "/subsets")
            .iter()
            .enumerate()
            .flat_map(|(i, subset)| subset_errors(&path.index(i), subset))
            .collect()
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        // What older servers accepted may stay as it is.
        if items(object, "/subsets") == items(old, "/subsets") { ErrorList::new() } else { self.validate(object) }
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let label = object.pointer("/metadata/labels/endpoints.kubernetes.io~1managed-by");
        if label.is_some_and(|manager| manager == "endpoint-controller") {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        for (i, subset) in items(object, "/subsets").iter().enumerate() {
            for list in ["addresses", "notReadyAddresses"] {
                let path = Path::new("subsets").index(i).child(list);
                for (j, address) in items(subset, &format!("/{list}")).iter().enumerate() {
                    warnings.extend(ip_warnings(&path.index(j).child("ip"), text(address, "/ip")));
                }
            }
        }
        warnings
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn columns(&self) -> &'static [Column] {
        network::ENDPOINTS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        network::endpoints(object, now)
    }
}

fn subset_errors(path: &Path, subset: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let lists = ["addresses", "notReadyAddresses"];
    if lists.iter().all(|list| items(subset, &format!("/{list}")).is_empty()) {
        errors.push(FieldError::required(path, "must specify `addresses` or `notReadyAddresses`"));
    }
    for list in lists {
        for (i, address) in items(subset, &format!("/{list}")).iter().enumerate() {
            let path = path.child(list).index(i);
            let ip = text(address, "/ip");
            errors.extend(is_valid_ip_legacy(&path.child("ip"), ip, true));
            let hostname = text(address, "/hostname");
            if !hostname.is_empty() {
                errors.extend(check::dns_label(&path.child("hostname"), hostname));
            }
            if let Some(node) = address.get("nodeName").and_then(Value::as_str) {
                errors.extend(check::dns_subdomain(&path.child("nodeName"), node));
            }
            errors.extend(endpoint_ip(&path.child("ip"), ip));
        }
    }
    let ports = items(subset, "/ports");
    for (i, port) in ports.iter().enumerate() {
        let path = path.child("ports").index(i);
        let name = text(port, "/name");
        if !name.is_empty() {
            errors.extend(check::dns_label(&path.child("name"), name));
        } else if ports.len() > 1 {
            errors.push(FieldError::required(&path.child("name"), ""));
        }
        errors.extend(check::port_number(&path.child("port"), integer(port, "/port").unwrap_or_default()));
        errors.extend(check::protocol(&path.child("protocol"), text(port, "/protocol")));
        if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
            errors.extend(check::qualified_name(&path.child("appProtocol"), protocol));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use serde_json::json;

    #[test]
    fn addresses_and_ports_are_checked() {
        let object = json!({"subsets": [
            {"addresses": [{"ip": "127.0.0.1"}, {"ip": "x"}], "ports": [{"port": 0, "protocol": "TCP"}]}, {}]});
        expect![[r#"
            subsets[0].addresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)
            subsets[0].addresses[1].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
            subsets[0].addresses[1].ip: Invalid value: "x": must be a valid IP address
            subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive
            subsets[1]: Required value: must specify `addresses` or `notReadyAddresses`"#]]
        .assert_eq(&Endpoints.validate(&object).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
        assert!(Endpoints.validate_update(&object, &object).is_empty());
    }

    #[test]
    fn ports_speak_tcp_unless_told_otherwise() {
        let mut object = json!({"subsets": [{"ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]}]});
        Endpoints.default(&mut object);
        let expected = json!([{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]);
        assert_eq!(object["subsets"][0]["ports"], expected);
    }
}
