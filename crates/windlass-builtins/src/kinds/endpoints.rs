//! Endpoints, the predecessor of EndpointSlices.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::names::{ip_warnings, is_valid_ip_legacy};

use super::service::{LOOPBACK, endpoint_ip};
use crate::columns::{AGE, Column, NAME, Printer, age, column, first_three, name};
use crate::object::{integer, items, set_default_text, text};
use crate::strategy::Strategy;
use crate::validate;

/// Strategy of Endpoints.
#[derive(Debug, Clone, Copy)]
pub struct Endpoints;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

/// Returns whether an error of Endpoints or an EndpointSlice concerns a loopback address, which is the address of a pod
/// if pods are processes of the server's machine.
pub fn is_about_loopback(error: &FieldError) -> bool {
    error.detail == LOOPBACK
}

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
        // Unchanged subsets that an older server accepted are tolerated.
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
                errors.extend(validate::dns_label(&path.child("hostname"), hostname));
            }
            if let Some(node) = address.get("nodeName").and_then(Value::as_str) {
                errors.extend(validate::dns_subdomain(&path.child("nodeName"), node));
            }
            errors.extend(endpoint_ip(&path.child("ip"), ip));
        }
    }
    let ports = items(subset, "/ports");
    for (i, port) in ports.iter().enumerate() {
        let path = path.child("ports").index(i);
        let name = text(port, "/name");
        if !name.is_empty() {
            errors.extend(validate::dns_label(&path.child("name"), name));
        } else if ports.len() > 1 {
            errors.push(FieldError::required(&path.child("name"), ""));
        }
        errors.extend(validate::port_number(&path.child("port"), integer(port, "/port").unwrap_or_default()));
        errors.extend(validate::protocol(&path.child("protocol"), text(port, "/protocol")));
        if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
            errors.extend(validate::qualified_name(&path.child("appProtocol"), protocol));
        }
    }
    errors
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in items(object, "/subsets") {
        let addresses = || items(subset, "/addresses").iter().map(|address| text(address, "/ip"));
        let ports = items(subset, "/ports");
        if ports.is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            let port = integer(port, "/port").unwrap_or_default();
            all.extend(addresses().map(|ip| match ip.contains(':') {
                true => format!("[{ip}]:{port}"),
                false => format!("{ip}:{port}"),
            }));
        }
    }
    let shown = match (items(object, "/subsets").is_empty(), all.is_empty()) {
        (true, _) => "<none>".to_owned(),
        (false, true) => String::new(),
        (false, false) => first_three(&all),
    };
    vec![name(object), shown.into(), age(object, now)]
}

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Endpoints",
        "string",
        "The set of all endpoints is the union of all subsets. Addresses are placed into subsets according to the IPs they share. A single address with multiple ports, some of which are ready and some of which are not (because they come from different containers) will result in the address being displayed in different subsets for the different ports. No address will appear in both Addresses and NotReadyAddresses in the same subset. Sets of addresses and ports that comprise a service.",
    ),
    AGE,
];

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
    fn ports_default_to_tcp() {
        let mut object = json!({"subsets": [{"ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]}]});
        Endpoints.default(&mut object);
        let expected = json!([{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]);
        assert_eq!(object["subsets"][0]["ports"], expected);
    }
}
